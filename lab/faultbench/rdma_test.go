package faultbench

import (
	"regexp"
	"slices"
	"strings"
)

// rdmaFaults returns faults in the HCAs of the sick host.
func rdmaFaults() []fault {
	change := func(on, pattern, by string) func(*trial) {
		return func(tr *trial) {
			tr.equip(on)
			tr.sick.change(tr, pattern, by)
		}
	}
	setting := func(on string, env ...string) func(*trial) {
		return func(tr *trial) {
			tr.equip(on)
			tr.sick.env = append(tr.sick.env, env...)
		}
	}
	// verbs changes the answers of libibverbs on the sick host.
	verbs := func(f func(tr *trial, h *host)) func(*trial) {
		return func(tr *trial) {
			tr.equip(onIB)
			f(tr, tr.sick)
		}
	}
	// broken makes a device open and fail afterwards.
	broken := func(device, how string) func(*trial) {
		return verbs(func(tr *trial, h *host) {
			h.write(tr, "lib/verbs.txt", regexp.MustCompile(`(?m)^`+device+` .*`).
				ReplaceAllString(h.read(tr, "lib/verbs.txt"), "$0 "+how))
		})
	}
	const (
		mlx5x3    = `(hca mlx5_3 .*\n *)port 1 ACTIVE LinkUp 400 InfiniBand .*`
		everyIB   = `port 1 ACTIVE LinkUp 400 InfiniBand (lid=\S+)`
		ipv4      = `\n *gid [23] ::ffff:10\.224\.%s\S+ .*`
		replayed  = "the files of /sys/class/infiniband are replayed, nothing is sent over RDMA"
		noLibrary = "as above; the library belongs to the bench"
	)
	noIPv4 := func(net string) string { return strings.ReplaceAll(ipv4, "%s", net) }
	all := []fault{
		{name: "a port is down", ci: true, inject: change(onIB, mlx5x3,
			"${1}port 1 DOWN Polling 10 InfiniBand lid=0xffff sm=0x0"), want: []string{"rdma.link"}},
		{name: "a rail has no route", ci: true, runs: true, inject: func(tr *trial) {
			tr.equip(onRoCE)
			tr.sick.Run("", "sh", "-c", "ip route del 10.224.0.0/16 dev gpu3rdma0 && "+
				"ip rule del from $(ip -4 -br addr show gpu3rdma0 | awk '{sub(/\\/.*/, \"\", $3); print $3}')")
		}, want: []string{"peer.rails"}, real: "the routes are real, the cards are replayed"},
		{name: "no subnet manager", ci: true, inject: change(onIB, everyIB, "port 1 INIT LinkUp 400 InfiniBand lid=0xffff"),
			want: []string{"rdma.link"}},
		{name: "one port is at half its rate", inject: change(onIB, mlx5x3,
			"${1}port 1 ACTIVE LinkUp 200 InfiniBand lid=0x38 sm=0x1"), want: []string{"rdma.rate"}},
		{name: "all ports are at half their rate", inject: change(onIB, "LinkUp 400 InfiniBand", "LinkUp 200 InfiniBand"),
			want: []string{"same.rails"}},
		{name: "a card has half its lanes", inject: change(onIB, `(0000:3a:00.0 .*) lanes=16`, "$1 lanes=8"),
			want: []string{"rdma.rate"}},
		{name: "a card is missing", ci: true, inject: change(onIB,
			`\n *0000:3a:00.0 .*\n *hca .*\n *port .*\n *gid .*\n *net ib1 .*`, ""), want: []string{"same.rails"}},
		{name: "one card is Ethernet", inject: change(onIB, mlx5x3, "${1}port 1 ACTIVE LinkUp 400 Ethernet"),
			want: []string{"same.rails"}},
		{name: "another subnet", inject: change(onIB, `gid 0 fe80::b83f`, "gid 0 fec0:0:0:1:b83f"),
			want: []string{"same.subnet"}},
		{name: "a rail with an MTU of 1500", inject: func(tr *trial) {
			tr.equip(onRoCE)
			tr.sick.Run("", "ip", "link", "set", "gpu2rdma0", "mtu", "1500")
		}, want: []string{"rdma.mtu"}},
		{name: "all rails with an MTU of 1500", inject: func(tr *trial) {
			tr.equip(onRoCE)
			for _, n := range "01234567" {
				tr.sick.Run("", "ip", "link", "set", "gpu"+string(n)+"rdma0", "mtu", "1500")
			}
		}, want: []string{"same.rail.mtu"}},
		{name: "a rail has no address", ci: true, inject: change(onRoCE, noIPv4("2"), ""), want: []string{"rdma.gid"}},
		{name: "no rail has an address", inject: change(onRoCE, noIPv4(`\d`), ""), want: []string{"rdma.gid"}},
		{name: "rails of IPv6 only", inject: func(tr *trial) {
			change(onRoCE, `::ffff:10\.224\.(\d)\.`, "2001:db8:$1::")(tr)
			for _, n := range "01234567" {
				card := "gpu" + string(n) + "rdma0"
				tr.sick.Run("", "sh", "-c", "last=$(ip -4 -br addr show "+card+" | sed 's/.*\\.\\([0-9]*\\)\\/.*/\\1/'); "+
					"ip -6 addr add 2001:db8:"+string(n)+"::$last/64 dev "+card+" nodad")
			}
		}, want: []string{"same.gid"}},
		{name: "device nodes that cannot be opened", inject: verbs(func(tr *trial, h *host) {
			h.write(tr, "lib/verbs.txt", strings.ReplaceAll(h.read(tr, "lib/verbs.txt"), "\n", " open 13\n"))
		}), want: []string{"rdma.open"}, real: noLibrary},
		{name: "device nodes that are missing", inject: verbs(func(tr *trial, h *host) { h.write(tr, "lib/verbs.txt", "") }),
			want: []string{"rdma.open"}, real: noLibrary},
		{name: "a card that changes data", ci: true, inject: broken("mlx5_3", "corrupt 5"), want: []string{"rdma.loop"},
			real: noLibrary},
		{name: "no card may register memory", inject: broken(`mlx5_\w+`, "mr 1"), want: []string{"rdma.loop"},
			real: noLibrary},
		{name: "a card whose firmware makes no connections", inject: broken("mlx5_3", "rtr 110"), want: []string{"rdma.loop"},
			real: noLibrary},
		{name: "NCCL_IB_HCA of another machine", ci: true, inject: setting(onIB, "NCCL_IB_HCA=mlx5_17"),
			want: []string{"env.ib-hca"}, real: "all is real"},
		{name: "NCCL_IB_HCA chooses four of eight rails on one node", ci: true,
			inject: setting(onIB, "NCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5"), want: []string{"same.hca"}, real: "all is real"},
		{name: "NCCL_IB_HCA chooses the bond for management and four rails",
			inject: setting(onIB, "NCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_bond_0"),
			want:   []string{"env.rails"}, real: "all is real"},
		{name: "UCX_NET_DEVICES chooses one rail on one node", inject: setting(onIB, "UCX_NET_DEVICES=mlx5_0:1"),
			want: []string{"same.ucx.devices"}, real: "all is real"},
		{name: "NCCL_IB_GID_INDEX of another machine", inject: setting(onRoCE, "NCCL_IB_GID_INDEX=7"),
			want: []string{"env.gid-index"}, real: "all is real"},
		{name: "memlock is 64 KiB", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.Prepare = append(tr.sick.Prepare, "ulimit -l 64", `set -- setpriv --bounding-set -ipc_lock "$@"`)
		}, want: []string{"limits.memlock"}, real: "all is real"},
		{name: "firmware of one card", inject: change(onIB, `(hca mlx5_6 .*) fw=\S+`, "$1 fw=28.36.1010"),
			want: []string{"rdma.firmware"}},
		{name: "firmware of one node", inject: change(onIB, `(type=MT4129) fw=\S+`, "$1 fw=28.36.1010"),
			want: []string{"same.firmware"}},
		{name: "one node without GPUDirect", inject: change(onIB, `nvidia (\S+) open\nmodule nvidia_peermem\n`,
			"nvidia $1\nmodule nvidia\n"), want: []string{"warn same.gpudirect GPUDirect"}},
		{name: "no node has GPUDirect", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) {
				h.change(tr, `nvidia (\S+) open\nmodule nvidia_peermem\n`, "nvidia $1\nmodule nvidia\n")
			})
		}, want: []string{"gpu.direct"}},
		{name: "one node has no RDMA stack", inject: change(onIB, `\n *hca mlx5_\w+ .*\n *port .*(\n *gid .*)+`, ""),
			want: []string{"same.fabric"}},
		{name: "one node is on RoCE", inject: func(tr *trial) {
			for _, h := range tr.hosts {
				if h == tr.sick {
					h.equip(tr, onRoCE)
				}
			}
			tr.equip(onIB)
		}, want: []string{"same.fabric"}},
	}
	for i := range all {
		all[i].group = "rdma"
		// These are certain to hang or die: networks or addresses that differ.
		all[i].runs = !slices.Contains([]string{"no subnet manager", "a card that changes data",
			"no card may register memory", "NCCL_IB_GID_INDEX of another machine", "rails of IPv6 only"}, all[i].name)
		if all[i].real == "" {
			all[i].real = replayed
		}
	}
	return all
}
