package peers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/calls"
	"launch/preflight/checktest"
)

func traitsOf(in preflight.Input) Traits { return TraitsOf(in, rail.Of(in.Node, in.Addr)) }

func TestTraitsOfANode(t *testing.T) {
	want := Traits{
		GPU: "NVIDIA H100 80GB HBM3", Memory: 80, Machine: "01234567-89a", Certain: true,
		UUIDs:  []string{"000000a0", "000000a1", "000000a2", "000000a3", "000000a4", "000000a5", "000000a6", "000000a7"},
		Fabric: rail.RoCE, Rails: "8 x 400 Gb/s", MTU: "4096", GID: "RoCE v2, IPv4", Firmware: "MT4129 28.39.1002",
		PeerMTU: 1500, PeerIf: "eth0", Prefix: netip.MustParsePrefix("10.0.0.5/24"), Family: "IPv4",
	}
	eth0 := func(in *preflight.Input) { in.Node.Interfaces[1].MTU = 1500 }
	in := checktest.Railed(8, "Ethernet", eth0)
	if diff := cmp.Diff(want, traitsOf(in), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("eight rails of RoCE (-want +got):\n%s", diff)
	}
	if b, err := json.Marshal(want); err != nil || len(b) >= 400 {
		t.Errorf("%d bytes, %v; want less than 400: %s", len(b), err, b)
	}
	in = checktest.Railed(2, "InfiniBand", checktest.ProcessesOf("gpu"),
		checktest.OfHCA(1, func(h *fabric.HCA, p *fabric.Port) { h.Firmware = "28.36.1010" }), checktest.OfGPU(7,
			func(g *gpu.GPU) { g.Name = "NVIDIA H200" }))
	got := traitsOf(in)
	for name, pair := range map[string][2]string{
		"models":   {"NVIDIA H100 80GB HBM3 + NVIDIA H200", got.GPU},
		"fabric":   {"infiniband", string(got.Fabric)},
		"rails":    {"2 x 400 Gb/s", got.Rails},
		"firmware": {"MT4129 28.36.1010 + MT4129 28.39.1002", got.Firmware},
		"subnets":  {"fe80:0000:0000:0000", got.Subnets},
		"MTU":      {"", got.MTU},
		"GPUs":     {"8", fmt.Sprint(got.GPUs)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", name, pair[1], pair[0])
		}
	}
	if got := traitsOf(checktest.Four()); !cmp.Equal(got, Traits{NoGPU: true, Fabric: rail.TCP, Family: "IPv4",
		Prefix: netip.MustParsePrefix("10.0.0.5/24")},
		cmpopts.EquateComparable(netip.Prefix{})) {
		t.Errorf("a node without GPUs and RDMA: %+v", got)
	}
}

func TestTheMarkOfADiskImageIsThatOfAMachine(t *testing.T) {
	for kind, want := range map[string]string{"": "0a0b0c0d", "docker": "", "kubernetes": ""} {
		in := checktest.Four()
		in.Node.System.Image, in.Node.Container.Kind = "0a0b0c0d", kind
		if got := traitsOf(in).Image; got != want {
			t.Errorf("in %q: %q, want %q", kind, got, want)
		}
	}
	for a, want := range map[string]string{"10.0.0.1": "IPv4", "::ffff:10.0.0.1": "IPv4", "2001:db8::1": "IPv6",
		"127.0.0.1": "", "::1": ""} {
		in := checktest.Four()
		in.Addr = netip.MustParseAddr(a)
		if got := traitsOf(in).Family; got != want {
			t.Errorf("%s: %q, want %q", a, got, want)
		}
	}
}

// Memory in GiB that error correction has taken a share of is the same board's.
func TestMemoryOfAModelIsOneNumber(t *testing.T) {
	for want, sizes := range map[int][]uint64{80: {85520809984, 85899345920}, 24: {24 << 30, 22<<30 + 1<<29},
		48: {48 << 30, 44<<30 + 1<<29}, 40: {42298834944}, 16: {16 << 30, 15 << 30}} {
		for _, n := range sizes {
			if got := traitsOf(checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.Memory = n }))).Memory; got != want {
				t.Errorf("%d bytes are %d, want %d", n, got, want)
			}
		}
	}
}

