package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// Ports of InfiniBand whose cable is up and that do not carry data, each with the reason.
func TestPortsThatWait(t *testing.T) {
	card := func(id, kind, guid, state string, sm int) func(int) string {
		return func(i int) string {
			return fmt.Sprintf("@.0 15b3:%s 0207 mlx5_core\n  hca ib%d type=%s guid=%s\n    port 1 %s InfiniBand lid=%#x "+
				"sm=%#x pkeys=0xffff\n", id, i, kind, strings.ReplaceAll(guid, "#", fmt.Sprint(i)), state, 0x40+i, sm) +
				map[bool]string{true: "", false: fmt.Sprintf("      gid 0 fe80::8c0:eb03:0:%d v1\n", i+1)}[guid == zero]
		}
	}
	const set, up, down, initial = "08c0:eb03:0000:004#", "ACTIVE LinkUp 200", "DOWN LinkUp 10", "INIT LinkUp 200"
	vf, pf := card("101c", "MT4124", set, up, 1), card("101b", "MT4123", set, up, 1)
	mixed := func(all func(int) string, other func(int) string, at ...int) func(int) string {
		return func(i int) string {
			for _, a := range at {
				if a == i {
					return other(i)
				}
			}
			return all(i)
		}
	}
	hfi := func(state string) func(int) string {
		return func(i int) string {
			return strings.NewReplacer("15b3:101b", "8086:24f0", "0207", "0208", "mlx5_core", "hfi1", "type=MT4123 ", "",
				"hca ib", "hca hfi1_").Replace(card("101b", "MT4123", set, state, 1)(i))
		}
	}
	const noGUID = "warn ib2 port 1 is a virtual function without a GUID, so no subnet manager enables it"
	for _, tt := range []struct {
		name  string
		gpus  int
		place func(int) string
		want  string
		fix   string // a part of the fix
	}{
		{"functions in order", 4, vf, "ok 4 x InfiniBand", ""},
		{"a function without a GUID", 4, mixed(vf, card("101c", "MT4124", zero, down, 0), 2), noGUID, "node_guid GUID"},
		{"a function without a GUID that polls", 4, mixed(vf, card("101c", "MT4124", zero, "DOWN Polling 10", 0), 2), noGUID,
			"port_guid GUID"},
		{"a function with a GUID that polls", 4, mixed(vf, card("101c", "MT4124", set, "DOWN Polling 10", 0), 2),
			"warn ib2 is like the rails of this node and has no link: no active port: port 1 is down, polling", "ibstat ib2"},
		{"two cards without a cable", 6, mixed(pf, card("101b", "MT4123", set, "DOWN Polling 10", 0), 1, 4),
			"warn ib1, ib4 are like the rails of this node and have no link: no active port: port 1 is down, polling",
			"ibstat ib1"},
		{"the same of eight, initializing", 8, mixed(vf, card("101c", "MT4124", zero, initial, 0), 2), noGUID, "unbind"},
		{"active without a GUID", 4, mixed(vf, card("101c", "MT4124", zero, up, 1), 2), "ok 4 x InfiniBand", ""},
		{"a function with a GUID", 4, mixed(vf, card("101c", "MT4124", set, down, 0), 2),
			"warn ib2 port 1 is a virtual function that is down", "state auto"},
		{"functions, none served", 4, card("101c", "MT4124", set, down, 0), "warn wait for a subnet manager", "start opensm"},
		{"a card that waits next to others", 6, mixed(pf, card("101b", "MT4123", set, initial, 0), 3),
			"warn ib3 port 1 waits for the subnet manager that serves other ports", "sminfo -C ib3"},
		{"two cards of six", 6, mixed(pf, card("101b", "MT4123", set, initial, 0), 3, 4),
			"warn ib3 port 1, ib4 port 1 wait for the subnet manager that serves other ports", "sminfo"},
		{"half of the cards", 4, mixed(pf, card("101b", "MT4123", set, initial, 0), 1, 3), "warn wait for a subnet manager",
			"start opensm"},
		{"Omni-Path next to others", 4, mixed(hfi(up), hfi(down), 1),
			"warn hfi1_1 port 1 waits for the fabric manager that serves other ports", "opainfo"},
		{"Omni-Path, none served", 4, hfi(down), "warn wait for a fabric manager", "start opafm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := checktest.Verdict(t, Checks(), "rdma.link", of{tt.gpus, instinct, tt.place, uplink}.input(t,
				"route eno1 192.168.9.7\n"))
			checktest.Wants(t, f, tt.want)
			if !strings.Contains(f.Fix, tt.fix) || strings.Contains(f.Fix, "start opensm") && tt.fix != "start opensm" {
				t.Errorf("fix %q, want %q", f.Fix, tt.fix)
			}
		})
	}
}

