package envgen

import (
	"net/netip"
	"testing"

	"launch/fabric"
)

// UCX ignores bridges from 1.16 on.
func TestUCXGetsAnInterfaceOnlyIfItUsesBridges(t *testing.T) {
	for version, want := range map[string]string{"1.13.1": "eth0", "1.16.0": "", "1.22.0": "", "": "eth0"} {
		in := Input{World: World{Nodes: 2, Addr: netip.MustParseAddr("10.0.0.1")}, Uses: []string{"ucx"}}
		in.Node.Interfaces = []fabric.Interface{
			{Index: 1, Name: "eth0", Kind: "physical", Up: true, Running: true,
				Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
			{Index: 2, Name: "docker0", Kind: "bridge", Up: true, Running: true,
				Addrs: []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16")}},
		}
		in.Node.Software.UCX.Version = version
		got := planned(in, "UCX_NET_DEVICES")
		if got != want {
			t.Errorf("UCX %q: UCX_NET_DEVICES=%q, want %q", version, got, want)
		}
	}
}