// mix is n nodes of GPUs and RoCE that differ on these ranks.
func mix(n int, edit func(*Traits), ranks ...int) []Post {
	in := checktest.Railed(8, "Ethernet")
	one := traitsOf(in)
	return posts(n, func(rank int, p *Post) {
		p.Loads, p.Traits = gpuNode(), one
		p.Traits.Machine = fmt.Sprintf("%012d", rank)
		if slices.Contains(ranks, rank) {
			edit(&p.Traits)
		}
	})
}

func pinned(net string, ps []Post) []Post {
	for i := range ps {
		ps[i].Constants = map[string]string{"NCCL_NET": net}
	}
	return ps
}

// What is to be typed for an MTU is whole, with the interface of the node.
func TestTheLineForAnMTUNamesTheInterface(t *testing.T) {
	ps := mix(3, func(t *Traits) { t.PeerMTU, t.PeerIf = 1500, "eth0" }, 0, 1, 2)
	ps[2].Traits.PeerMTU, ps[2].Traits.PeerIf = 9000, "ens3"
	d := Decide(ps, nil)
	if want := "ip link set dev ens3 mtu 1500   # on host2, and in its network configuration"; len(d.Findings) != 1 ||
		d.Findings[0].Fix != want {
		t.Errorf("got %+v, want the fix %q", d.Findings, want)
	}
	hole := func(iface func(rank int) string) string {
		d := Decide(posts(2, func(rank int, p *Post) {
			p.Calls = []calls.Call{{To: 1 - rank, Addr: "10.0.0.1:1", MTU: 1400, IfMTU: 1500, Hole: true, Iface: iface(rank)}}
		}), nil)
		line, _, _ := strings.Cut(d.Findings[0].Fix, "\n")
		return line
	}
	for want, iface := range map[string]func(int) string{
		"ip link set dev eth0 mtu 1400   # on all nodes": func(
			int) string {
			return "eth0"
		},
		"ip link set dev eth0 mtu 1400   # on all nodes; on some of them it is eth1": func(
			rank int) string {
			return fmt.Sprintf("eth%d", rank)
		},
		"ip link set dev IFACE mtu 1400   # on all nodes, IFACE: the interface of each node's address": func(
			int) string {
			return ""
		},
	} {
		if got := hole(iface); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// pluginless makes it unknown on all nodes whether NCCL has a plugin.
func pluginless(ps []Post) []Post {
	for i := range ps {
		ps[i].Loads.Plugin = software.Item{}
	}
	return ps
}

// sixSet sets IPv6 for NCCL on these ranks, and where that is the address.
func sixSet(ps []Post, ranks ...int) []Post {
	for i, p := range ps {
		if p.Traits.Family == "IPv6" || slices.Contains(ranks, p.Rank) {
			ps[i].Constants = map[string]string{"NCCL_SOCKET_FAMILY": "AF_INET6"}
		}
	}
	return ps
}

func TestNodesThatAreMadeDifferently(t *testing.T) {
	six := func(t *Traits) { t.Family = "IPv6" }
	sevenRails := func(t *Traits) { t.Rails = "7 x 400 Gb/s" }
	noFabric := func(t *Traits) { t.Fabric, t.Rails, t.MTU, t.GID, t.Firmware = rail.TCP, "", "", "", "" }
	otherModel := func(t *Traits) { t.GPU, t.Memory = "NVIDIA A100-SXM4-80GB", 80 }
	otherCard := func(t *Traits) { t.Rails, t.Firmware, t.MTU = "8 x 200 Gb/s", "MT4123 20.31.1014", "1024" }
	for name, tt := range map[string]struct {
		posts []Post
		want  []string
		unfit []int
	}{
		"all alike, 2":    {mix(2, nil), nil, nil},
		"all alike, 5":    {mix(5, nil), nil, nil},
		"all alike, 1000": {mix(1000, nil), nil, nil},
		"nothing known":   {posts(3, nil), nil, nil},
		"ports that a setting chooses on one of three": {mix(3, func(t *Traits) {
			t.NCCLPorts = "2 x 400 Gb/s " +
				"Ethernet"
		}, 1),
			[]string{"warn same.hca: different number and kind of ports in NCCL_IB_HCA: 2 of 3 nodes have 8 x 400 Gb/s " +
				"Ethernet; " +
				"host1 (node rank 1) has 2 x 400 Gb/s Ethernet"}, nil},
		"ports that a setting chooses alike": {mix(3, func(t *Traits) { t.NCCLPorts = "2 x 400 Gb/s Ethernet" }, 0, 1, 2),
			nil, nil},
		"ports of another kind on one of two": {mix(2, func(t *Traits) { t.NCCLPorts = "1 x 400 Gb/s InfiniBand" }, 1),
			[]string{
				"fail same.hca: different number and kind of ports in NCCL_IB_HCA: host0 (node rank 0) has 8 x 400 Gb/s " +
					"Ethernet; " +
					"host1 (node rank 1) has 1 x 400 Gb/s InfiniBand"}, []int{1}},
		"ports of another kind, and a plugin is not known": {pluginless(mix(2,
			func(t *Traits) { t.NCCLPorts = "1 x 400 Gb/s InfiniBand" }, 1)), []string{
			"warn same.hca: different number and kind of ports in NCCL_IB_HCA: host0 (node rank 0) has 8 x 400 Gb/s " +
				"Ethernet; " +
				"host1 (node rank 1) has 1 x 400 Gb/s InfiniBand"}, nil},
		"a rail less on one of three": {mix(3, sevenRails, 1),
			[]string{"warn same.rails: different number and rate of rails: 2 of 3 nodes have 8 x 400 Gb/s; host1 (node " +
				"rank 1) " +
				"has 7 x 400 Gb/s"}, nil},
		"one against one": {mix(2, sevenRails, 0),
			[]string{"warn same.rails: different number and rate of rails: host0 (node rank 0) has 7 x 400 Gb/s; host1 " +
				"(node rank 1) " +
				"has 8 x 400 Gb/s"}, nil},
		"a rail less on one of a thousand": {mix(1000, sevenRails, 700),
			[]string{"warn same.rails: different number and rate of rails: 999 of 1000 nodes have 8 x 400 Gb/s; host700 " +
				"(node rank 700) has 7 x 400 " +
				"Gb/s"}, nil},
		"another model, as much memory": {mix(5, otherModel, 3),
			[]string{"warn same.gpu: different GPU model: 4 of 5 nodes have NVIDIA H100 80GB HBM3; host3 (node rank 3) " +
				"has NVIDIA " +
				"A100-SXM4-80GB"}, nil},
		"another card is one cause": {mix(5, otherCard, 3),
			[]string{"warn same.rails: different number and rate of rails, packet size of the rails (bytes), firmware of " +
				"the " +
				"rails: 4 of 5 " +
				"nodes have 8 x 400 Gb/s, 4096, MT4129 28.39.1002; " +
				"host3 (node rank 3) has 8 x 200 Gb/s, 1024, MT4123 20.31.1014"}, nil},
		"no fabric on one": {mix(5, noFabric, 3), []string{"warn same.fabric: different training fabric: 4 of 5 nodes " +
			"have roce; host3 (node rank 3) has tcp"}, nil},
		"no fabric on one, and NCCL may take no other": {pinned("IB", mix(5, noFabric, 3)),
			[]string{"fail same.fabric: different training fabric: 4 of 5 nodes have roce; host3 (node rank 3) has " +
				"tcp"}, []int{3}},
		"a fabric on one only, and NCCL may take no other": {pinned("ib", mix(3, noFabric, 0, 2)),
			[]string{"fail same.fabric: different training fabric: 2 of 3 nodes have tcp; host1 (node rank 1) has " +
				"roce"}, []int{0,
				2}},
		"no fabric on one, and TCP is asked for": {pinned("Socket", mix(3, noFabric, 2)),
			[]string{"warn same.fabric: different training fabric: 2 of 3 nodes have roce; host2 (node rank 2) has " +
				"tcp"}, nil},
		"no fabric on one, on CPUs": {onCPUs(pinned("IB", mix(5, noFabric, 3))), nil, nil},
		"MIG on one": {mix(3, func(t *Traits) { t.MIG = true }, 2),
			[]string{"warn same.gpu.mig: different MIG mode: 2 of 3 nodes have off; host2 (node rank 2) has on"}, nil},
		// the others' is not known
		"MTU of the peers' interface, on CPUs": {onCPUs(mix(3, func(t *Traits) { t.PeerMTU = 9000 }, 2)), nil, nil},
		"a MTU that differs": {onCPUs(mix(3, func(t *Traits) {
			t.PeerMTU = map[string]int{"000000000002": 9000}[t.Machine] +
				1500
		}, 0, 1, 2)),
			[]string{"warn same.mtu: different MTU of the peers' interface: 2 of 3 nodes have 1500; host2 (node rank 2) " +
				"has 10500"},
			nil},
		"an address of another family, on CPUs": {onCPUs(mix(3, six, 1)),
			[]string{"warn same.family: different family of the nodes' addresses: 2 of 3 nodes have IPv4; host1 (node " +
				"rank 1) has " +
				"IPv6"}, nil},
		"the same on GPUs, where a setting of NCCL says so": {sixSet(mix(3, six, 1)),
			[]string{"warn same.family: different family of the nodes' addresses: 2 of 3 nodes have IPv4; host1 (node " +
				"rank 1) has " +
				"IPv6"}, nil},
		"a setting of NCCL names another family, without a reason": {sixSet(mix(3, nil), 1),
			[]string{`warn same.env: NCCL_SOCKET_FAMILY differs: 2 of 3 nodes have ` +
				`"NCCL_SOCKET_FAMILY not set", host1 has "NCCL_SOCKET_FAMILY=AF_INET6"`}, nil},
		"each has another firmware": {mix(1000, func(t *Traits) { t.Firmware = t.Machine }, func() (all []int) {
			for i := range 1000 {
				all = append(all, i)
			}
			return
		}()...), []string{"warn same.firmware: different firmware of the rails: host0 (node rank 0) has 000000000000; " +
			"host1 " +
			"(node rank 1) has 000000000001; " +
			"host2 (node rank 2) has 000000000002; host3 (node rank 3) has 000000000003; and 996 more kinds"}, nil},
		"another number of GPUs, where one process starts on each": {mix(3,
			func(t *Traits) { t.GPUs = 8 - int(t.Machine[11]-'0')%2 }, 0, 1, 2),
			[]string{"warn same.gpus: different number of GPUs: 2 of 3 nodes have 8; host1 (node rank 1) has 7"}, nil},
		"one sees no GPU": {mix(3, func(t *Traits) { t.GPU, t.NoGPU, t.Memory, t.UUIDs = "", true, 0, nil }, 1),
			[]string{"warn same.gpu.seen: different sight of GPUs: 2 of 3 nodes have GPUs; host1 (node rank 1) has no " +
				"GPU"}, nil},
		"two on one machine, with GPUs of their own": {mix(2,
			func(t *Traits) { t.Machine, t.UUIDs = "m", []string{"a" + t.Machine} }, 0, 1), nil, nil},
		"two on one machine, with the same GPUs": {mix(3, func(t *Traits) { t.Machine = "m" }, 0, 2),
			[]string{"fail same.gpu.owner: host0 (node rank 0) and host2 (node rank 2) are on one machine and use the " +
				"same GPUs: " +
				"GPU-…000000a0, GPU-…000000a1, GPU-…000000a2, GPU-…000000a3 and 4 more"}, []int{2}},
		"the same, where NCCL takes them for two machines": {mix(2,
			func(t *Traits) { t.HostID, t.Machine, t.UUIDs = t.Machine, "m", t.UUIDs[:1] }, 0, 1),
			[]string{"warn same.gpu.owner: host0 (node rank 0) and host1 (node rank 1) are on one machine and use the " +
				"same GPU: " +
				"GPU-…000000a0"}, nil},
		"the same, where not each GPU is needed": {mix(2,
			func(t *Traits) { t.Machine, t.Certain, t.UUIDs = "m", false, t.UUIDs[:1] }, 0, 1),
			[]string{"warn same.gpu.owner: host0 (node rank 0) and host1 (node rank 1) are on one machine and use the " +
				"same GPU: " +
				"GPU-…000000a0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			d := Decide(tt.posts, nil)
			if diff := cmp.Diff(tt.want, checktest.Lines(d.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.unfit, d.Unfit); diff != "" {
				t.Errorf("unfit (-want +got):\n%s", diff)
			}
			for _, f := range d.Findings {
				if f.Breaks == "" || f.Fix == "" || len(f.Seen) == 0 && f.ID != "same.env" {
					t.Errorf("%s does not say where, so what and what to do: %+v", f.ID, f)
				}
			}
			t.Log(len(tt.posts), "nodes in", time.Since(began))
		})
	}
}

// Two nodes that are recorded alike are alike, and an elder post, or one that
// could not be read, differs in nothing.
func TestRecordedMachinesAreLikeThemselves(t *testing.T) {
	for _, name := range machinetest.Names() {
		in := checktest.Recorded(t, name)
		in.Addr = netip.Addr{}
		tr := traitsOf(in)
		ps := posts(3, func(rank int, p *Post) {
			if p.Loads.GPU = true; rank < 2 {
				p.Traits = tr
				p.Traits.Machine, p.Traits.GUIDs = fmt.Sprint(rank), nil // each machine has its own
			}
		})
		if got := Decide(ps, nil).Findings; len(got) > 0 {
			t.Errorf("%s: %v", name, checktest.Lines(got))
		}
		if b, _ := json.Marshal(tr); len(b) >= 500 {
			t.Errorf("%s: %d bytes: %s", name, len(b), b)
		}
	}
}

// What one user does not want judged is judged for none.
func TestATraitCanBeSwitchedOff(t *testing.T) {
	ps := pinned("IB", mix(3, func(t *Traits) { t.Fabric = rail.TCP }, 1))
	ps[2].Skip = []string{"same.fabric"}
	if d := Decide(ps, nil); !d.Go || finding.Report(d.Findings).Worst() == finding.Fail {
		t.Errorf("%+v", d)
	}
}

// A router's word, or an agreed segment size, lets nodes of different MTU reach each other.
func TestDifferentMTUsAreNothingWhereFullPacketsArrive(t *testing.T) {
	for _, tt := range []struct {
		name string
		call calls.Call
		want bool // a warning
	}{
		{"full packets arrive", calls.Call{MTU: 1500}, false},
		{"the size is not known", calls.Call{}, true},
		{"they vanish", calls.Call{MTU: 1500, Hole: true}, true},
		{"long messages stall", calls.Call{MTU: 1500, Stall: "there"}, true},
	} {
		d := Decide(posts(2, func(i int, p *Post) {
			p.Traits = Traits{PeerMTU: 1500 + 7500*i, PeerIf: "eth0"}
			c := tt.call
			c.To, c.IfMTU = 1-i, p.Traits.PeerMTU
			p.Calls = []calls.Call{c}
		}), nil)
		got := slices.ContainsFunc(d.Findings, func(f finding.Finding) bool { return f.ID == "same.mtu" })
		if got != tt.want {
			t.Errorf("%s: %+v", tt.name, d.Findings)
		}
	}
}
