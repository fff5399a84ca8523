package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/fabric/software"
	"launch/internal/finding"
)

// gpuNode is a node of a GPU cluster.
func gpuNode() Loads {
	at := func(v, path string) software.Item { return software.Item{Version: v, Path: path} }
	return Loads{
		Facts: software.Facts{Python: at("3.12.3", "/env/bin/python"), Torch: at("2.9.0+cu128", "/env/torch"), CUDA: "12.8",
			NCCL: at("2.27.5", "/env/libnccl.so.2"), Plugin: at(software.None, "")},
		Driver: "570.86.15", GPU: true, RDMA: true,
	}
}

// cluster is n nodes that are alike, but for what edit changes on some ranks.
func cluster(n int, edit func(l *Loads), ranks ...int) []Post {
	return posts(n, func(rank int, p *Post) {
		p.Loads = gpuNode()
		if slices.Contains(ranks, rank) {
			edit(&p.Loads)
		}
	})
}

func nccl(v string) func(*Loads)  { return func(l *Loads) { l.NCCL.Version = v } }
func torch(v string) func(*Loads) { return func(l *Loads) { l.Torch.Version = v } }

// image is another container image: all of it differs.
func image(l *Loads) {
	l.NCCL.Version, l.Torch.Version, l.CUDA, l.Python.Version = "2.27.3", "2.8.0+cu126", "12.6", "3.11.9"
}

func oldNCCL(n int, versions ...string) []Post {
	return posts(n, func(rank int, p *Post) {
		p.Loads = gpuNode()
		p.Loads.NCCL.Version = versions[min(rank, len(versions)-1)]
	})
}

func onCPUs(p []Post) []Post {
	for i := range p {
		p[i].Loads.GPU = false
	}
	return p
}

