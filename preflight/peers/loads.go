package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric/software"
	"launch/internal/finding"
	"launch/preflight"
)

// Loads is the software that the job would load on one node, and facts that decide whether a difference matters.
type Loads struct {
	software.Facts
	Driver string `json:"driver,omitempty"` // NVIDIA's, in the kernel
	GPU    bool   `json:"gpu,omitempty"`    // a GPU for torch's NCCL or RCCL, or a driver that could not be asked
	RDMA   bool   `json:"rdma,omitempty"`   // an RDMA device
}

// loadRule is one kind of software that should be the same on all nodes.
type loadRule struct {
	id, title string
	of        func(Loads) software.Item // an empty Version is not compared
	outcomes  []outcome                 // the first whose condition holds applies; no condition holds always
}

// outcome is the effect of a difference, with its source.
type outcome struct {
	when   func(nodes []Loads) bool // gets the nodes with a known version, of which there are at least two
	status finding.Status
	breaks string
	source string // public evidence; empty if the difference is only unusual
}

// loadRules returns the table. torch is first, because NCCL and CUDA come with it. A failure needs evidence that the
// job hangs or dies. The failures of NCCL apply only where every node has a GPU, since a job on CPUs uses Gloo.
func loadRules() []loadRule {
	alike := func(breaks, source string) []outcome {
		return []outcome{{status: finding.Warn, breaks: breaks, source: source}}
	}
	return []loadRule{
		{"same.torch", "torch", func(l Loads) software.Item { return l.Torch }, []outcome{
			// The numbers of the store's commands moved by one when VALIDATE became the first: 1.13 takes it for a SET of
			// absurd length and closes the connection. The behaviour of 2.1 is not established.
			{otherStore, finding.Fail, "torch up to 2.0 and from 2.2 on use different store protocols: no rank gets past the " +
				"first connection",
				"pytorch/pytorch#107607"},
			{nil, finding.Warn, "torch.distributed expects one version on all ranks and does not check it",
				"pytorch/pytorch#174917, #175023"},
		}},
		{"same.nccl", "NCCL", func(l Loads) software.Item { return l.NCCL }, []outcome{
			// struct ncclPeerInfo has the whole version, and initTransportsRank returns ncclInvalidUsage if one differs.
			// The message is in the library from 2.23.4 on, not in 2.22.3.
			{all(onGPU, checksVersion), finding.Fail, "NCCL compares its version with every rank's and refuses " +
				"(ncclInvalidUsage)", `NCCL src/init.cc, "Mismatched NCCL version detected", since 2.23`},
			// 2.14.3 on one node and 2.19.3 on another: it connects to an address of family 0.
			{all(onGPU, otherMinor), finding.Fail, "the messages by which ranks find each other differ between these " +
				"versions: the job hangs, or dies with an unrelated error", "NVIDIA/nccl#1267, horovod/horovod#639"},
			{onCPU, finding.Skip, "a job on CPUs does not use NCCL", ""},
			{nil, finding.Warn, "NCCL is tested with one version on all ranks", "NVIDIA/nccl#1328"},
		}},
		{"same.plugin", "NCCL network plugin", func(l Loads) software.Item { return l.Plugin }, []outcome{
			{all(onGPU, onRDMA, someWithout), finding.Fail, "nodes with the plugin and nodes without it use different " +
				"networks: the first collective hangs without a message", "NVIDIA/nccl#1634"},
			{onCPU, finding.Skip, "a job on CPUs does not use NCCL", ""},
			{nil, finding.Warn, "nodes may choose different networks, and the first collective would hang or fail",
				"NVIDIA/nccl#1634"},
		}},
		{"same.cuda", "CUDA runtime", runtime,
			alike("nodes run kernels of different toolkits: numbers and speed may differ", "")},
		{"same.driver", "GPU driver", func(l Loads) software.Item {
			return software.Item{Version: l.Driver, Path: "/proc/driver/nvidia/version"}
		}, alike("the features of CUDA and GPUDirect may differ between nodes", "")},
		{"same.python", "Python", func(l Loads) software.Item {
			return software.Item{Version: minorOf(l.Python.Version), Path: l.Python.Path}
		}, alike("objects that ranks pickle for each other may not load", "docs.python.org/3/library/pickle.html")},
		{"same.ucx", "UCX", func(l Loads) software.Item { return l.UCX },
			alike("different versions are not tested together, and may not connect", "")},
		{"same.libfabric", "libfabric", func(l Loads) software.Item { return l.Libfabric },
			alike("different versions are not tested together, and may not connect", "")},
	}
}

// difference is one division of the nodes. Kinds of software that divide them alike are one different image.
type difference struct {
	groups []group // by the first rule
	rules  []applied
}

// applied is a rule with the outcome that applies.
type applied struct {
	loadRule
	outcome
}

