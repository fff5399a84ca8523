package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// opened is a node that listens on 127.0.0.1.
func opened(t *testing.T, name string, keys *tls.Config, ports ...Port) (*Node, netip.AddrPort) {
	t.Helper()
	n := &Node{Name: name, Ports: ports, Ways: []Measurer{TCP()}}
	if err := n.Open(netip.MustParseAddrPort("127.0.0.1:0"), keys); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(n.Port()))
}

func meeting(self, other int, p Port, at netip.AddrPort) Meeting {
	return Meeting{Self: self, Other: other, Port: p, PeerPort: p.Name, At: at, Lead: self < other, Wait: 5 * time.Second,
		Test: quick(p)}
}

func TestTwoEndsMeetWhoeverIsFirst(t *testing.T) {
	for _, late := range []int{0, 1} {
		a, _ := opened(t, "a", nil, local("eth0"))
		b, at := opened(t, "b", nil, local("eth0"))
		var got [2]Sample
		var wg sync.WaitGroup
		for i, n := range []*Node{a, b} {
			wg.Go(func() {
				if i == late {
					<-time.After(200 * time.Millisecond)
				}
				got[i] = n.Meet(t.Context(), meeting(i, 1-i, n.Ports[0], at))
			})
		}
		wg.Wait()
		if got[0].Cause != "" || got[0].Kind != "tcp" || got[0].Out.Speed < 1e6 || got[0].Back.Speed < 1e6 {
			t.Errorf("%+v", got[0])
		}
		if got[0] != got[1] {
			t.Errorf("the ends differ:\n%+v\n%+v", got[0], got[1])
		}
	}
}

func TestAnEndThatNeverComesIsNamedByTheOther(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, at := opened(t, "a", nil, local("eth0"))
	defer a.Close()
	m := meeting(0, 1, a.Ports[0], netip.AddrPortFrom(at.Addr(), 1))
	m.Wait = 200 * time.Millisecond
	if s := a.Meet(t.Context(), m); s.Cause != "refused" || s.Err == "" {
		t.Errorf("%+v", s)
	}
	m.Lead = false
	if s := a.Meet(t.Context(), m); !strings.Contains(s.Err, "no node came for eth0") {
		t.Errorf("%+v", s)
	}
}

func TestAPortInUseIsNotDisturbed(t *testing.T) {
	busy := local("eth0")
	busy.Busy = "eth0 of b is in use"
	a, _ := opened(t, "a", nil, local("eth0"))
	b, at := opened(t, "b", nil, busy)
	go b.Meet(t.Context(), meeting(1, 0, b.Ports[0], at))
	if s := a.Meet(t.Context(), meeting(0, 1, a.Ports[0], at)); s.Cause != CauseBusy || s.Err != busy.Busy ||
		s.Out.Speed != 0 {
		t.Errorf("%+v", s)
	}
}

// A measurer other than TCP is used where both ends have it, and the sample names it.
func TestTheBestWayThatBothEndsHaveIsTaken(t *testing.T) {
	verbs := Measurer{Kind: "verbs", Can: func(p Port) bool { return p.HCA != "" },
		Run: func(ctx context.Context, t Test, say Exchange) (Result, error) {
			theirs, err := say(ctx, []byte(t.Port.Name))
			return Result{Out: Flow{Speed: float64(len(theirs))}, Back: Flow{Speed: 1}}, err
		}}
	rdma := local("mlx5_0")
	rdma.HCA = "mlx5_0"
	for _, tt := range []struct {
		name string
		b    Port
		want string
	}{{"both", rdma, "verbs"}, {"one has none", local("mlx5_0"), "tcp"}} {
		ends := [2]*Node{}
		var at netip.AddrPort
		for i, p := range []Port{rdma, tt.b} {
			n := &Node{Name: "x", Ports: []Port{p}, Ways: []Measurer{verbs, TCP()}}
			if err := n.Open(netip.MustParseAddrPort("127.0.0.1:0"), nil); err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			ends[i], at = n, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(n.Port()))
		}
		var wg sync.WaitGroup
		var got [2]Sample
		for i, n := range ends {
			wg.Go(func() { got[i] = n.Meet(t.Context(), meeting(i, 1-i, n.Ports[0], at)) })
		}
		wg.Wait()
		if got[0].Kind != tt.want || got[1].Kind != tt.want || got[0].Cause != "" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestANodeSaysWhichPortsItHas(t *testing.T) {
	a, _ := opened(t, "a", nil)
	_, at := opened(t, "b", nil, local("eth0"), Port{Name: "mlx5_0", HCA: "mlx5_0"})
	o, err := a.Ask(t.Context(), at)
	if err != nil || o.Name != "b" || len(o.Ports) != 2 || len(o.Ports[0].Kinds) != 1 || len(o.Ports[1].Kinds) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestAnEndThatLeavesInTheMiddleIsSaid(t *testing.T) {
	a, _ := opened(t, "a", nil, local("eth0"))
	b, at := opened(t, "b", nil, local("eth0"))
	long := meeting(0, 1, a.Ports[0], at)
	long.Test.Span = 5 * time.Second
	leaving, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer leave()
	go a.Meet(leaving, long)
	if s := b.Meet(t.Context(), meeting(1, 0, b.Ports[0], at)); s.Cause != CauseLeft || s.Out.Speed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestATestFillsTheTimeThatIsLeft(t *testing.T) {
	test := Test{Warm: 100 * time.Millisecond, Span: 200 * time.Millisecond}
	for _, tt := range []struct{ left, want time.Duration }{
		{-time.Second, 200 * time.Millisecond}, {test.Takes() + 100*time.Millisecond, 250 * time.Millisecond}, {time.Hour,
			400 * time.Millisecond},
	} {
		if got := test.Within(tt.left, 2); got.Span != tt.want || got.Warm != test.Warm || tt.left > 0 &&
			got.Takes() > tt.left {
			t.Errorf("%v left: %v", tt.left, got.Span)
		}
	}
}

// Whatever the other end says of its ports and of a test, this one bounds it.
func FuzzWhatTheOtherEndSays(f *testing.F) {
	mine := []Port{{Name: "eth0", Link: "Ethernet"}, {Name: "mlx5_0", HCA: "mlx5_0"}}
	b, err := json.Marshal(Offer{Name: "n", Ports: mine})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte(`{"streams":-1,"warm":9223372036854775807,"span":-5,"pings":1000000000}`))
	f.Fuzz(func(t *testing.T, offer, test []byte) {
		var o Offer
		if json.Unmarshal(offer, &o) == nil {
			for _, m := range Match(mine, o.Ports) {
				if m[0] >= len(mine) || m[1] >= len(o.Ports) {
					t.Fatalf("%v", m)
				}
				_ = noWay(mine[m[0]], o.Ports[m[1]])
			}
		}
		var theirs Test
		if json.Unmarshal(test, &theirs) == nil {
			theirs = theirs.bounded()
			if d := theirs.limit(); d <= 0 || d > time.Hour {
				t.Errorf("%+v may take %s", theirs, d)
			}
		}
	})
}
