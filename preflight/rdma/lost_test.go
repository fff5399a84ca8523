package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/fabric/machine"
	"launch/fabric/rail"
	"launch/preflight"
	"launch/preflight/checktest"
)

// of is a machine in short form: GPUs, each at a switch of its own with the lines of one place.
type of struct {
	gpus  int
	gpu   string             // the lines of a GPU
	place func(i int) string // the lines at the switch of a GPU; "": none
	more  string             // buses, and virtual interfaces
}

func (o of) input(t *testing.T, head string) preflight.Input {
	t.Helper()
	text := "machine/1\n" + head
	for i := range o.gpus {
		text += fmt.Sprintf("pci%04x:00 numa=0\n  %04[1]x:00:01.0 bridge\n    %04[1]x:01:00.0 bridge\n      %04[1]x:02:00.0 "+
			"bridge\n        %04[1]x:03:00.0 %s\n      %04[1]x:02:01.0 bridge\n", i+1, o.gpu)
		for line := range strings.Lines(o.place(i)) {
			text += "        " + strings.ReplaceAll(line, "@", fmt.Sprintf("%04x:04:00", i+1))
		}
	}
	m, err := machine.Read([]byte(text + o.more))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return checktest.HGX(func(in *preflight.Input) { in.Node = m.Detect(t.Context()) })
}

const (
	instinct = "1002:75a0 1200 amdgpu gen=5 lanes=16"
	uplink   = "pci00f0:00\n  00f0:01:00.0 8086:1521 0200 igb\n    net eno1 speed=1000 addr=192.168.9.7/24\n"
)

// rdmaUplink is a way out that is an RDMA port itself.
const rdmaUplink = "pci00f0:00\n  00f0:01:00.0 15b3:101d 0200 mlx5_core\n    hca up0 type=MT4125\n" +
	"      port 1 ACTIVE LinkUp 100 Ethernet\n        gid 0 ::ffff:192.168.9.7 v2 eno1\n" +
	"    net eno1 speed=100000 addr=192.168.9.7/24\n"