func TestNodesThatWouldLoadSomethingElse(t *testing.T) {
	for name, tc := range map[string]struct {
		posts []Post
		id    string // "" for nothing to say
		fail  bool
		what  string
		unfit []int
	}{
		"all alike":     {cluster(8, nil), "", false, "", nil},
		"nothing known": {posts(3, nil), "", false, "", nil},
		"one of three": {cluster(3, nccl("2.26.2"), 1), "same.nccl", true,
			"NCCL differs: 2 of 3 nodes have NCCL 2.27.5; host1 (node rank 1) has NCCL 2.26.2", []int{1}},
		"rank 0 is the odd one": {cluster(3, nccl("2.26.2"), 0), "same.nccl", true,
			"NCCL differs: 2 of 3 nodes have NCCL 2.27.5; host0 (node rank 0) has NCCL 2.26.2", []int{0}},
		"one against one": {cluster(2, nccl("2.26.2"), 1), "same.nccl", true,
			"NCCL differs: host0 (node rank 0) has NCCL 2.27.5; host1 (node rank 1) has NCCL 2.26.2", []int{1}},
		"four against four": {cluster(8, nccl("2.26.2"), 0, 2, 4, 6), "same.nccl", true,
			"NCCL differs: host0 (node rank 0), host2 (node rank 2), host4 (node rank 4), " +
				"host6 (node rank 6) have NCCL 2.26.2; host1 (node rank 1), host3 (node rank 3), host5 (node rank 5), " +
				"host7 (node rank 7) have NCCL 2.27.5", []int{1, 3, 5, 7}},
		"only a patch level, and NCCL compares": {cluster(3, nccl("2.27.3"), 2), "same.nccl", true,
			"NCCL differs: 2 of 3 nodes have NCCL 2.27.5; host2 (node rank 2) has NCCL 2.27.3", []int{2}},
		"only a patch level, before NCCL compared": {oldNCCL(3, "2.18.3", "2.18.5"), "same.nccl", false,
			"NCCL differs: 2 of 3 nodes have NCCL 2.18.5; host0 (node rank 0) has NCCL 2.18.3", nil},
		"an old one and a new one": {oldNCCL(2, "2.27.5", "2.14.3"), "same.nccl", true,
			"NCCL differs: host0 (node rank 0) has NCCL 2.27.5; host1 (node rank 1) has NCCL 2.14.3", []int{1}},
		"more versions than anybody reads": {oldNCCL(6, "2.23.4", "2.24.3", "2.25.1", "2.26.2", "2.27.3", "2.27.5"),
			"same.nccl", true,
			"NCCL differs: host0 (node rank 0) has NCCL 2.23.4; host1 (node rank 1) has NCCL 2.24.3; " +
				"host2 (node rank 2) has NCCL 2.25.1; host3 (node rank 3) has NCCL 2.26.2; and 2 more versions",
			[]int{1, 2, 3, 4, 5}},
		"on CPUs NCCL does not matter": {onCPUs(oldNCCL(3, "2.27.5", "2.26.2")), "", false, "", nil},
		"on CPUs another image is another torch": {onCPUs(cluster(2, image, 1)), "same.torch", false,
			"torch differs: host0 (node rank 0) has torch 2.9.0+cu128, NCCL 2.27.5, CUDA runtime 12.8, Python 3.12; " +
				"host1 (node rank 1) has torch 2.8.0+cu126, NCCL 2.27.3, CUDA runtime 12.6, Python 3.11", nil},
		"one without a GPU among others": {cluster(3, func(l *Loads) { l.NCCL.Version, l.GPU = "2.26.2", false }, 1),
			"same.nccl", false,
			"NCCL differs: 2 of 3 nodes have NCCL 2.27.5; host1 (node rank 1) has NCCL 2.26.2", nil},
		"another image is one thing to say": {cluster(3, image, 2), "same.nccl", true,
			"NCCL differs: 2 of 3 nodes have torch 2.9.0+cu128, NCCL 2.27.5, CUDA runtime 12.8, Python 3.12; " +
				"host2 (node rank 2) has torch 2.8.0+cu126, NCCL 2.27.3, CUDA runtime 12.6, Python 3.11", []int{2}},
		"torch": {cluster(3, torch("2.8.0+cu128"), 1), "same.torch", false,
			"torch differs: 2 of 3 nodes have torch 2.9.0+cu128; host1 (node rank 1) has torch 2.8.0+cu128", nil},
		"torch with another store": {cluster(3, torch("1.13.0a0"), 1), "same.torch", true,
			"torch differs: 2 of 3 nodes have torch 2.9.0+cu128; host1 (node rank 1) has torch 1.13.0a0", []int{1}},
		"torch whose store is not known": {cluster(3, torch("2.1.2"), 1), "same.torch", false,
			"torch differs: 2 of 3 nodes have torch 2.9.0+cu128; host1 (node rank 1) has torch 2.1.2", nil},
		"a plugin here and none there": {cluster(8, func(l *Loads) { l.Plugin.Version = "aws-ofi-nccl 1.16.0" }, 0, 1, 2, 3,
			4, 5), "same.plugin", true,
			"NCCL network plugin differs: 6 of 8 nodes have NCCL network plugin aws-ofi-nccl 1.16.0; host6 (node rank 6), " +
				"host7 (node rank 7) have NCCL network plugin none", []int{6, 7}},
		"a plugin here and none there, without RDMA": {cluster(3,
			func(l *Loads) { l.Plugin.Version, l.RDMA = "libnccl-net.so 0a0b0c0d", false }, 1), "same.plugin", false,
			"NCCL network plugin differs: 2 of 3 nodes have NCCL network plugin none; host1 (node rank 1) has " +
				"NCCL network plugin libnccl-net.so 0a0b0c0d", nil},
		"the driver": {cluster(3, func(l *Loads) { l.Driver = "550.54.14" }, 1), "same.driver", false,
			"GPU driver differs: 2 of 3 nodes have GPU driver 570.86.15; host1 (node rank 1) has GPU driver 550.54.14", nil},
		"Python's last number":          {cluster(3, func(l *Loads) { l.Python.Version = "3.12.9" }, 1), "", false, "", nil},
		"one without a GPU and a torch": {cluster(3, func(l *Loads) { *l = Loads{} }, 1), "", false, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.posts, nil)
			said := slices.DeleteFunc(d.Findings, func(f finding.Finding) bool { return f.Status == finding.Skip })
			if tc.id == "" {
				if len(said) > 0 || !d.Go {
					t.Fatalf("want a start without a word, got %+v", d)
				}
				return
			}
			if len(said) != 1 {
				t.Fatalf("want one finding, got %+v", said)
			}
			f := said[0]
			status := finding.Warn
			if tc.fail {
				status = finding.Fail
			}
			if f.ID != tc.id || f.Status != status || f.What != tc.what || f.Breaks == "" || f.Fix == "" {
				t.Errorf("got %+v\nwant %s %s: %s", f, status, tc.id, tc.what)
			}
			if diff := cmp.Diff(tc.unfit, d.Unfit, cmpopts.EquateEmpty()); diff != "" || d.Go == tc.fail {
				t.Errorf("go %v, unfit (-want +got):\n%s", d.Go, diff)
			}
		})
	}
}

