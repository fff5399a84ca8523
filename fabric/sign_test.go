package fabric

import (
	"net"
	"net/netip"
	"testing"
)

// A machine that drops TCP answers ping; one that drops all but ARP answers that alone; of one that answers a call
// nothing is said.
func TestWhatAMachineAnswersThatTakesNoCall(t *testing.T) {
	w := newWired(t)
	there := netip.MustParseAddrPort("10.0.2.2:29500")
	if s := SignOf(t.Context(), there); s != NoSign {
		t.Errorf("a closed port: %v", s)
	}
	w.far(`nft "add table inet f; add chain inet f c { type filter hook input priority 0; }; ` +
		`add rule inet f c meta l4proto tcp drop"`)
	if s := SignOf(t.Context(), there); s != Pings {
		t.Errorf("TCP is dropped: %v", s)
	}
	w.far("nft add rule inet f c ip daddr 10.0.2.2 drop")
	if s := SignOf(t.Context(), there); s != ARPAlone {
		t.Errorf("all is dropped: %v", s)
	}
}

// The nodes compare addresses of Ethernet alone: those of IPoIB and of tunnels are of other lengths.
func TestAFixedEntry(t *testing.T) {
	w := newWired(t)
	there := netip.MustParseAddr("10.0.2.2")
	if got := FixedTo(there); got != "" {
		t.Errorf("no address: %q", got)
	}
	w.run("ip neigh replace 10.0.2.2 lladdr 02:00:00:00:00:09 dev eth0 nud permanent")
	if got := FixedTo(there); got != "02:00:00:00:00:09" {
		t.Errorf("of Ethernet: %q", got)
	}
	for _, n := range []int{0, 4, 20} {
		if got := ofEthernet(make(net.HardwareAddr, n)); got != "" {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}
