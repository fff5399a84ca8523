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
