package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
)

// traitRule is one trait that should be the same on all nodes.
type traitRule struct {
	id, title string
	of        func(Traits) string // "" is not compared
	breaks    string
	fix       string
	// dies returns why a node with another trait than most dies. Like everything about
	// the fabric it applies only where every node has a GPU: a job on CPUs uses TCP.
	dies func(p, most Post) string
	cpu  bool // it matters to a job on CPUs, too
	// or returns the trait of a node where of is unknown but known on another node.
	or func(Traits) string
	do func(odd, most Post) string // replaces fix
	// covers reports whether a trait has all of another one, and maybe more, which does no harm.
	covers func(own, most string) bool
	// sets is the setting that a node's plan derives from the trait: where only one node has the trait,
	// only that node has the setting. stops: NCCL stops then.
	sets  string
	stops bool
}

// traitRules returns the table; traits that explain others are first.
func traitRules() []traitRule { return slices.Concat(gpuRules(), fabricRules()) }

// positive returns a number as text, or "" if it is 0.
func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// sight returns whether the job sees a GPU; "" where that is not known.
func sight(t Traits) string {
	switch {
	case t.GPU != "":
		return "GPUs"
	case t.NoGPU:
		return "no GPU"
	}
	return ""
}

func gpuRules() []traitRule {
	const hardware = "launch fabric   # on both: shows the difference"
	return []traitRule{
		{id: "same.gpu", title: "GPU model", of: func(t Traits) string { return t.GPU }, fix: hardware,
			breaks: "all ranks wait for the slowest GPU, and batches that fit into one model's memory may not fit into " +
				"another's"},
		{id: "same.gpus", title: "number of GPUs", of: func(t Traits) string { return positive(t.GPUs) },
			breaks: "one process starts for each GPU, so the ranks are unevenly spread; programs that split work by node go " +
				"wrong",
			fix: "nvidia-smi -L   # there; a GPU that fell off the bus needs a reboot\n" +
				"or give a number: --nproc-per-node N"},
		{id: "same.gpu.seen", title: "sight of GPUs", cpu: true, of: sight,
			breaks: "the ranks of a node without a GPU die where those of the others use CUDA, and the others wait for them",
			fix:    "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L   # there"},
		{id: "same.gpu.memory", title: "GPU memory (GiB)", of: func(t Traits) string { return positive(t.Memory) },
			breaks: "a batch that fits on some nodes does not fit on others", fix: hardware},
		{id: "same.gpu.mig", title: "MIG mode", of: func(t Traits) string {
			if t.GPU == "" {
				return ""
			}
			return map[bool]string{true: "on", false: "off"}[t.MIG]
		}, breaks: "a process on a slice has only a part of a GPU, and no NVLink",
			fix: "sudo nvidia-smi -mig 0   # there, while nothing uses the GPUs"},
	}
}

