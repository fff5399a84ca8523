package envgen

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A default route may leave by a BMC's USB network, where only 169.254.0.0/16 is known.
func TestADefaultRouteByALinkLocalAddress(t *testing.T) {
	const usb = "  0000:31:00.0 1b73:1100 0c03 xhci_hcd\n    net enx9a2b addr=169.254.3.1/24\n"
	rail := func(n, addr string) string {
		return "  0000:2" + n + ":00.0 15b3:1021 0200 mlx5_core\n    hca mlx5_" + n + " type=MT4129\n" +
			"      port 1 ACTIVE LinkUp 200 Ethernet\n        gid 0 fe80::" + n + " v1 enp" + n + "\n" +
			"        gid 1 fe80::" + n + " v2 enp" + n + "\n        gid 2 ::ffff:" + addr + " v1 enp" + n + "\n" +
			"        gid 3 ::ffff:" + addr + " v2 enp" + n + "\n    net enp" + n + " speed=200000 addr=" + addr + "/24\n"
	}
	card := func(name, addr string) string {
		return "  0000:4" + name[len(name)-1:] + ":00.0 8086:1563 0200 ixgbe\n    net " + name + " speed=10000 addr=" +
			addr + "\n"
	}
	const root = "pci0000:20\n"
	for _, tt := range []struct {
		name, addr, text, peer string
		want                   []string
	}{
		{"a rail, found later", "169.254.3.1", root + usb + rail("1", "192.0.2.10"), "",
			[]string{"NCCL_SOCKET_IFNAME==enp1", "GLOO_SOCKET_IFNAME=enp1", "TP_SOCKET_IFNAME=enp1"}},
		{"a rail, found first", "169.254.3.1", root + rail("1", "192.0.2.10") + usb, "",
			[]string{"GLOO_SOCKET_IFNAME=enp1", "TP_SOCKET_IFNAME=enp1"}},
		{"two rails", "169.254.3.1", root + usb + rail("1", "192.0.2.10") + rail("2", "198.51.100.10"), "",
			[]string{"NCCL_SOCKET_IFNAME==enp1", "GLOO_SOCKET_IFNAME=enp1", "TP_SOCKET_IFNAME=enp1"}},
		{"one card", "169.254.3.1", root + usb + card("eno1", "10.7.0.5/24"), "",
			[]string{"NCCL_SOCKET_IFNAME==eno1", "GLOO_SOCKET_IFNAME=eno1", "TP_SOCKET_IFNAME=eno1"}},
		{"two cards, and which one leads out is unknown", "169.254.3.1",
			root + usb + card("eno1", "10.7.0.5/24") + card("eno2", "10.8.0.5/24"), "", nil},
		{"a peer has such an address, too", "169.254.3.1", root + usb + card("eno1", "10.7.0.5/24"), "169.254.3.2", nil},
		{"the peers are in the network of the rail", "192.0.2.10", root + usb + rail("1", "192.0.2.10"), "",
			[]string{"NCCL_SOCKET_IFNAME==enp1"}},
	} {
		in := described(t, tt.addr, "route enx9a2b 169.254.3.1\n"+oneGPU+tt.text)
		if tt.peer != "" {
			in.World.Peers = []netip.Addr{netip.MustParseAddr(tt.peer)}
		}
		got := slices.DeleteFunc(brief(Make(in)), func(s string) bool { return !strings.Contains(s, "SOCKET_IFNAME") })
		if diff := cmp.Diff(tt.want, got); diff != "" && len(tt.want)+len(got) > 0 {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// An alias of a rail has the first entry of its GID table.
func TestARailWithAnAliasBeforeItsAddress(t *testing.T) {
	rails := func(vendor, driver string, addrs ...string) string {
		text := "route eno1 10.50.0.8\n" + oneGPU + "pci0000:20\n" +
			"  0000:40:00.0 8086:1563 0200 ixgbe\n    net eno1 speed=10000 addr=10.50.0.8/24\n"
		for i, list := range addrs {
			n := string(rune('0' + i))
			text += "  0000:2" + n + ":00.0 " + vendor + " 0200 " + driver + "\n    hca r" + n + "\n" +
				"      port 1 ACTIVE LinkUp 400 Ethernet\n        gid 0 fe80::" + n + " v1 eth" + n + "\n" +
				"        gid 1 fe80::" + n + " v2 eth" + n + "\n"
			for j, a := range strings.Split(list, ",") {
				a, _, _ = strings.Cut(a, "/")
				text += "        gid " + string(rune('2'+2*j)) + " ::ffff:" + a + " v1 eth" + n + "\n" +
					"        gid " + string(rune('3'+2*j)) + " ::ffff:" + a + " v2 eth" + n + "\n"
			}
			text += "    net eth" + n + " speed=400000 addr=" + list + "\n"
		}
		return text
	}
	for _, tt := range []struct {
		name  string
		text  string
		nccl  string
		want  []string // of the GID
		finds []string
	}{
		{"an alias in another network", rails("15b3:1021", "mlx5_core", "172.16.0.8/24", "192.168.77.3/24,172.16.1.8/24",
			"172.16.2.8/24"), "2.27.5", []string{"NCCL_IB_ADDR_RANGE=172.16.0.0/22"}, nil},
		{"an alias of one host in the same /16", rails("14e4:1760", "bnxt_en", "172.16.77.3/32,172.16.0.8/24",
			"172.16.1.8/24", "172.16.2.8/24"), "2.27.5", []string{"NCCL_IB_ADDR_RANGE=172.16.0.0/22"}, nil},
		{"a NCCL without a range", rails("15b3:1021", "mlx5_core", "172.16.0.8/24", "192.168.77.3/24,172.16.1.8/24",
			"172.16.2.8/24"), "2.20.5", nil, []string{"warn env.gid"}},
		{"no range separates them", rails("1dd8:1002", "ionic", "172.16.0.8/24", "172.16.0.99/32,172.16.1.8/24",
			"172.16.2.8/24"), "2.27.5", nil, []string{"warn env.gid"}},
		{"second addresses after the first", rails("15b3:1021", "mlx5_core", "172.16.0.8/24,192.168.77.1/24",
			"172.16.1.8/24,192.168.77.2/24"), "2.27.5", nil, nil},
		{"one address each", rails("15b3:1021", "mlx5_core", "172.16.0.8/24", "172.16.1.8/24"), "2.27.5", nil, nil},
	} {
		in := described(t, "10.50.0.8", tt.text).nccl(tt.nccl)
		got := slices.DeleteFunc(brief(Make(in)), func(s string) bool { return !strings.HasPrefix(s, "NCCL_IB_") })
		if diff := cmp.Diff(tt.want, got); diff != "" && len(tt.want)+len(got) > 0 {
			t.Errorf("%s: Make (-want +got):\n%s", tt.name, diff)
		}
		found := slices.DeleteFunc(verdicts(in), func(s string) bool { return !strings.HasSuffix(s, "env.gid") })
		if diff := cmp.Diff(tt.finds, found); diff != "" && len(tt.finds)+len(found) > 0 {
			t.Errorf("%s: Lint (-want +got):\n%s", tt.name, diff)
		}
	}
}