// Each fault is on a machine of a kind of its own, next to a twin that is in order.
func TestRailsThatAreLost(t *testing.T) {
	thor := func(i int) string {
		return fmt.Sprintf("@.0 14e4:1760 0200 bnxt_en gen=5 lanes=16\n  hca bnxt_re%[1]d guid=c470:bd03:0000:%04[1]x\n"+
			"    port 1 ACTIVE LinkUp 400 Ethernet\n      gid 0 fe80::1:%[1]d v2 fe%[1]d\n"+
			"      gid 1 ::ffff:10.70.%[1]d.9 v2 fe%[1]d\n  net fe%[1]d speed=400000 addr=10.70.%[1]d.9/24\n", i)
	}
	hdr := func(i int) string {
		return fmt.Sprintf("@.0 15b3:101b 0207 mlx5_core gen=4 lanes=16\n"+
			"  hca ib%[1]d type=MT4123 guid=08c0:eb03:0000:%04[1]x\n"+
			"    port 1 ACTIVE LinkUp 200 InfiniBand lid=0x%[2]x sm=0x3 pkeys=0xffff\n      gid 0 fe80::8c0:eb03:0:%[1]x v1\n",
			i, 0x40+i)
	}
	bond := func(second string) func(int) string {
		return func(i int) string {
			leg := "up"
			if i == 1 {
				leg = second
			}
			return fmt.Sprintf("@.0 15b3:101d 0200 mlx5_core\n  hca mlx5_bond_%[1]d type=MT4125\n"+
				"    port 1 ACTIVE LinkUp 100 Ethernet\n      gid 0 fe80::2:%[1]d v2 agg%[1]d\n"+
				"      gid 1 ::ffff:10.71.%[1]d.9 v2 agg%[1]d\n  net p%[1]da speed=100000 master=agg%[1]d\n"+
				"@.1 15b3:101d 0200 mlx5_core\n  net p%[1]db %[2]s speed=100000 master=agg%[1]d\n", i, leg)
		}
	}
	aggregates := "virtual\n  net agg0 kind=bond addr=10.71.0.9/24\n  net agg1 kind=bond addr=10.71.1.9/24\n" +
		"  net agg2 kind=bond addr=10.71.2.9/24\n"
	but := func(all func(int) string, i int, old, new string) func(int) string {
		return func(j int) string {
			if j == i {
				return strings.ReplaceAll(all(j), old, new)
			}
			return all(j)
		}
	}
	none := func(all func(int) string, i int) func(int) string {
		return func(j int) string {
			if j == i {
				return ""
			}
			return all(j)
		}
	}
	const route = "route eno1 192.168.9.7\n"
	slow := func(i int) string { return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp 200", "DOWN Polling 10") }
	for _, tt := range []struct {
		name, id string
		machine  of
		want     string
	}{
		{"all are in order", "rdma.link", of{8, instinct, thor, uplink}, "ok 8 x Ethernet at 400 Gb/s"},
		{"one GPU of eight has no card", "rdma.link", of{8, instinct, none(hdr, 6), uplink},
			"warn GPU 6 (0007:03:00.0) has no rail at its PCIe switch, and each of the other 7 has one"},
		{"a pod without the card of one GPU", "rdma.link", of{8, instinct, none(hdr, 6), uplink + "rdma exclusive\n"},
			"ok 7 x InfiniBand"},
		{"one GPU of four has no card", "rdma.link", of{4, instinct, none(hdr, 1), uplink}, "ok 3 x InfiniBand"},
		{"two GPUs of eight have no card", "rdma.link", of{8, instinct, none(none(hdr, 6), 2), uplink}, "ok 6 x InfiniBand"},
		{"one has no driver", "rdma.link", of{5, instinct, func(i int) string {
			if i == 2 {
				return "@.0 14e4:1760 0200\n"
			}
			return thor(i)
		}, uplink}, "warn 0003:04:00.0 is a card like the rails of this node, and no driver is bound to it"},
		{"one is for guests", "rdma.link", of{5, instinct, func(i int) string {
			if i == 4 {
				return "@.0 15b3:101b 0207 vfio-pci\n"
			}
			return hdr(i)
		}, uplink}, "warn 0005:04:00.0 is a card like the rails of this node, and it is bound to vfio-pci"},
		{"one is a limited member", "rdma.link", of{6, instinct, but(hdr, 3, "0xffff", "0x7fff,0x0021"), uplink},
			"warn ib3 is no full member of a partition, unlike the 5 rails of this node"},
		{"one is a member of another partition", "rdma.link",
			of{6, instinct, but(hdr, 3, "0xffff", "0x7fff,0x8013"), uplink},
			"warn ib3 is not in the partition of the 5 rails of this node: in partition 0x8013, and the rest in 0xffff"},
		{"one has another partition, too", "rdma.link", of{6, instinct, but(hdr, 3, "0xffff", "0x8013,0xffff"), uplink},
			"ok 6 x InfiniBand"},
		{"a limited member is not without an address", "rdma.gid", of{6, instinct, but(hdr, 3, "0xffff", "0x0021"), uplink},
			"skip no RoCE rail here"},
		{"all are limited members", "rdma.link", of{6, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "0xffff", "0x7fff")
		}, uplink}, "ok 6 x InfiniBand"},
		{"all are down", "rdma.link", of{6, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp", "DOWN Polling")
		}, uplink}, "warn none of the 6 cards that this node has for 6 GPUs has a link: ib0, ib1, ib2, ib3 and 2 more"},
		{"spare cards of two GPUs", "rdma.link", of{2, instinct, func(int) string { return "" }, uplink +
			"pci00f1:00\n " + strings.ReplaceAll(slow(0), "@", "00f1:01:00") +
			"pci00f2:00\n " + strings.ReplaceAll(slow(1), "@", "00f2:01:00")}, "skip no RDMA port here"},
		{"all wait for a manager", "rdma.link", of{6, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp", "INIT LinkUp")
		}, uplink}, "warn wait for a subnet manager"},
		{"all wait for a manager, next to a way out with RDMA", "rdma.link", of{6, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp", "INIT LinkUp")
		}, rdmaUplink}, "warn ib0 port 1, ib1 port 1, ib2 port 1, ib3 port 1 and 2 more wait for a subnet manager"},
		{"two GPUs wait for a manager, next to such a way out", "rdma.link", of{2, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp", "INIT LinkUp")
		}, rdmaUplink}, "warn ib0 port 1, ib1 port 1 wait for a subnet manager"},
		{"one is armed and not active", "rdma.link", of{6, instinct, but(hdr, 2, "ACTIVE LinkUp", "ARMED LinkUp"), uplink},
			"warn ib2 port 1 waits for the subnet manager: configured (armed), and not active"},
		{"all are armed", "rdma.link", of{6, instinct, func(i int) string {
			return strings.ReplaceAll(hdr(i), "ACTIVE LinkUp", "ARMED LinkUp")
		}, uplink}, "warn ib0 port 1, ib1 port 1, ib2 port 1, ib3 port 1 and 2 more wait for the subnet manager: conf"},
		{"one is armed and has lost its cable", "rdma.link", of{6, instinct, but(hdr, 2, "ACTIVE LinkUp", "ARMED Polling"),
			uplink}, "warn ib2 is like the rails of this node and has no link"},
		{"all are in order, next to such a way out", "rdma.link", of{6, instinct, hdr, rdmaUplink}, "ok 6 x InfiniBand"},
		{"one spare card far from two GPUs, next to such a way out", "rdma.link", of{2, instinct, func(int) string {
			return ""
		}, rdmaUplink + "pci00f1:00\n " + strings.ReplaceAll(slow(0), "@", "00f1:01:00")}, "ok 1 x Ethernet"},
		{"one card far from two GPUs waits, next to such a way out", "rdma.link", of{2, instinct, func(int) string {
			return ""
		}, rdmaUplink + "pci00f1:00\n " + strings.ReplaceAll(strings.ReplaceAll(hdr(0), "ACTIVE", "INIT"), "@",
			"00f1:01:00")}, "warn ib0 port 1 waits for a subnet manager"},
		{"one link recovers from errors", "rdma.link", of{4, instinct, but(hdr, 2, "LinkUp", "LinkErrorRecovery"), uplink},
			"warn the port of ib2 is active, and its link is not up: LinkErrorRecovery"},
		{"one link trains", "rdma.link", of{4, instinct, but(hdr, 2, "LinkUp", "Training"), uplink},
			"warn the port of ib2 is active, and its link is not up: Training"},
		{"a driver of Ethernet that reports polling", "rdma.link", of{4, instinct, but(thor, 2, "LinkUp", "Polling"), uplink},
			"ok 4 x Ethernet"},
		{"a member of a bond has no carrier", "rdma.link", of{3, instinct, bond("nocarrier"), uplink + aggregates},
			"warn mlx5_bond_1 runs over agg1, of which a member has no carrier: p1b"},
		{"a member of a bond is off", "rdma.link", of{3, instinct, bond("down"), uplink + aggregates},
			"warn mlx5_bond_1 runs over agg1, of which a member has no carrier: p1b"},
		{"all bonds have one leg on purpose", "rdma.link", of{3, instinct, func(i int) string {
			return strings.Replace(bond("up")(i), "b up", "b down", 1)
		}, uplink + aggregates}, "ok 3 x Ethernet"},
		{"bonds in order", "rdma.link", of{3, instinct, bond("up"), uplink + aggregates}, "ok 3 x Ethernet"},

		{"one PCIe link trained to generation 3", "rdma.rate",
			of{4, instinct, but(thor, 3, "gen=5", "gen=3 maxgen=5"), uplink},
			"warn bnxt_re3 has a PCIe link of generation 3, and that of 0001:04:00.0 is 5: its 16 lanes carry 128 Gb/s, and " +
				"its port has 400 Gb/s"},
		{"the same without its best", "rdma.rate", of{4, instinct, but(thor, 0, "gen=5", "gen=2"), uplink},
			"warn bnxt_re0 has a PCIe link of generation 2, and that of 0002:04:00.0 is 5"},
		{"fewer lanes at a lower generation", "rdma.rate", of{1, instinct, but(thor, 0, "gen=5 lanes=16",
			"gen=4 maxgen=5 lanes=8 maxlanes=16"), uplink}, "warn bnxt_re0 has 8 of its 16 PCIe lanes, which carry 128 Gb/s"},
		{"one at generation 3, which suffices", "rdma.rate", of{4, instinct, but(hdr, 1, "gen=4", "gen=4 maxgen=5"), uplink},
			"ok 4 x InfiniBand"},
		{"all slots are of generation 4", "rdma.rate", of{4, instinct, func(i int) string {
			return strings.ReplaceAll(thor(i), "gen=5", "gen=4 maxgen=5")
		}, uplink}, "ok 4 x Ethernet"},
		{"the only one at generation 1", "rdma.rate", of{1, instinct, but(thor, 0, "gen=5", "gen=1 maxgen=5"), uplink},
			"warn bnxt_re0 has a PCIe link of generation 1, and its own best is 5"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), tt.id, tt.machine.input(t, route)), tt.want)
		})
	}
}