func fabricRules() []traitRule {
	return []traitRule{
		{id: "same.fabric", title: "training fabric", of: func(t Traits) string { return string(t.Fabric) }, dies: pinnedIB,
			sets: "NCCL_NET", stops: true,
			breaks: "ranks that choose different networks do not reach each other: the first collective hangs or fails, " +
				"or all fall back to TCP",
			fix: "launch fabric   # on that node: shows the reason\n" +
				"if it stays without the fabric, disable it on every node: NCCL_NET=Socket"},
		{id: "same.rails", title: "number and rate of rails", of: func(t Traits) string { return t.Rails },
			breaks: "NCCL is slower, and some versions hang where nodes have different numbers of rails (NVIDIA/nccl#2428)",
			fix:    "launch fabric   # on that node: shows its ports\nor choose equally many on every node: NCCL_IB_HCA"},
		{id: "same.hca", title: "number and kind of ports in NCCL_IB_HCA", of: func(t Traits) string { return t.NCCLPorts },
			dies: otherLayer, or: portsOfRails,
			breaks: "a node with fewer ports takes data more slowly than the others send it: NCCL is slower, " +
				"and some versions hang (NVIDIA/nccl#2428)",
			fix: "choose equally many of one kind on every node\nor leave it to launch: unset NCCL_IB_HCA; " +
				"launch env --explain shows the choice"},
		{id: "same.ucx.devices", title: "number and kind of ports in UCX_NET_DEVICES",
			of:  func(t Traits) string { return t.UCXPorts },
			cpu: true, or: portsOfRails,
			breaks: "UCX uses as many ports as both ends have; nodes without a common one do not connect " +
				"(\"no active messages transport\")",
			fix: "choose equally many of one kind on every node\nor leave it to launch: unset UCX_NET_DEVICES"},
		{id: "same.gid", title: "kind of RoCE addresses", of: func(t Traits) string { return t.GID },
			sets: "NCCL_IB_ADDR_FAMILY", stops: true,
			breaks: "a connection needs addresses of one family at both ends: it fails at the first transfer",
			fix:    "give the rails there addresses like those of the others (ip -br addr)"},
		{id: "same.subnet", title: "InfiniBand subnet", of: func(t Traits) string { return t.Subnets },
			breaks: "ports of two subnets reach each other only through an InfiniBand router",
			fix:    "ibstat; sminfo   # there: check that it is cabled to the same fabric"},
		{id: "same.rail.mtu", title: "packet size of the rails (bytes)", of: func(t Traits) string { return t.MTU },
			breaks: "where one end sends larger packets than the network or the other end takes, small messages pass and " +
				"large ones hang (NVIDIA/nccl#1957)",
			fix: "launch fabric   # there: shows the interfaces of the rails; then for each, with the others' MTU:\n" +
				"ip link set dev INTERFACE mtu N"},
		{id: "same.qos", title: "trust and congestion control of the rails", of: func(t Traits) string { return t.QoS },
			covers: coversQoS,
			breaks: "under load the network drops what these nodes send, or they do not slow down: transfers time out, and " +
				"every collective waits for them",
			fix: "mlnx_qos -i INTERFACE   # there, for each rail: shows trust and PFC; --trust dscp and --pfc LIST set them\n" +
				"grep . /sys/class/net/INTERFACE/ecn/roce_*p/enable/*   # DCQCN for each priority"},
		{id: "same.mtu", title: "MTU of the peers' interface", of: func(t Traits) string { return positive(t.PeerMTU) },
			cpu: true, do: setMTU,
			breaks: "long messages may vanish between these nodes, where the network drops large packets silently"},
		// NCCL opens sockets of another family by the address of its peer.
		{id: "same.family", title: "family of the nodes' addresses", of: func(t Traits) string { return t.Family }, cpu: true,
			sets: "NCCL_SOCKET_FAMILY",
			breaks: "Gloo does not connect addresses of different families (\"address family mismatch\"), and a node " +
				"without the other family does not reach it",
			fix: "choose a network that all nodes share, on every node: --addr 10.0.0.0/16\n" +
				"or the address instead of a name: --store ADDRESS"},
		{id: "same.gpudirect", title: "way from the HCAs to GPU memory (GPUDirect)",
			of:     func(t Traits) string { return way(t.Direct) },
			breaks: "a node without one copies all data through the host's memory, and the others wait for it",
			fix: "sudo modprobe nvidia-peermem   # there; or the driver's open kernel modules with Linux 5.12 or later\n" +
				"launch fabric --json   # shows the reason in gpudirect"},
		{id: "same.firmware", title: "firmware of the rails", of: func(t Traits) string { return t.Firmware },
			breaks: "rails may differ in their features and in their faults", fix: "bring all to one version between jobs"},
	}
}

// way returns "a way" for any that there is: which one makes no difference between nodes.
func way(s string) string {
	if s == "" || s == "no way" {
		return s
	}
	return "a way"
}

// pinnedIB returns why a node without InfiniBand or RoCE dies of NCCL_NET=IB: NCCL uses no other network then.
func pinnedIB(p, _ Post) string {
	fabric := p.Traits.Fabric
	if strings.EqualFold(p.Constants["NCCL_NET"], "IB") &&
		(fabric == rail.TCP || fabric == rail.EFA || fabric == rail.Slingshot) {
		return "NCCL_NET=IB leaves NCCL without a network there, and it stops (\"Failed to initialize any NET plugin\")"
	}
	return ""
}

// portsOfRails returns the ports that NCCL and UCX use without a setting.
func portsOfRails(t Traits) string {
	layer := map[rail.Kind]string{rail.InfiniBand: " InfiniBand", rail.RoCE: " Ethernet"}[t.Fabric]
	if t.Rails == "" || layer == "" {
		return ""
	}
	return t.Rails + layer
}

