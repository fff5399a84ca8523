package fabric

import (
	"net"
	"net/netip"
	"testing"
)

func TestWhoSaysThatAnAddressIsItsOwn(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.7")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	answer := arpProbe(mac, addr)
	copy(answer[14:18], addr.AsSlice()) // the sender's own
	if got := arpSender(answer, addr); got.String() != mac.String() {
		t.Errorf("an answer: %v", got)
	}
	for name, b := range map[string][]byte{
		"another probe":         arpProbe(mac, addr),
		"a short packet":        answer[:27],
		"another address":       append(append([]byte{}, answer[:17]...), append([]byte{8}, answer[18:]...)...),
		"another protocol":      append([]byte{0, 1, 0x86, 0xdd}, answer[4:]...),
		"another length":        append([]byte{0, 1, 8, 0, 8, 4}, answer[6:]...),
		"nothing in the packet": {},
	} {
		if got := arpSender(b, addr); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClaimantNeedsEthernet(t *testing.T) {
	if _, err := Claimant(netip.MustParseAddr("127.0.0.1"), "lo"); err == nil {
		t.Error("loopback has no hardware address")
	}
}

func TestAPermanentEntryIsWrongOnlyIfNoAnswerIsThatMachines(t *testing.T) {
	fixed, other := net.HardwareAddr{2, 0, 0, 0, 0, 9}, net.HardwareAddr{2, 0, 0, 0, 0, 8}
	for name, tc := range map[string]struct {
		all  []net.HardwareAddr
		want bool
	}{
		"another machine":              {[]net.HardwareAddr{other}, true},
		"nothing":                      {nil, false},
		"that machine":                 {[]net.HardwareAddr{fixed}, false},
		"both interfaces of a machine": {[]net.HardwareAddr{other, fixed}, false},
		"a router with VRRP":           {[]net.HardwareAddr{{0, 0, 0x5e, 0, 1, 7}}, false},
	} {
		if got := elsewhere(fixed, tc.all); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
