package fabric

import "testing"

// TestRuntimeBridge: a bridge with a cable leads to other machines, whatever its name.
func TestRuntimeBridge(t *testing.T) {
	eth0 := Interface{Name: "eth0", Kind: "physical", Master: "br-lan"}
	veth1 := Interface{Name: "veth1", Kind: "veth", Master: "docker0"}
	n := Node{Interfaces: []Interface{eth0, veth1}}
	for name, want := range map[string]bool{"docker0": true, "br-3f2a": true, "br-lan": false, "eth0": false} {
		if got := n.RuntimeBridge(Interface{Name: name}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A bridge of Open vSwitch shows no ports: its network cards have one master, as those of all its bridges.
func TestTheWayOutOverOpenVSwitch(t *testing.T) {
	card := Interface{Name: "eno2", Kind: "bond", Master: "ovs-system"}
	guest := Interface{Name: "tap7", Kind: "tun", Master: "ovs-system"}
	bridge := Interface{Name: "br-uplink", Kind: "openvswitch"}
	bySysfs := Interface{Name: "br-uplink", Kind: "virtual"}
	plain := Interface{Name: "br-uplink", Kind: "bridge"}
	for _, tt := range []struct {
		name    string
		port, i Interface
		route   string
		want    bool
	}{
		{"the default route and a card", card, bridge, "br-uplink", false},
		{"the same by sysfs alone", card, bySysfs, "br-uplink", false},
		{"another default route", card, bridge, "eno1", true},
		{"no card, only guests", guest, bridge, "br-uplink", true},
		{"a bridge of Linux without a card", card, plain, "br-uplink", true},
	} {
		n := Node{Interfaces: []Interface{tt.port, tt.i}, Route: Route{Interface: tt.route}}
		if got := n.RuntimeBridge(tt.i); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
