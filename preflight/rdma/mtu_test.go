package rdma

import (
	"testing"

	"launch/fabric"
	"launch/preflight"
	"launch/preflight/checktest"
)

// Where no one can raise the MTU, or the ports are slow, small packets are no matter.
func TestAHintOfLargerPackets(t *testing.T) {
	for name, tt := range map[string]struct {
		mtu  int
		edit func(*preflight.Input)
		hint bool
	}{
		"whole cards":     {1500, func(*preflight.Input) {}, true},
		"large already":   {4200, func(*preflight.Input) {}, false},
		"a cloud":         {1500, func(in *preflight.Input) { in.Node.Cloud.Provider = "oci" }, false},
		"a guest":         {1500, func(in *preflight.Input) { in.Node.Cloud.Virtual = true }, false},
		"the way out":     {1500, func(in *preflight.Input) { in.Node.Route.Interface = "eth10" }, false},
		"functions":       {1500, checktest.OfHCA(0, func(h *fabric.HCA, _ *fabric.Port) { h.VF = true }), false},
		"ports of 25Gb/s": {1500, checktest.OfHCA(0, func(_ *fabric.HCA, p *fabric.Port) { p.Rate = 25 }), false},
	} {
		in := checktest.Railed(1, "Ethernet", tt.edit, func(in *preflight.Input) {
			in.Node.Interfaces[len(in.Node.Interfaces)-1].MTU = tt.mtu
		})
		if got := larger(in, ports(in), 1024); (got != "") != tt.hint {
			t.Errorf("%s: %q", name, got)
		}
	}
}
