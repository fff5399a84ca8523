package companion

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"launch/rendezvous"
)

// newStore hosts a store of a job at an address of this machine; port 0 is any.
func newStore(t *testing.T, job, addr string, port uint16) netip.AddrPort {
	t.Helper()
	if port == 0 {
		l, err := net.Listen("tcp", addr+":0")
		if err != nil {
			t.Fatal(err)
		}
		port = uint16(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
	s, err := rendezvous.Serve(t.Context(), job, []netip.AddrPort{at}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return at
}

// A node leaves a store that still answers for one of its job at the address that the host's name has now. Neither
// another job's nor no store at all is a reason.
func TestAPodFollowsTheNameOfTheStoresHost(t *testing.T) {
	old := newStore(t, "j", "127.0.0.1", 0)
	newer := newStore(t, "j", "127.0.0.2", old.Port())
	other := newStore(t, "k", "127.0.0.3", old.Port())
	var hangup rendezvous.Hangup
	at := rendezvous.Store{Endpoints: []string{net.JoinHostPort("localhost", strconv.Itoa(int(old.Port())))}, Job: "j",
		Hangup: &hangup}
	cli, err := rendezvous.Connect(t.Context(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	s := rendezvous.Enter(t.Context(), cli, rendezvous.Config{Job: "j", Self: rendezvous.Member{Index: -1, Size: 1,
		Host: "a"}, OwnStore: true, Hangup: &hangup})
	t.Cleanup(func() { s.Leave("") })
	if _, err := s.Join(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	unused := netip.MustParseAddr("127.0.0.4")
	for _, addrs := range [][]netip.Addr{nil, {other.Addr()}, {unused}} {
		if moveTo(t.Context(), at, addrs) || !slices.Equal(hangup.Connected(), []netip.Addr{old.Addr()}) {
			t.Fatalf("the name means %v: connected to %v", addrs, hangup.Connected())
		}
	}
	if !moveTo(t.Context(), at, []netip.Addr{newer.Addr()}) {
		t.Error("did not move")
	}
	if slices.Contains(hangup.Connected(), old.Addr()) {
		t.Errorf("still connected to %v", old)
	}
	for end := time.Now().Add(10 * time.Second); !slices.Equal(hangup.Connected(), []netip.Addr{newer.Addr()}); {
		if time.Now().After(end) {
			t.Fatalf("connected to %v, want %v", hangup.Connected(), newer)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Kubernetes publishes the address of an old pod until it has ended, next to that of the new one.
func TestTheAddedAddressIsTheNewerPods(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	type addrs = []netip.Addr
	for _, tc := range []struct {
		known                  known
		name, connected, newer addrs
	}{
		{nil, addrs{a}, addrs{a}, nil},
		{nil, addrs{a, b}, addrs{a}, nil}, // which one is older is not known
		{nil, addrs{b}, addrs{a}, addrs{b}},
		{known{a: true}, addrs{a}, addrs{a}, addrs{}},
		{known{a: true}, addrs{b}, addrs{a}, addrs{b}},
		{known{a: true}, addrs{b, a}, addrs{a}, addrs{b}},
		{known{a: true, b: true}, addrs{a, b}, addrs{b}, addrs{}}, // it has moved
		{known{a: true, b: true}, addrs{a, b, c}, addrs{b}, addrs{c}},
		{known{a: true}, addrs{a, b}, nil, addrs{a, b}}, // the connection is lost
		{known{a: true}, nil, addrs{a}, nil},
	} {
		if got := tc.known.newer(tc.name, tc.connected); !slices.Equal(got, tc.newer) {
			t.Errorf("%v, connected to %v, the name means %v: newer %v, want %v", tc.known, tc.connected, tc.name, got,
				tc.newer)
		}
	}
}

// A new pod of the store's host is found within a second, and the nodes of a large job do not flood the name servers.
func TestANodeOfASmallJobAsksForTheStoresHostEachSecond(t *testing.T) {
	for nodes, want := range map[int]time.Duration{1: lostPause, 12: lostPause, 200: lostPause, 400: 2 * time.Second,
		10000: lostPauseMax} {
		if got := together(nodes, lostEach, lostPause, lostPauseMax); got != want {
			t.Errorf("%d nodes: %v, want %v", nodes, got, want)
		}
	}
}