// The rate that is lost is named only where it is known: the rate of a port without a link says nothing.
func TestTheRateThatADarkNodeHasLost(t *testing.T) {
	for kind, want := range map[string]string{
		"15b3:101b 0207 mlx5_core;type=MT4123": "the job uses TCP instead, at a fraction of the rate",
		"14e4:1760 0200 bnxt_en;guid=1:2:3:4":  "the job uses TCP instead",
	} {
		card, name, _ := strings.Cut(kind, ";")
		in := of{4, instinct, func(i int) string {
			return fmt.Sprintf("@.0 %s\n  hca r%d %s\n    port 1 DOWN Disabled 40 Ethernet\n", card, i, name)
		}, uplink}.input(t, "route eno1 192.168.9.7\n")
		if f := checktest.Verdict(t, Checks(), "rdma.link", in); f.Breaks != want {
			t.Errorf("%s: %q, want %q", card, f.Breaks, want)
		}
	}
}

// The half of a cable that is off has a fix of its own.
func TestTheHalfOfACableThatIsOff(t *testing.T) {
	const four = `pci0000:00
  0000:03:00.0 15b3:1021 0200 mlx5_core
    hca left0 type=MT4129 system=58a2:e103:0000:0001
      port 1 DOWN Disabled 200 Ethernet
  0000:03:00.1 15b3:1021 0200 mlx5_core
    hca left1 type=MT4129 system=58a2:e103:0000:0001
      port 1 ACTIVE LinkUp 200 Ethernet
        gid 0 ::ffff:10.72.0.9 v2 qsfp1
    net qsfp1 speed=200000 addr=10.72.0.9/24
pci0004:00
  0004:03:00.0 15b3:1021 0200 mlx5_core
    hca right0 type=MT4129 system=58a2:e103:0000:0001
      port 1 DOWN Disabled 200 Ethernet
  0004:03:00.1 15b3:1021 0200 mlx5_core
    hca right1 type=MT4129 system=58a2:e103:0000:0001
      port 1 DOWN Polling 200 Ethernet
    net qsfp3 down
`
	in := of{1, instinct, func(int) string { return "" }, four + uplink}.input(t, "route eno1 192.168.9.7\n")
	f := checktest.Verdict(t, Checks(), "rdma.link", in)
	checktest.Wants(t, f, "warn right1 is down, and left1, which shares its cable, has a link")
	if !strings.Contains(f.Fix, "ip link set qsfp3 up") {
		t.Errorf("fix %q", f.Fix)
	}
	for i := range in.Node.HCAs {
		in.Node.HCAs[i].System = "" // nothing shows that they are one card
	}
	if f := rail.Of(in.Node, in.Addr); len(f.Rails) != 1 {
		t.Errorf("%d rails", len(f.Rails))
	}
	in.Node.HCAs = in.Node.HCAs[:1]
	in.Node.HCAs[0].Ports[0].State = 4
	checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.link", in), "ok 1 x Ethernet")
}