// otherLayer returns why a node dies whose ports are all InfiniBand while the others' are
// all Ethernet, or vice versa: NCCL does not connect the two (src/transport/net_ib/connect.cc, "Try
// selecting NICs of only one link type using NCCL_IB_HCA").
func otherLayer(p, most Post) string {
	layer := func(p Post) string {
		ports := cmp.Or(p.Traits.NCCLPorts, portsOfRails(p.Traits))
		switch ib, eth := strings.Contains(ports, "InfiniBand"), strings.Contains(ports, "Ethernet"); {
		case ib && !eth:
			return "InfiniBand"
		case eth && !ib:
			return "Ethernet"
		}
		return ""
	}
	mine, theirs := layer(p), layer(most)
	socket := func(p Post) bool {
		return p.Constants["NCCL_NET"] != "" && !strings.EqualFold(p.Constants["NCCL_NET"], "IB")
	}
	if mine == "" || theirs == "" || mine == theirs || socket(p) || socket(most) ||
		p.Loads.Plugin.Version != software.None || most.Loads.Plugin.Version != software.None {
		return ""
	}
	return fmt.Sprintf("NCCL does not connect %s ports with %s ports "+
		"(\"Try selecting NICs of only one link type using NCCL_IB_HCA\")", mine, theirs)
}

// unlike is one division of the nodes by their traits: several that divide them in the same way have one cause.
type unlike struct {
	groups []group
	rules  []traitRule
}

// compareTraits reports the nodes whose hardware differs from most.
func compareTraits(posts []Post) []judged {
	var found []unlike
	gpus := onGPU(loadsOf(posts))
	// Failed calls are reported with what did not arrive.
	calls := edges(posts)
	apart := slices.ContainsFunc(calls, func(e edge) bool {
		return e.call.Failed() && !e.call.Also && !e.call.Port
	})
	for _, r := range traitRules() {
		if !r.cpu && !gpus || r.id == "same.family" && apart {
			continue
		}
		gs := r.groups(posts)
		if len(gs) < 2 || r.id == "same.mtu" && carried(calls, gs) {
			continue
		}
		at := slices.IndexFunc(found, func(u unlike) bool { return sameOdd(u.groups, gs) })
		if at < 0 {
			at, found = len(found), append(found, unlike{groups: gs})
		}
		found[at].rules = append(found[at].rules, r)
	}
	out := compareOwners(posts)
	for _, u := range found {
		out = append(out, u.judge(posts))
	}
	return out
}

// carried reports whether packets of full size and long messages got through between nodes of different groups, for
// each node outside the first one: then the network, or a router's word, sees to it.
func carried(calls []edge, gs []group) bool {
	in := map[int]int{}
	for i, g := range gs {
		for _, p := range g.nodes {
			in[p.Rank] = i
		}
	}
	through := map[int]bool{}
	for _, e := range calls {
		if in[e.from.Rank] == in[e.to.Rank] || e.call.Also || e.call.Port || e.call.MTU == 0 {
			continue
		}
		if e.call.Bad() != "" {
			return false
		}
		through[e.from.Rank], through[e.to.Rank] = true, true
	}
	for _, g := range gs[1:] {
		if slices.ContainsFunc(g.nodes, func(p Post) bool { return !through[p.Rank] }) {
			return false
		}
	}
	return true
}

// groups returns the nodes whose trait is known.
func (r traitRule) groups(posts []Post) []group {
	trait := func(p Post) string { return r.of(p.Traits) }
	if r.or != nil && len(having(posts, trait)) > 0 {
		trait = r.has
	}
	gs := groups(having(posts, trait), trait)
	if r.covers == nil || len(gs) < 2 {
		return gs
	}
	most := gs[0]
	return append(gs[:1], slices.DeleteFunc(gs[1:], func(g group) bool {
		return r.covers(g.value, most.value) || len(g.nodes) == len(most.nodes) && r.covers(most.value, g.value)
	})...)
}

// has returns the trait as it is compared.
func (r traitRule) has(p Post) string {
	if v := r.of(p.Traits); v != "" || r.or == nil {
		return v
	}
	return r.or(p.Traits)
}

