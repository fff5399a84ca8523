package peers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/calls"
	"launch/preflight/checktest"
)

func TestMachinesThatNCCLTakesForOne(t *testing.T) {
	nodes := func(gpu bool, of ...[2]string) (out []Post) { // NCCL_HOSTID and the machine of each
		for i, n := range of {
			out = append(out, Post{Rank: i, Name: fmt.Sprintf("n%d", i), Loads: Loads{GPU: gpu},
				Traits: Traits{HostID: n[0], Machine: n[1]}})
		}
		return out
	}
	for name, tt := range map[string]struct {
		posts []Post
		want  string
		unfit []int
	}{
		"none is set":           {nodes(true, [2]string{"", "a"}, [2]string{"", "b"}), "", nil},
		"each has its own":      {nodes(true, [2]string{"n0", "a"}, [2]string{"n1", "b"}), "", nil},
		"two containers of one": {nodes(true, [2]string{"x", "a"}, [2]string{"x", "a"}), "", nil},
		"exported everywhere": {nodes(true, [2]string{"x", "a"}, [2]string{"x", "b"}, [2]string{"x", "c"}),
			"NCCL_HOSTID=x on 3 machines", []int{1, 2}},
		"on two of three": {nodes(true, [2]string{"x", "a"}, [2]string{"", "b"}, [2]string{"x", "c"}),
			"on 2 machines: n0, n2", []int{2}},
		"a job on CPUs":            {nodes(false, [2]string{"x", "a"}, [2]string{"x", "b"}), "", nil},
		"machines that are hidden": {nodes(true, [2]string{"x", ""}, [2]string{"x", ""}), "", nil},
	} {
		got := compareHostIDs(tt.posts)
		if tt.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Status != finding.Fail || !strings.Contains(got[0].What, tt.want) ||
			!slices.Equal(got[0].unfit, tt.unfit) {
			t.Errorf("%s: %+v, want %q and %v", name, got, tt.want, tt.unfit)
		}
	}
}

func TestNodesThatNCCLHashesAlike(t *testing.T) {
	type node struct{ host, machine, net, id string }
	nodes := func(called bool, of ...node) (out []Post) {
		for i, n := range of {
			p := Post{Rank: i, Name: fmt.Sprintf("n%d", i), Loads: Loads{GPU: true},
				Traits: Traits{HostID: n.id, Machine: n.machine, Net: n.net}, Names: calls.Found{Host: n.host}}
			if called && i > 0 && of[i-1].host == n.host {
				p.Names.Alike = []int{i - 1}
			}
			out = append(out, p)
		}
		return out
	}
	a := node{"gpu", "b1", "net:[1]", ""}
	for name, tt := range map[string]struct {
		posts  []Post
		status finding.Status
		want   string
		unfit  []int
	}{
		"two launches on one machine": {nodes(false, a, a), "", "", nil},
		"names of an image":           {nodes(true, a, node{"gpu", "b2", "net:[1]", ""}), "", "", nil},
		"each has its own id":         {nodes(true, a, node{"gpu", "b1", "net:[1]", "x"}), "", "", nil},
		"copies of a virtual machine": {nodes(true, a, a, node{"gpu2", "b1", "net:[1]", ""}), finding.Fail,
			"2 nodes have one host name, gpu, and one boot id: n0, n1", []int{1}},
		"a sandbox without a boot id": {nodes(true, node{host: "gpu"}, node{host: "gpu"}), finding.Fail,
			"and no boot id", []int{1}},
		"containers with their own network": {nodes(true, a, node{"gpu", "b1", "net:[2]", ""}), finding.Warn,
			"2 containers of one machine have one host name, gpu", nil},
	} {
		got := compareHostIDs(tt.posts)
		if tt.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Status != tt.status || !strings.Contains(got[0].What, tt.want) ||
			!slices.Equal(got[0].unfit, tt.unfit) {
			t.Errorf("%s: %+v, want %q and %v", name, got, tt.want, tt.unfit)
		}
	}
}

func TestTheWayToGPUMemory(t *testing.T) {
	with := func(link string, d fabric.GPUDirect) preflight.Input {
		return checktest.Railed(4, link, func(in *preflight.Input) { in.Node.GPUDirect = d })
	}
	noGPU := with("InfiniBand", fabric.GPUDirect{Peermem: true})
	noGPU.Node.GPUs.Devices, noGPU.Node.GPUs.Present, noGPU.Node.GPUs.Absent = nil, false, "no driver"
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"a module": {with("InfiniBand", fabric.GPUDirect{Peermem: true, DMABuf: "Linux 5.4 is older"}),
			"nvidia_peermem"},
		"DMA-BUF": {with("Ethernet", fabric.GPUDirect{DMABuf: "yes"}), "DMA-BUF"},
		"neither": {with("Ethernet", fabric.GPUDirect{Module: true, DMABuf: "the modules are closed"}),
			"no way"},
		"not known":          {with("InfiniBand", fabric.GPUDirect{}), ""},
		"no GPU":             {noGPU, ""},
		"GPUs without rails": {checktest.HGX(), ""},
	} {
		if got := direct(tt.in, rail.Of(tt.in.Node, tt.in.Addr)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	posts := []Post{{Name: "a"}, {Name: "b", Rank: 1}, {Name: "c", Rank: 2}}
	for i, direct := range []string{"DMA-BUF", "nvidia_peermem", "no way"} {
		posts[i].Traits, posts[i].Loads.GPU = Traits{Direct: direct}, true
	}
	got := compareTraits(posts)
	if len(got) != 1 || got[0].ID != "same.gpudirect" || got[0].Status != finding.Warn ||
		!strings.Contains(got[0].What, "c") {
		t.Errorf("%+v, want a warning about c", got)
	}
	if got := compareTraits(posts[:2]); len(got) > 0 {
		t.Errorf("two ways are no difference: %+v", got)
	}
}
