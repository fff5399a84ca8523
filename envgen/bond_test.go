package envgen

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric/machine/machinetest"
)

// One queue pair more is of use only where a bond sends over several cables of the HCA's own card.
func TestQueuePairsForTheCablesOfABond(t *testing.T) {
	const own, second, other = "0000:18:00.0", "0000:18:00.1", "0000:98:00.0"
	for _, tt := range []struct {
		name, mode string
		legs       [2]string
		want       bool
	}{
		{"of one card", "802.3ad", [2]string{own, second}, true},
		{"by a hash", "balance-xor", [2]string{own, second}, true},
		{"a mode that is not known", "", [2]string{own, second}, true},
		{"functions that are not known", "802.3ad", [2]string{}, true},
		{"one in reserve", "active-backup", [2]string{own, second}, false},
		{"one of another card", "802.3ad", [2]string{own, other}, false},
		{"another card in reserve", "active-backup", [2]string{own, other}, false},
	} {
		in := bond(machine(lo, eth0))
		in.Node.Interfaces, in.Node.HCAs = slices.Clone(in.Node.Interfaces), slices.Clone(in.Node.HCAs)
		for i, f := range in.Node.Interfaces {
			switch f.Name {
			case "bond0":
				in.Node.Interfaces[i].Mode = tt.mode
			case "p0":
				in.Node.Interfaces[i].PCI = tt.legs[0]
			case "p1":
				in.Node.Interfaces[i].PCI = tt.legs[1]
			}
		}
		for i := range in.Node.HCAs {
			in.Node.HCAs[i].PCI = own
		}
		if got := strings.Contains(strings.Join(brief(Make(in)), " "), "NCCL_IB_QPS_PER_CONNECTION=2"); got != tt.want {
			t.Errorf("%s: set: %v", tt.name, got)
		}
	}
}

// A link of Slingshot that runs slower than the others is one of the job's links still; an interface of another kind or
// speed that is no rail is not.
func TestASlowLinkOfSlingshotIsOneOfItsLinks(t *testing.T) {
	for _, slow := range []string{"", "hsn0", "hsn2"} {
		in := machine()
		in.Node = machinetest.Node(t, "slingshot-mi250x")
		for i, f := range in.Node.Interfaces {
			if f.Name == slow {
				in.Node.Interfaces[i].Speed = 100000
			}
		}
		v := look(in)
		first, _ := in.Node.Interface("hsn1")
		if got := names(v.equals(first)); got != "hsn0, hsn1, hsn2, hsn3" {
			t.Errorf("slow %q: %s", slow, got)
		}
	}
	fast, slow := iface(3, "eth0", "physical", "10.0.0.5/24"), iface(4, "eth1", "physical", "10.1.0.5/24")
	fast.Speed, slow.Speed = 100000, 25000
	if got := names(look(machine(lo, fast, slow)).equals(fast)); got != "eth0" {
		t.Errorf("two interfaces: %s", got)
	}
}
