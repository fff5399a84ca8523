package scene

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestWhatConnectionsExchange: of connections that are there at two moments, and of ends that only another node has.
func TestWhatConnectionsExchange(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	lo := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	at := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
	only := func(t Traffic) Traffic { // other tests use this address, too
		link := Link{at(near.LocalAddr()), at(near.RemoteAddr())}
		return Traffic{link: t[link]}
	}
	before := only(TrafficWith(lo))
	if _, err := far.Write(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write(make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	_, _ = far.Read(make([]byte, 7))
	_, _ = near.Read(make([]byte, 5))
	if e := only(TrafficWith(lo)).Since(before); e.Segments == 0 || e.Acked != 7 || e.Again > 0 || e.Waiting || e.Unheard {
		t.Errorf("%+v", e)
	}
	link := Link{at(far.LocalAddr()), at(far.RemoteAddr())}
	lost := Link{link.Local, netip.AddrPortFrom(lo[0], 1)}
	other := Link{link.Local, netip.MustParseAddrPort("10.0.0.9:1")} // by a NAT: not this node's address
	if got := Severed([]Link{link, lost, other}, lo); !slices.Equal(got, []Link{lost}) {
		t.Errorf("severed: %v", got)
	}
	// Where NAT is between, the open connection here is the other end of a connection that seems to have only one.
	elsewhere := Link{netip.MustParseAddrPort("10.0.0.9:4000"), link.Local}
	if got := Severed([]Link{elsewhere, lost}, lo); !slices.Equal(got, []Link{lost}) {
		t.Errorf("by a NAT: %v", got)
	}
	pair := Link{link.Remote, link.Local}
	if got := Severed([]Link{pair, elsewhere}, lo); !slices.Equal(got, []Link{elsewhere}) {
		t.Errorf("of two connections to one port, of which one is whole: %v", got)
	}
	mapped := Link{netip.AddrPortFrom(netip.MustParseAddr("::ffff:127.0.0.1"), link.Remote.Port()), link.Local}
	if got := Severed([]Link{mapped}, lo); len(got) > 0 {
		t.Errorf("of a socket for both families: %v", got)
	}
}