// compareLoads reports the nodes that differ from most and must leave. An unknown version is no difference.
func compareLoads(posts []Post) (out []judged) {
	var diffs []difference
	for _, r := range loadRules() {
		version := func(p Post) string { return r.of(p.Loads).Version }
		known := having(posts, version)
		if n := len(posts) - len(known); n > 0 && len(known) > 0 {
			out = append(out, judged{Finding: unread(r, posts)})
		}
		gs := groups(known, version)
		if len(gs) < 2 {
			continue
		}
		nodes := loadsOf(known)
		o := r.outcomes[slices.IndexFunc(r.outcomes, func(o outcome) bool { return o.when == nil || o.when(nodes) })]
		at := slices.IndexFunc(diffs, func(d difference) bool { return slices.EqualFunc(d.groups, gs, sameNodes) })
		if at < 0 {
			at, diffs = len(diffs), append(diffs, difference{groups: gs})
		}
		diffs[at].rules = append(diffs[at].rules, applied{r, o})
	}
	for _, d := range diffs {
		out = append(out, judged{d.finding(), ranksIn(d.groups[1:])})
	}
	return out
}

func loadsOf(posts []Post) []Loads { return finding.Map(posts, func(p Post) Loads { return p.Loads }) }
func sameNodes(a, b group) bool    { return slices.Equal(ranksOf(a.nodes), ranksOf(b.nodes)) }

// unread reports the nodes whose version is not known, although others' versions are.
func unread(r loadRule, posts []Post) finding.Finding {
	posts = slices.DeleteFunc(slices.Clone(posts), func(p Post) bool { return r.of(p.Loads).Version != "" })
	return finding.Skipf("%s was not found or could not be read on %s", r.title,
		finding.Some(finding.Map(posts, ranked))).Named(r.id)
}

// finding describes the difference by the first of its gravest rules.
func (d difference) finding() finding.Finding {
	r := slices.MaxFunc(d.rules, func(a, b applied) int {
		return cmp.Compare(preflight.Gravity(a.status), preflight.Gravity(b.status))
	})
	f := finding.Finding{ID: r.id, Status: r.status, Breaks: r.breaks}
	if r.source != "" {
		f.Breaks += " (" + r.source + ")"
	}
	for _, g := range d.groups[:min(len(d.groups), most)] {
		if item := r.of(g.nodes[0].Loads); item.Path != "" {
			f = f.See(ranked(g.nodes[0])+": "+item.Path, "%s %s", r.title, item.Version)
		}
	}
	f.What = fmt.Sprintf("%s differs: %s", r.title, shares(d.groups, d.has, "versions"))
	f.Fix = "start from the same image or environment on every node"
	if majority(d.groups) {
		var odd []string
		for _, g := range d.groups[1:] {
			odd = append(odd, finding.Map(g.nodes, ranked)...)
		}
		f.Fix = fmt.Sprintf("give %s the image or environment of the others", finding.Some(odd))
	}
	if f.Status == finding.Fail {
		f.Fix += "\nto start anyway: --warn-only on every node"
	}
	return f.About(odd(d.groups))
}

// has returns everything that differs, as one node has it: "torch 2.9.0, NCCL 2.27.5".
func (d difference) has(p Post) string {
	return finding.Join(d.rules, func(r applied) string { return r.title + " " + r.of(p.Loads).Version })
}

func runtime(l Loads) software.Item {
	if l.HIP != "" {
		return software.Item{Version: "ROCm " + l.HIP, Path: l.Torch.Path}
	}
	return software.Item{Version: l.CUDA, Path: l.Torch.Path}
}

// The conditions of the table follow.

func all(conditions ...func([]Loads) bool) func([]Loads) bool {
	return func(nodes []Loads) bool {
		return !slices.ContainsFunc(conditions, func(c func([]Loads) bool) bool { return !c(nodes) })
	}
}

func every(nodes []Loads, holds func(Loads) bool) bool {
	return !slices.ContainsFunc(nodes, func(l Loads) bool { return !holds(l) })
}

func onGPU(nodes []Loads) bool  { return every(nodes, func(l Loads) bool { return l.GPU }) }
func onCPU(nodes []Loads) bool  { return every(nodes, func(l Loads) bool { return !l.GPU }) }
func onRDMA(nodes []Loads) bool { return every(nodes, func(l Loads) bool { return l.RDMA }) }

// checksVersion reports whether every NCCL compares versions itself.
func checksVersion(nodes []Loads) bool {
	return every(nodes, func(l Loads) bool { return atLeast(l.NCCL.Version, 2, 23) })
}

func otherMinor(nodes []Loads) bool {
	first := minorOf(nodes[0].NCCL.Version)
	return !every(nodes, func(l Loads) bool { return minorOf(l.NCCL.Version) == first })
}

func otherStore(nodes []Loads) bool {
	return !every(nodes, func(l Loads) bool { return !atLeast(l.Torch.Version, 2, 2) }) &&
		!every(nodes, func(l Loads) bool { return !atLeast(l.Torch.Version, 0, 0) || atLeast(l.Torch.Version, 2, 1) })
}

func someWithout(nodes []Loads) bool {
	return !every(nodes, func(l Loads) bool { return l.Plugin.Version != software.None })
}

// minorOf returns the first two numbers of a version: "2.27" of "2.27.5".
func minorOf(version string) string {
	major, rest, ok := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if !ok {
		return version
	}
	return major + "." + minor
}

// atLeast compares the first two numbers of a version; without numbers it is false.
func atLeast(version string, major, minor int) bool {
	a, b, _ := strings.Cut(minorOf(version), ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}