// Whoever reads this is tired.
func TestADifferenceSaysWhereAndWhatToDo(t *testing.T) {
	d := Decide(cluster(4, func(l *Loads) {
		l.NCCL = software.Item{Version: "2.26.2",
			Path: "/usr/lib/libnccl.so.2.26.2"}
	}, 3), nil)
	want := finding.Report{{
		ID: "same.nccl", Status: finding.Fail, Nodes: []string{"host3"},
		What: "NCCL differs: 3 of 4 nodes have NCCL 2.27.5; host3 (node rank 3) has NCCL 2.26.2",
		Breaks: `NCCL compares its version with every rank's and refuses (ncclInvalidUsage) ` +
			`(NCCL src/init.cc, "Mismatched NCCL version detected", since 2.23)`,
		Fix: "give host3 (node rank 3) the image or environment of the others\nto start anyway: --warn-only on every node",
		Seen: []finding.Seen{{Where: "host0 (node rank 0): /env/libnccl.so.2", What: "NCCL 2.27.5"},
			{Where: "host3 (node rank 3): /usr/lib/libnccl.so.2.26.2", What: "NCCL 2.26.2"}},
	}}
	if diff := cmp.Diff(want, d.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.Who != "host3" {
		t.Errorf("unfit: %q", d.Who)
	}
}

// An unknown version is no difference, and is reported as unknown.
func TestWhatCouldNotBeReadIsNoDifference(t *testing.T) {
	d := Decide(cluster(3, func(l *Loads) { l.NCCL = software.Item{} }, 2), nil)
	want := finding.Report{{ID: "same.nccl", Status: finding.Skip,
		What: "NCCL was not found or could not be read on host2 (node rank 2)"}}
	if diff := cmp.Diff(want, d.Findings); diff != "" || !d.Go {
		t.Errorf("go %v (-want +got):\n%s", d.Go, diff)
	}
	// Two that are known still differ, and only they are judged.
	p := cluster(3, func(l *Loads) { l.NCCL = software.Item{} }, 0)
	p[2].Loads.NCCL.Version = "2.26.2"
	d = Decide(p, nil)
	if diff := cmp.Diff([]int{2}, d.Unfit); diff != "" {
		t.Errorf("unfit (-want +got):\n%s", diff)
	}
}

// Two causes on two nodes are two findings, and both nodes go.
func TestTwoOddNodesAreTwoFindings(t *testing.T) {
	p := cluster(8, image, 5)
	p[3].Loads.Plugin = software.Item{Version: "libnccl-net.so 0a0b0c0d"}
	d := Decide(p, nil)
	var ids []string
	for _, f := range d.Findings {
		ids = append(ids, f.ID)
	}
	if diff := cmp.Diff([]string{"same.nccl", "same.plugin"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{3, 5}, d.Unfit); diff != "" {
		t.Errorf("unfit (-want +got):\n%s", diff)
	}
}

func TestEachRuleThatStopsHasItsEvidence(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range loadRules() {
		if ids[r.id] || !strings.HasPrefix(r.id, "same.") {
			t.Errorf("%s: twice, or not of its kind", r.id)
		}
		ids[r.id] = true
		if last := r.outcomes[len(r.outcomes)-1]; last.when != nil {
			t.Errorf("%s: a difference may have no outcome", r.id)
		}
		for _, o := range r.outcomes {
			if o.breaks == "" || o.status == finding.Fail && o.source == "" {
				t.Errorf("%s: %+v needs a reason, and evidence where it stops the job", r.id, o)
			}
		}
	}
}
