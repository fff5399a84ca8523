package process

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

func ends(t *testing.T, a net.Addr) netip.AddrPort {
	t.Helper()
	return a.(*net.TCPAddr).AddrPort()
}

func TestUserOfAListenerAndOfAConnection(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Skipf("%s: %v", at, err)
		}
		defer l.Close()
		to := ends(t, l.Addr())
		if to.Addr().IsUnspecified() { // both families
			to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
		}
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 50 { // others at the same port
			more, err := net.Dial("tcp", to.String())
			if err != nil {
				t.Fatal(err)
			}
			defer more.Close()
		}
		for _, s := range [][2]netip.AddrPort{{to, {}}, {ends(t, c.LocalAddr()), ends(t, c.RemoteAddr())}} {
			if uid, known := User(s[0], s[1]); !known || uid != os.Getuid() {
				t.Errorf("%s: %v: user %d, known: %t", at, s, uid, known)
			}
		}
	}
	if _, known := User(netip.MustParseAddrPort("127.0.0.1:1"), netip.AddrPort{}); known {
		t.Error("a port at which no process listens has a user")
	}
}
