package fabric

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A macvlan to which no machine answers may be dropped by the switch. One to which another machine answers is not, and
// nothing is said where no other machine is known.
func TestAHardwareAddressThatASwitchMayDrop(t *testing.T) {
	w := newWired(t)
	w.run("ip addr flush dev eth0; ip link add mv0 link eth0 type macvlan mode bridge; ip addr add 10.0.2.1/24 dev mv0; " +
		"ip link set mv0 up; ip route add default via 10.0.2.2")
	if c, err := net.DialTimeout("tcp", "10.0.2.2:9", time.Second); err == nil { // now it is a neighbour
		c.Close()
	}
	store := netip.MustParseAddr("10.0.2.9")
	if f := Unheard(store); f.Why != "" {
		t.Errorf("the router answers: %+v", f)
	}
	w.far("nft \"table netdev p { chain c { type filter hook ingress device eth0 priority 0; drop; }; }\"")
	if f := Unheard(store); !strings.Contains(f.Why, "10.0.2.2 neither, and mv0 is a macvlan") {
		t.Errorf("got %+v", f)
	}
	if f := Unheard(netip.MustParseAddr("10.0.2.2")); f.Why != "" {
		t.Errorf("no other machine is known: %+v", f)
	}
	w.run("ip link del mv0; ip addr add 10.0.2.1/24 dev eth0; ip route add default via 10.0.2.2")
	if f := Unheard(store); f.Why != "" {
		t.Errorf("eth0 has its own address: %+v", f)
	}
}