// The line for a subnet manager has its own form, with the GUID of the port and the partition of the others.
func TestTheLineForAPartition(t *testing.T) {
	for _, tt := range []struct{ all, one, gid, want string }{
		{"0x8021", "0x7fff", "fe80::8c0:eb03:0:93",
			"0x08c0eb0300000093=full   # add it to the line of their partition (0x21) in opensm's partitions.conf"},
		{"0xffff,0x8021", "0x7fff,0x8013", "fe80::8c0:eb03:0:93", "0x08c0eb0300000093=full   # add it to the line of their " +
			"partition (0x7fff)"},
		{"0x8021", "0x0021", "", "0x08c0eb0300000003=full   # add it to the line of their partition (0x21)"},
	} {
		in := of{4, instinct, func(i int) string {
			keys, gid := tt.all, fmt.Sprintf("fe80::8c0:eb03:0:%x", 0x90+i)
			if i == 3 {
				keys, gid = tt.one, tt.gid
			}
			text := fmt.Sprintf("@.0 15b3:101b 0207 mlx5_core\n  hca ib%[1]d type=MT4123 guid=08c0:eb03:0000:%04[1]x\n"+
				"    port 1 ACTIVE LinkUp 200 InfiniBand lid=0x%[2]x sm=0x3 pkeys=%[3]s\n", i, 0x40+i, keys)
			if gid != "" {
				text += "      gid 0 " + gid + " v1\n"
			}
			return text
		}, uplink}.input(t, "route eno1 192.168.9.7\n")
		if f := checktest.Verdict(t, Checks(), "rdma.link", in); !strings.HasPrefix(f.Fix, tt.want) {
			t.Errorf("%q, want %q", f.Fix, tt.want)
		}
	}
}
