package machine_test

import (
	"testing"

	"launch/fabric/machine/machinetest"
)

func TestEveryMachineIsDetectedWhole(t *testing.T) {
	for _, name := range machinetest.Names() {
		t.Run(name, func(t *testing.T) {
			n := machinetest.Node(t, name)
			t.Logf("%d interfaces, %d HCAs, %d PCI functions", len(n.Interfaces), len(n.HCAs), len(n.PCI))
			if len(n.Unknown) > 0 {
				t.Errorf("unknown: %v", n.Unknown)
			}
		})
	}
}