// setMTU returns the command that gives a node the MTU of most.
func setMTU(odd, most Post) string {
	return fmt.Sprintf("ip link set dev %s mtu %d   # on %s, and in its network configuration",
		cmp.Or(odd.Traits.PeerIf, "INTERFACE"), most.Traits.PeerMTU, odd.Name)
}

// sameOdd reports whether the same nodes differ from most in two traits. The largest
// groups may differ: a node without the fabric has no rails to count.
func sameOdd(a, b []group) bool {
	return slices.EqualFunc(a[1:], b[1:], sameNodes) && majority(a) || slices.EqualFunc(a, b, sameNodes)
}

func (u unlike) judge(posts []Post) judged {
	r := u.rules[0]
	f := finding.Finding{ID: r.id, Status: finding.Warn, Breaks: r.breaks, Fix: r.fix}
	if r.do != nil {
		f.Fix = r.do(u.groups[1].nodes[0], u.groups[0].nodes[0])
	}
	var unfit []int
	for i, g := range u.groups {
		first := g.nodes[0]
		if i < most {
			f = f.See(ranked(first), "%s", u.has(first))
		}
		if why := u.dies(first, u.groups[0].nodes[0]); why != "" {
			f.Status, f.Breaks = finding.Fail, why
			unfit = append(unfit, ranksOf(g.nodes)...)
		}
	}
	stopping := func(r traitRule) bool { return r.stops && r.follows(posts) }
	if i := slices.IndexFunc(u.rules, stopping); i >= 0 && f.Status != finding.Fail {
		f.Status = finding.Fail
		f.Breaks += fmt.Sprintf("; %s differs with it, which stops NCCL", u.rules[i].sets)
		unfit = ranksIn(u.groups[1:])
	}
	f.What = fmt.Sprintf("different %s: %s", finding.Join(u.rules, func(r traitRule) string { return r.title }),
		shares(u.groups, u.has, "kinds"))
	return judged{f.About(odd(u.groups)), unfit}
}

// dies returns the first reason of the rules why a node dies.
func (u unlike) dies(p, most Post) string {
	for _, r := range u.rules {
		if r.dies == nil {
			continue
		}
		if why := r.dies(p, most); why != "" {
			return why
		}
	}
	return ""
}

// has returns everything that differs, as one node has it, without what it lacks.
func (u unlike) has(p Post) string {
	out := finding.Map(u.rules, func(r traitRule) string { return r.has(p) })
	return strings.Join(slices.DeleteFunc(out, func(v string) bool { return v == "" }), ", ")
}

// compareOwners finds GPUs that two nodes use: two containers, or two starts by mistake, on one machine. NCCL
// refuses two ranks on one GPU (ncclInvalidUsage, "Duplicate GPU detected" in src/init.cc), unless NCCL_HOSTID
// makes it take them for two machines.
func compareOwners(posts []Post) (out []judged) {
	owner := map[string]Post{}
	for _, p := range posts {
		var shared []string
		var with Post
		for _, uuid := range p.Traits.UUIDs {
			key := p.Traits.Machine + " " + uuid
			if o, taken := owner[key]; taken && o.Rank != p.Rank {
				shared, with = append(shared, "GPU-…"+uuid), o
				continue
			}
			owner[key] = p
		}
		if len(shared) == 0 {
			continue
		}
		apart := p.Traits.HostID != with.Traits.HostID
		breaks := "NCCL refuses two ranks on one GPU (\"Duplicate GPU detected\")"
		if apart {
			breaks = "NCCL_HOSTID differs, so NCCL takes them for two machines; they share the GPU's memory and time"
		}
		f := finding.FailOr(p.Traits.Certain && with.Traits.Certain && !apart,
			"%s and %s are on one machine and use the same %s: %s", ranked(with), ranked(p),
			finding.Noun(len(shared), "GPU"), finding.Some(shared)).
			Named("same.gpu.owner").See("NVML", "%s on %s and %s", finding.Some(shared), ranked(with), ranked(p)).
			Breaking("%s", breaks).
			Do("give each its own GPUs by CUDA_VISIBLE_DEVICES or the scheduler (--gpus-per-task, nvidia.com/gpu)\n" +
				"or start one launch on each machine")
		out = append(out, judged{f, []int{p.Rank}})
	}
	return out
}