const zero = "0000:0000:0000:0000"

// Rails that are interfaces: one at a lower rate, next to those that have another rate on purpose.
func TestLinksAtALowerRate(t *testing.T) {
	link := func(id, driver, name string, speeds ...int) func(int) string {
		return func(i int) string {
			return fmt.Sprintf("@.0 %s 0200 %s\n  net %s%d speed=%d addr=10.253.%[4]d.9/24\n", id, driver, name, i,
				speeds[i%len(speeds)])
		}
	}
	hsn := func(speeds ...int) func(int) string { return link("17db:0501", "cxi_ss1", "hsn", speeds...) }
	gve := func(speeds ...int) func(int) string { return link("1ae0:0042", "gve", "eth", speeds...) }
	for _, tt := range []struct {
		name  string
		gpus  int
		place func(int) string
		want  string
	}{
		{"all at one rate", 4, hsn(200000), "ok 4 x Slingshot"},
		{"one of four", 4, hsn(200000, 200000, 100000, 200000), "warn hsn2 runs at 100 Gb/s, hsn0 of the same kind at 200"},
		{"one of eight at a quarter", 8, hsn(400000, 400000, 400000, 400000, 400000, 400000, 400000, 100000),
			"warn hsn7 runs at 100 Gb/s"},
		{"half of them", 4, hsn(200000, 100000), "ok 4 x Slingshot"},
		{"a rate that is not known", 4, hsn(200000, 200000, -1, 200000), "ok 4 x Slingshot"},
		{"interfaces of TCP", 4, gve(100000, 100000, 100000, 50000), "warn eth3 runs at 50 Gb/s"},
		{"interfaces of TCP in order", 8, gve(100000), "ok 8 interfaces of driver gve"},
		{"cards of two models", 4, func(i int) string {
			if i == 1 {
				return link("8086:1592", "ice", "ens", 25000)(i)
			}
			return link("8086:159b", "ice", "ens", 100000)(i)
		}, "ok 4 interfaces of driver ice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := of{tt.gpus, instinct, tt.place, uplink}.input(t, "route eno1 192.168.9.7\n")
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.rate", in), tt.want)
		})
	}
}

// The card of a bond that another card's rail runs over is no port without an address.
func TestTheOtherCardOfABond(t *testing.T) {
	leg := func(bonded bool, bad int) func(int) string {
		return func(i int) string {
			netdev, master := fmt.Sprintf("ens%d", i), ""
			if bonded && i < 2 {
				netdev, master = "bond1", "master=bond1"
			}
			gid := fmt.Sprintf("      gid 1 ::ffff:10.19.4.%d v2 %s\n", 8+max(0, i-1), netdev)
			if i == bad {
				gid = ""
			}
			addr := fmt.Sprintf("addr=10.19.4.%d/24", 8+max(0, i-1))
			if master != "" || i == bad {
				addr = ""
			}
			return fmt.Sprintf("@.0 15b3:101d 0200 mlx5_core\n  hca mlx5_%d type=MT4125\n    port 1 ACTIVE LinkUp 100 Ethernet "+
				"slots=16\n%s  net ens%[1]d speed=100000 %[3]s %[4]s\n", i, gid, addr, master)
		}
	}
	bond := func(mode string) string {
		return "virtual\n  net bond1 kind=bond addr=10.19.4.8/24 mode=\"" + mode + "\"\n"
	}
	for _, tt := range []struct {
		name  string
		gpus  int
		place func(int) string
		more  string
		want  string
	}{
		{"in reserve", 2, leg(true, 1), bond("active-backup 1"), "ok 1 RoCE rail with an address"},
		{"the first is in reserve", 2, leg(true, 0), bond("active-backup 1"), "ok 1 RoCE rail with an address"},
		{"shares the load", 2, leg(true, 1), bond("802.3ad 4"), "ok 1 RoCE rail with an address"},
		{"a card without a bond", 2, leg(false, 1), "", "warn 1 card without an IP address that a router forwards"},
		{"a card next to the bond", 3, leg(true, 2), bond("802.3ad 4"), "warn 1 card without an IP address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := of{tt.gpus, instinct, tt.place, uplink + tt.more}.input(t, "route eno1 192.168.9.7\n")
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.gid", in), tt.want)
		})
	}
}
