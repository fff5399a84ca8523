package rail

import (
	"slices"
	"testing"

	"launch/fabric/machine"
	"launch/fabric/machine/machinetest"
)

// For any recording, each device has one role, and rails are devices.
func FuzzOf(f *testing.F) {
	for _, name := range []string{"broken-hca", "cx3-two-fabrics", "slingshot-mi250x", "alibaba-erdma", "gcp-a3-high",
		"pod-sriov-vf"} {
		f.Add(machinetest.Text(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := machine.Read(data)
		if err != nil {
			return
		}
		n := m.Detect(t.Context())
		fab := Of(n, n.Route.Src)
		for _, h := range n.HCAs {
			count := 0
			for _, nic := range fab.NICs {
				if nic.HCA && nic.Name == h.Name {
					count++
				}
			}
			if count != 1 {
				t.Errorf("%q has %d roles", h.Name, count)
			}
		}
		for _, r := range fab.Rails {
			i := slices.IndexFunc(fab.NICs, func(nic NIC) bool { return nic.HCA && nic.Name == r.HCA })
			if r.HCA != "" && (i < 0 || fab.NICs[i].Role != Compute) {
				t.Errorf("rail %+v is of no compute device", r)
			}
		}
		for _, g := range fab.GPUs {
			if len(g.Own) > len(fab.Rails) || len(g.Rails) > len(fab.Rails) {
				t.Errorf("GPU %+v has more than %d rails", g, len(fab.Rails))
			}
		}
	})
}
