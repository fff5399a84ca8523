package companion

import (
	"context"
	"errors"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/rendezvous"
)

// partner is the other end of a client in this file.
type partner struct {
	news chan news
	late chan none // the answer to Join
}

func (p *partner) Next(_ none, out *news) error {
	*out = <-p.news
	return nil
}

func (p *partner) Join(_ time.Duration, w *rendezvous.World) error {
	<-p.late
	w.Rank = 7
	return nil
}

func (p *partner) Everyone(_ time.Duration, out *answer) error {
	out.All = []rendezvous.Partner{{Name: "b"}}
	return nil
}

func (p *partner) Posted(question, *answer) error { return sent(rendezvous.ErrUnreachable) }

// Round asks for two verdicts and returns both.
func (p *partner) Round(q question, out *answer) error {
	if v := string(q.Value); strings.Count(v, "+") < 2 {
		out.Posts = [][]byte{q.Value, []byte("+")}
	} else {
		out.Result = q.Value
	}
	return nil
}

// conversation returns a client and its partner, whose connection ends with the test.
func conversation(t *testing.T, onEvent func(rendezvous.Event)) (*Client, *partner, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	p := &partner{make(chan news), make(chan none)}
	s := rpc.NewServer()
	if err := s.RegisterName(service, p); err != nil {
		t.Fatal(err)
	}
	go s.ServeCodec(jsonrpc.NewServerCodec(theirs))
	c := connect(ours, onEvent)
	t.Cleanup(func() { ours.Close() })
	return c, p, theirs
}

func TestALateAnswerIsNotMistakenForTheNextOne(t *testing.T) {
	c, p, _ := conversation(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	given := errors.New("given up")
	cancel(given)
	if _, err := c.Join(ctx, time.Second); !errors.Is(err, given) {
		t.Errorf("a join that was given up returned %v", err)
	}
	close(p.late)
	all, err := c.Everyone(t.Context(), time.Second)
	if err != nil || len(all) != 1 || all[0].Name != "b" {
		t.Errorf("Everyone returned %v, %v", all, err)
	}
	if w, err := c.Join(t.Context(), time.Second); err != nil || w.Rank != 7 {
		t.Errorf("the next join returned %v, %v", w, err)
	}
}

func TestARoundReducesUntilItHasAResult(t *testing.T) {
	c, _, _ := conversation(t, nil)
	got, err := c.Round(t.Context(), "go", []byte("a"), time.Second, func(posts [][]byte) ([]byte, bool) {
		return []byte(string(posts[0]) + string(posts[1])), true
	})
	if err != nil || string(got) != "a++" {
		t.Errorf("the result is %q, %v", got, err)
	}
}

func TestAnErrorOfTheCompanionKeepsItsType(t *testing.T) {
	c, _, _ := conversation(t, nil)
	if _, err := c.Posted(t.Context(), "go", nil, time.Second); !errors.Is(err, rendezvous.ErrUnreachable) {
		t.Errorf("Posted returned %v", err)
	}
	if err := c.Handoff(t.Context()); err == nil || errors.Is(err, ErrDied) {
		t.Errorf("a method that the companion lacks returned %v", err)
	}
}

func TestEventsArriveInOrderAndTheFailureOutlivesTheCompanion(t *testing.T) {
	var seen []string
	c, p, conn := conversation(t, func(e rendezvous.Event) { seen = append(seen, e.Text) })
	for _, text := range []string{"1", "2", "3"} {
		p.news <- news{Event: &rendezvous.Event{Text: text}}
	}
	p.news <- news{}
	if diff := cmp.Diff([]string{"1", "2", "3"}, seen); diff != "" {
		t.Errorf("(-sent +seen):\n%s", diff)
	}
	p.news <- news{Failure: faultOf(rendezvous.ErrNoRoom)}
	p.news <- news{}
	conn.Close()
	<-c.done
	if _, err := c.Join(t.Context(), time.Second); !errors.Is(err, rendezvous.ErrNoRoom) {
		t.Errorf("Join returned %v", err)
	}
}

func TestACompanionThatDiesIsNotSilent(t *testing.T) {
	c, _, conn := conversation(t, nil)
	time.AfterFunc(10*time.Millisecond, func() { conn.Close() })
	if _, err := c.Join(t.Context(), time.Second); !errors.Is(err, ErrDied) {
		t.Errorf("Join returned %v", err)
	}
	c.Leave("")
}

func TestACompanionThatIsStoppedIsSilent(t *testing.T) {
	ours, theirs := net.Pipe() // takes no byte
	defer theirs.Close()
	c := connect(ours, nil)
	if err := c.Handoff(t.Context()); !errors.Is(err, ErrSilent) {
		t.Errorf("Handoff returned %v", err)
	}
	c.rpc.Close()
}

func FuzzWhatTheCompanionSays(f *testing.F) {
	for _, s := range []string{"", "x", "{}", "[]", `{"id":0,"result":null,"error":null}`,
		`{"id":0,"result":{},"error":null}`,
		`{"id":1,"result":{"Rank":"x"},"error":null}`, `{"id":1,"error":"{}"}`, `{"id":1,"error":{}}`, `{"id":9,"result":1}`,
		`{"id":0,"result":{"Failure":{"text":"t","missing":{}}}}`, `{"id":0,"result":{"Event":{}}}{"id":0}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.WriteString(theirs, text)
			theirs.Close()
		}()
		c := connect(ours, func(rendezvous.Event) {})
		_, _ = c.Join(t.Context(), time.Second)
		c.Leave("")
	})
}
