package verbs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// whole asks for everything that a test can do.
var whole = verbs.Test{Device: "fake0", GID: 1, Lead: true, QPs: 3, Depth: 8, Sizes: []int{1, 4096, 100_001, 8 << 20},
	Iterations: 20, BothWays: true, PingSizes: []int{1, 8, 5000}, Pings: 600}

var follower = verbs.Test{Device: "fake0", GID: 1}

func runPair(t *testing.T, lead, other verbs.Test) pairResult {
	t.Helper()
	var r pairResult
	if err := child.Ask(t.Context(), pairChild, pair{lead, other, 20 * time.Second}, &r, ample); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBothEndsMeasureTheSame(t *testing.T) {
	fake(t, "")
	r := runPair(t, whole, follower)
	if r.LeadErr != nil || r.OtherErr != nil {
		t.Fatalf("errors %v and %v", r.LeadErr, r.OtherErr)
	}
	if diff := cmp.Diff(r.Lead.Out, r.Other.Back); diff != "" {
		t.Errorf("streams of the lead (-lead +other):\n%s", diff)
	}
	if diff := cmp.Diff(r.Lead.Back, r.Other.Out); diff != "" {
		t.Errorf("streams of the other end (-lead +other):\n%s", diff)
	}
	if diff := cmp.Diff(r.Lead.Pings, r.Other.Pings); diff != "" {
		t.Errorf("pings (-lead +other):\n%s", diff)
	}
	for i, n := range whole.Sizes {
		if f := r.Lead.Out[i]; f.Size != n || f.Messages != 20 || f.Speed <= 0 {
			t.Errorf("stream of %d bytes: %+v", n, f)
		}
	}
	for i, n := range whole.PingSizes {
		if l := r.Lead.Pings[i]; l.Size != n || l.Pings != 600 || l.Median < l.Min || l.T99 < l.Median {
			t.Errorf("pings of %d bytes: %+v", n, l)
		}
	}
	if r.Lead.MTU != 1024 || r.Other.QPs != 3 {
		t.Errorf("packets of %d bytes, %d connections", r.Lead.MTU, r.Other.QPs)
	}
}

func TestInfiniBandNeedsNoGID(t *testing.T) {
	fake(t, "link 1 gidless 1")
	lead, other := whole, follower
	lead.GID, other.GID = -1, -1
	r := runPair(t, lead, other)
	if r.LeadErr != nil || r.OtherErr != nil || r.Lead.Local.Index != -1 || r.Lead.Local.LID != 7 ||
		len(r.Lead.Out) != len(whole.Sizes) {
		t.Errorf("errors %v and %v, result %+v", r.LeadErr, r.OtherErr, r.Lead)
	}
}

// The device of these tests has room for 4096 completions.
func TestTheDepthIsWhatTheDeviceCan(t *testing.T) {
	fake(t, "")
	lead := verbs.Test{Device: "fake0", GID: 1, Lead: true, QPs: verbs.MaxQPs, Depth: verbs.MaxDepth, Sizes: []int{64},
		Iterations: 5000}
	if r := runPair(t, lead, follower); r.LeadErr != nil || r.OtherErr != nil || r.Lead.Out[0].Messages != 5000 {
		t.Errorf("errors %v and %v, result %+v", r.LeadErr, r.OtherErr, r.Lead)
	}
}

func TestTimeEndsStreamsAndPings(t *testing.T) {
	fake(t, "")
	lead := verbs.Test{Device: "fake0", GID: 1, Lead: true, Sizes: []int{64}, Warm: 20 * time.Millisecond,
		Span: 50 * time.Millisecond, PingSizes: []int{8}, Pings: verbs.MaxPings, PingSpan: 30 * time.Millisecond}
	r := runPair(t, lead, follower)
	if r.LeadErr != nil || r.OtherErr != nil {
		t.Fatalf("errors %v and %v", r.LeadErr, r.OtherErr)
	}
	if d := r.Lead.Out[0].Time; d < lead.Span || d > 5*time.Second {
		t.Errorf("the stream took %v, want %v", d, lead.Span)
	}
	if n := r.Lead.Pings[0].Pings; n < 1 || n > verbs.MaxPings {
		t.Errorf("%d pings", n)
	}
}

func TestAFaultIsNamedAtBothEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	at := func(f func(*verbs.Test)) verbs.Test {
		o := follower
		f(&o)
		return o
	}
	for _, tt := range []struct {
		name, mode  string
		other       verbs.Test
		lead, peer  string // cause, after "peer " if the other end failed
		text        string // in the lead's text
		largestSent int    // by the lead
	}{
		{"not there", "", at(func(t *verbs.Test) { t.Device = "fake1" }), "peer no-uverbs", "no-uverbs", "does not list", 0},
		{"gid that is not set", "", at(func(t *verbs.Test) { t.GID = 3 }), "peer no-gid", "no-gid",
			"no GID at index 3; set are 0 (RoCE v2 fe80::9), 1 (RoCE v2 10.9.0.1)", 0},
		{"gid of another kind", "", at(func(t *verbs.Test) { t.GID = 0 }), "gid-differs", "gid-differs", "link-local", 0},
		{"mtu set otherwise", "", at(func(t *verbs.Test) { t.MTU = 2048 }), "ok", "ok", "", 8 << 20},
		{"mtu that cannot be", "", at(func(t *verbs.Test) { t.MTU = 1500 }), "peer wrong-request", "wrong-request", "1500",
			0},
		{"two that lead", "", at(func(t *verbs.Test) { t.Lead = true }), "wrong-request", "wrong-request",
			"one end has to lead", 0},
		{"no memory", "mr 12", follower, "memlock", "memlock", "locked", 0},
		{"no queue pairs", "qp 95", follower, "no-rc", "no-rc", "", 0},
		{"no way", "wc 12", follower, "unreachable", "peer unreachable",
			"nothing arrives from fake0 port 1 (RoCE v2 10.9.0.1, index 1) at fake0", 0},
		{"long messages are lost", "longest 5000", follower, "large-lost", "peer large-lost",
			"messages of 4096 bytes arrive and messages of 100001 do not, in packets of 1024", 4096},
		{"it stops", "wc 12 from 50", follower, "way-lost", "peer way-lost", "nothing arrives any more", 1},
		{"it falls silent", "silent 1 from 50", follower, "way-lost", "peer way-lost", "nothing arrives any more", 1},
		{"other bytes", "corrupt 60", follower, "corrupt", "corrupt", "", 1},
		{"refused", "wc 9 from 2", follower, "rejected", "peer rejected", "another MTU, or another length", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake(t, tt.mode)
			r := runPair(t, whole, tt.other)
			if tt.lead == string(verbs.Memlock) && memlock(t) == ^uint64(0) {
				tt.lead, tt.peer, tt.text = string(verbs.Resources), string(verbs.Resources), ""
			}
			word := func(e *verbs.Error) string {
				if e == nil {
					return "ok"
				}
				return map[bool]string{true: "peer "}[e.Peer] + string(e.Cause)
			}
			got := word(r.LeadErr)
			if tt.lead == "corrupt" { // at the end that received it
				got = strings.TrimPrefix(got, "peer ")
			}
			if got != tt.lead || r.LeadErr != nil && !strings.Contains(r.LeadErr.Text, tt.text) {
				t.Errorf("lead: %s, %v; want %s, %q", word(r.LeadErr), r.LeadErr, tt.lead, tt.text)
			}
			if got := word(r.OtherErr); strings.TrimPrefix(got, "peer ") != strings.TrimPrefix(tt.peer, "peer ") ||
				tt.lead != "corrupt" && got != tt.peer {
				t.Errorf("other end: %s, %v; want %s", got, r.OtherErr, tt.peer)
			}
			most := 0
			for _, f := range r.Lead.Out {
				most = max(most, f.Size)
			}
			if most < tt.largestSent {
				t.Errorf("the lead kept streams up to %d bytes, want %d", most, tt.largestSent)
			}
		})
	}
}

