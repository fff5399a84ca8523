package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// A card whose Ethernet driver is bound and whose interface is here has its RDMA device here, too, unless the RDMA half
// of the driver is missing. Each vendor's fault has a twin that is in order.
func TestCardsWithoutTheRDMAHalfOfTheirDriver(t *testing.T) {
	card := func(id, driver, speed, hca string) func(int) string {
		return func(i int) string {
			out := fmt.Sprintf("@.0 %s 0200 %s\n", id, driver)
			if hca != "" {
				out += fmt.Sprintf("  hca %s%d\n    port 1 ACTIVE LinkUp 400 Ethernet\n"+
					"      gid 1 ::ffff:10.72.%[2]d.9 v2 w%[2]d\n", hca, i)
			}
			if speed != "" {
				out += fmt.Sprintf("  net w%d speed=%s addr=10.72.%[1]d.9/24\n", i, speed)
			}
			return out
		}
	}
	mixed := func(good, bad func(int) string, at int) func(int) string {
		return func(i int) string {
			if i == at {
				return bad(i)
			}
			return good(i)
		}
	}
	empty := func(int) string { return "" }
	flat := func(n int, one func(int) string) (out string) { // no switch
		for i := range n {
			out += fmt.Sprintf("pci00e%d:00\n ", i) +
				strings.ReplaceAll(strings.ReplaceAll(one(i), "\n  ", "\n   "), "@", fmt.Sprintf("00e%d:01:00", i))
		}
		return out
	}
	ib := func(i int) string {
		return fmt.Sprintf("@.1 15b3:101b 0207 mlx5_core\n  hca ib%d type=MT4123\n"+
			"    port 1 ACTIVE LinkUp 200 InfiniBand\n", i)
	}
	thor, thorRDMA := card("14e4:1760", "bnxt_en", "400000", ""), card("14e4:1760", "bnxt_en", "400000", "bnxt_re")
	cx7, cx7RDMA := card("15b3:1021", "mlx5_core", "400000", ""), card("15b3:1021", "mlx5_core", "400000", "mlx5_")
	e810, hidden := card("8086:1592", "ice", "100000", ""), card("15b3:1021", "mlx5_core", "", "")
	rnic := func(id, driver string) func(int) string {
		return func(i int) string {
			return strings.ReplaceAll(card(id, driver, "100000", "rn")(i), fmt.Sprintf("hca rn%d", i),
				fmt.Sprintf("hca rn%d node=4", i))
		}
	}
	iwarp := rnic("8086:1592", "ice")
	e810RDMA, qedeRDMA := card("8086:1592", "ice", "100000", "rn"), card("1077:1644", "qede", "100000", "rn")
	second := func(i int) string { // the second port of each card runs iWARP
		return e810RDMA(i) + strings.NewReplacer("@.0", "@.1", "rn", "second", " w", " v", "10.72", "10.74").Replace(iwarp(i))
	}
	for _, tt := range []struct {
		name, id string
		machine  of
		want     string
	}{
		{"bnxt_re is not loaded", "rdma.open", of{8, instinct, thor, uplink},
			"warn 8 fast interfaces of driver bnxt_en without an RDMA device: bnxt_re is not loaded"},
		{"mlx5_ib is not loaded", "rdma.open", of{8, instinct, cx7, uplink}, "warn mlx5_ib is not loaded"},
		{"ionic_rdma is not loaded", "rdma.open", of{4, instinct, card("1dd8:1002", "ionic", "400000", ""), uplink},
			"warn ionic_rdma is not loaded"},
		{"irdma is not loaded, and no switch is visible", "rdma.open", of{4, instinct, empty, flat(2, e810) + uplink},
			"warn 2 fast interfaces of driver ice without an RDMA device: irdma is not loaded"},
		{"only the way out has a device", "rdma.open", of{8, instinct, thor, rdmaUplink}, "warn bnxt_re is not loaded"},
		{"iWARP, and no switch is visible", "rdma.open", of{4, instinct, empty, flat(2, iwarp) + uplink},
			"warn 2 cards are for RDMA here, and in iWARP mode, which NCCL does not use: w0, w1"},
		{"iWARP at the GPUs", "rdma.open", of{4, instinct, rnic("1077:1644", "qede"), uplink},
			"warn 4 cards are for RDMA here, and in iWARP mode"},
		{"one of four in iWARP mode", "rdma.link", of{4, instinct, mixed(e810RDMA, iwarp, 2), uplink},
			"warn rn2 is a card like the rails of this node, and in iWARP mode"},
		{"one of six in iWARP mode, FastLinQ", "rdma.link", of{6, instinct, mixed(qedeRDMA, rnic("1077:1644", "qede"), 5),
			uplink}, "warn rn5 is a card like the rails of this node, and in iWARP mode"},
		{"one of two in iWARP mode, no switch", "rdma.link", of{4, instinct, empty,
			flat(2, mixed(e810RDMA, iwarp, 1)) + uplink}, "warn rn1 is a card like the rails"},
		{"one card in iWARP mode for four GPUs", "rdma.open", of{4, instinct, empty, flat(1, iwarp) + uplink},
			"warn 1 card is for RDMA here, and in iWARP mode, which NCCL does not use: w0"},
		{"second ports in iWARP mode", "rdma.link", of{4, instinct, second, uplink}, "ok 4 x Ethernet"},
		{"one more in iWARP mode", "rdma.link", of{4, instinct, e810RDMA,
			strings.NewReplacer("w0", "w9", "rn0", "rn9", "72.0", "72.9").Replace(flat(1, iwarp)) + uplink}, "ok 4 x Ethernet"},
		{"another make in iWARP mode", "rdma.link", of{4, instinct, mixed(e810RDMA, rnic("8086:37d2", "i40e"), 2), uplink},
			"ok 3 x Ethernet"},
		{"the way out in iWARP mode", "rdma.link", of{4, instinct, mixed(e810RDMA, empty, 0), flat(1, iwarp)},
			"ok 3 x Ethernet"},
		{"cards that have no RoCE", "rdma.open", of{4, instinct, rnic("1425:6406", "cxgb4"), uplink}, "skip could not tell"},
		{"iWARP next to InfiniBand", "rdma.link", of{4, instinct, ib, flat(2, iwarp) + uplink}, "ok 4 x InfiniBand"},
		{"iWARP on the way out", "rdma.open", of{1, instinct, empty, flat(1, iwarp)}, "skip could not tell"},
		{"all are loaded", "rdma.link", of{8, instinct, thorRDMA, uplink}, "ok 8 x Ethernet"},
		{"their interfaces are elsewhere", "rdma.open", of{3, instinct, hidden, uplink}, "skip no RDMA device here"},
		{"a namespace of its own", "rdma.open", of{3, instinct, cx7, uplink +
			"file sys/module/ib_core/parameters/netns_mode N\n"}, "skip no RDMA device here"},
		{"ports of 25G", "rdma.open", of{4, instinct, card("14e4:16d7", "bnxt_en", "25000", ""), uplink},
			"skip no RDMA device here"},
		{"the way out of one GPU", "rdma.open", of{1, instinct, empty, flat(1, e810)}, "skip no RDMA device here"},
		{"a driver that makes none", "rdma.open", of{8, instinct, card("1ae0:0042", "gve", "200000", ""), uplink},
			"skip no RDMA device here"},
		{"Ethernet for storage next to InfiniBand", "rdma.link", of{4, instinct, ib, flat(2, e810) + uplink},
			"ok 4 x InfiniBand"},

		{"one of eight, by Broadcom", "rdma.link", of{8, instinct, mixed(thorRDMA, thor, 4), uplink},
			"warn 0005:04:00.0 is a card like the rails of this node, and shows no RDMA device, although its driver (bnxt_en)"},
		{"one of four, by NVIDIA", "rdma.link", of{4, instinct, mixed(cx7RDMA, cx7, 0), uplink},
			"warn 0001:04:00.0 is a card like the rails of this node, and shows no RDMA device"},
		{"one whose interface is elsewhere", "rdma.link", of{4, instinct, mixed(cx7RDMA, hidden, 0), uplink},
			"ok 3 x Ethernet"},
		{"one more than the GPUs need", "rdma.link", of{4, instinct, cx7RDMA,
			strings.ReplaceAll(strings.ReplaceAll(flat(1, cx7), "w0", "w9"), "72.0", "72.9") + uplink}, "ok 4 x Ethernet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := "route eno1 192.168.9.7\n"
			switch {
			case strings.Contains(tt.machine.more, "net up0"):
				head = "route up0 192.168.9.7\n"
			case !strings.Contains(tt.machine.more, "net eno1"):
				head = "route w0 10.72.0.9\n"
			}
			f := checktest.Verdict(t, Checks(), tt.id, tt.machine.input(t, head))
			checktest.Wants(t, f, tt.want)
			if strings.Contains(f.What, "is not loaded") && !strings.Contains(f.Fix, "modprobe -a ib_uverbs ") {
				t.Errorf("fix %q", f.Fix)
			}
		})
	}
}
