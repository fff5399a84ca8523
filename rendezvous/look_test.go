package rendezvous

import (
	"testing"
	"time"
)

func TestANodeThatEndedLeavesBehindHow(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a, c := b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
		ws := worlds(t, a.join(ctx), c.join(ctx))
		ep, _, err := Current(ctx, a.cli, "j")
		if err != nil {
			t.Fatal(err)
		}
		begun(t, a, c)
		c.Finished(3)
		c.Leave("its command has ended")
		places, err := Places(ctx, a.cli, "j", ep.Nonce)
		if err != nil || len(places) != 2 {
			t.Fatalf("%v, %v", places, err)
		}
		for _, p := range places {
			switch here := p.ID == c.me().ID; {
			case here && (!p.Over || p.Status == nil || *p.Status != 3):
				t.Errorf("c left %+v behind, want its status 3", p)
			case !here && p.Over:
				t.Errorf("a goes on, and its place says %+v", p)
			}
		}
		a.Leave("") // its status is not known
		last := b.store.connect(t)
		defer last.Close()
		if places, err = Places(ctx, last, "j", ep.Nonce); err != nil || !places[ws[0].Rank].Over ||
			places[ws[0].Rank].Status != nil && ws[0].Self.Host == "a" {
			t.Errorf("%+v, %v", places, err)
		}
	})
}

func TestWhoHasPostedIsReady(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 10*time.Second)
		a, c := b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
		ws := worlds(t, a.join(ctx), c.join(ctx))
		done := make(chan error, 1)
		go func() { _, err := a.Round(ctx, "go", nil, concat); done <- err }()
		for {
			ready, err := Ready(ctx, c.cli, "j", ws[0].Epoch, "go")
			if err != nil || ready[ws[1].Rank] {
				t.Fatalf("%v, %v: c has said nothing", ready, err)
			}
			if ready[ws[0].Rank] {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if _, err := c.Round(ctx, "go", nil, concat); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