// ends returns two exchanges with each other; each ends with its context.
func ends() (a, b verbs.Exchange) {
	there, back := make(chan []byte, 1), make(chan []byte, 1)
	say := func(to chan<- []byte, from <-chan []byte) verbs.Exchange {
		return func(ctx context.Context, mine []byte) ([]byte, error) {
			select {
			case to <- mine:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			select {
			case theirs := <-from:
				return theirs, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	return say(there, back), say(back, there)
}

// Two processes cannot reach each other's memory, so only failures can be tested here.
// lab/roce tests what arrives.
func TestRunRelaysTheMessagesOfBothEnds(t *testing.T) {
	for _, tt := range []struct {
		name, mode  string
		other       verbs.Test
		lead, peer  verbs.Cause
		leadAtOther bool
	}{
		{"a gid that is not set", "", verbs.Test{Device: "fake0", GID: 3}, verbs.NoGID, verbs.NoGID, true},
		{"a crash", "crashes 1", follower, verbs.Crashed, verbs.Crashed, false},
		{"a hang", "hangs 1", follower, verbs.Stuck, verbs.Stuck, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake(t, tt.mode)
			a, b := ends()
			var errA, errB error
			var both sync.WaitGroup
			both.Go(func() { _, errA = confine.Run(t.Context(), whole, 3*time.Second, a) })
			both.Go(func() { _, errB = confine.Run(t.Context(), tt.other, 3*time.Second, b) })
			both.Wait()
			if e := verbs.AsError(errA); e == nil || e.Cause != tt.lead || e.Peer != tt.leadAtOther {
				t.Errorf("lead: %v, want %q", errA, tt.lead)
			}
			if e := verbs.AsError(errB); e == nil || e.Cause != tt.peer {
				t.Errorf("other end: %v, want %q", errB, tt.peer)
			}
		})
	}
}

func TestAnExchangeThatFailsIsAPeerThatIsGone(t *testing.T) {
	fake(t, "")
	_, err := confine.Run(t.Context(), whole, ample, func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("connection reset")
	})
	if e := verbs.AsError(err); e == nil || e.Cause != verbs.PeerGone || !strings.Contains(e.Text, "connection reset") {
		t.Errorf("error %v, want %q", err, verbs.PeerGone)
	}
}

func TestAnOtherEndThatTalksNonsenseIsNoCrash(t *testing.T) {
	fake(t, "")
	for _, said := range []string{"", "null", "{}", `{"test":{"device":"x","lead":false,"qps":100000}}`,
		`{"test":{"sizes":[-1]},"end":{}}`} {
		if _, err := confine.Run(t.Context(), whole, ample, func(context.Context, []byte) ([]byte,
			error) {
			return []byte(said), nil
		}); err == nil {
			t.Errorf("%q was taken for a test", said)
		}
	}
}
