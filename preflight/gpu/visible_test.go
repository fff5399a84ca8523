package gpu

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestVisibleGPUs(t *testing.T) {
	uuid := func(i int) string { return checktest.Board(i, "").UUID }
	amd := func(pairs ...string) preflight.Input {
		in := checktest.Env(checktest.NProc(checktest.Four(), "4"), pairs...)
		for range 4 {
			in.Node.Cards = append(in.Node.Cards, fabric.Card{Vendor: "amd"})
		}
		return in
	}
	for _, tt := range []struct {
		name, list string
		edit       []func(*preflight.Input)
		want       string
	}{
		{"half", "0,1,2,3", []func(*preflight.Input){fewer}, "ok 4 of 8 GPUs"},
		{"in another order, with spaces", " 7, 6 ,5,4", []func(*preflight.Input){fewer}, "ok 4 of 8"},
		{"one that is not here", "0,1,2,3,8", []func(*preflight.Input){fewer},
			"warn names GPU 8, which this node does not have"},
		{"one that is not here, and too few are left", "0,1,8,2,3", []func(*preflight.Input){fewer},
			"fail names GPU 8, which this node does not have: it and the entries after it do not count, and 2 GPUs are left"},
		{"the same, another program", "0,1,8,2,3", []func(*preflight.Input){fewer, notTorchrun}, "warn names GPU 8"},
		{"only one that is not here, one process per GPU", "8", []func(*preflight.Input){checktest.ProcessesOf("gpu")},
			"fail 0 GPUs are left"},
		{"twice", "0,1,1,2", []func(*preflight.Input){fewer}, "fail names GPU 1 twice"},
		{"twice, another program", "0,1,1,2", []func(*preflight.Input){notTorchrun}, "warn twice"},
		{"twice, written differently", "0,01,+1", []func(*preflight.Input){fewer}, "fail twice"},
		{"twice by UUID", uuid(1) + "," + uuid(1), []func(*preflight.Input){fewer}, "fail twice"},
		{"by UUID", uuid(1) + "," + uuid(2), []func(*preflight.Input){checktest.ProcessesOf("2")}, "ok 2 of 8"},
		{"a UUID of another machine", "GPU-ffffffff-0000-4000-8000-0000000000a1",
			[]func(*preflight.Input){checktest.ProcessesOf("1")}, "fail GPU-ffffffff"},
		{"a UUID that is cut too short", "GPU-0000", []func(*preflight.Input){checktest.ProcessesOf("1")}, "fail GPU-0000"},
		{"a UUID that NVML did not tell", "GPU-ffff",
			[]func(*preflight.Input){checktest.ProcessesOf("1"),
				checktest.OfGPU(2, func(g *gpu.GPU) { g.UUID = "" })}, "ok 1 of 8"},
		{"a MIG slice", "MIG-ffff", []func(*preflight.Input){checktest.ProcessesOf("1")}, "ok 1 of 8"},
		{"none", "", nil, "skip hides the 8 GPUs"},
		{"none, as Slurm has it", "NoDevFiles", nil, "skip hides the 8 GPUs"},
		{"none, -1", "-1", nil, "skip hides the 8 GPUs"},
		{"none, and one process per GPU", "", []func(*preflight.Input){checktest.ProcessesOf("gpu")},
			"fail hides the 8 GPUs"},
		{"ended on purpose", "0,1,-1,2", []func(*preflight.Input){checktest.ProcessesOf("2")}, "ok 2 of 8"},
		{"not given to this container", "0,1,2,3", []func(*preflight.Input){fewer,
			checktest.OfGPU(0, func(g *gpu.GPU) { g.Err, g.Code = "no", "NO_PERMISSION" })}, "ok 4 of 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.visible",
				checktest.HGX(append([]func(*preflight.Input){envOf(preflight.CUDAVisible, tt.list)}, tt.edit...)...)),
				tt.want)
		})
	}
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"AMD, all":                        {amd(), "ok 4 AMD GPUs"},
		"AMD, both lists and consistent":  {amd(rocrList, "4,5", hipList, "0,1"), "ok 4 AMD"},
		"AMD, both lists by machine":      {amd(rocrList, "2,3", hipList, "2,3"), "warn there is no GPU 2 among these 2"},
		"AMD, both, by CUDA's name":       {amd(rocrList, "2,3", preflight.CUDAVisible, "2,3"), "warn there is no GPU 2"},
		"AMD, one list":                   {amd(hipList, "2,3"), "ok 4 AMD"},
		"AMD, a partition beyond the bus": {amd(hipList, "60"), "ok 4 AMD"},
		"AMD, twice":                      {amd(hipList, "2,2"), "warn twice"},
		"nothing":                         {checktest.Four(), "skip no GPU"},
	} {
		t.Run(name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.visible", tt.in), tt.want) })
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "0,1", "0,0", "GPU-a,MIG-b", "-1", "+1,01,1x", "NoDevFiles", ",,",
		"99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		in := checktest.HGX(envOf(preflight.CUDAVisible, list))
		s := preflight.VisibleGPUs(in)
		if n := s.Count(); n < 0 || n > len(s.Devices)+s.Others || s.Set != true {
			t.Errorf("%q leaves %d GPUs of %+v", list, n, s)
		}
		for i, d := range s.Devices {
			if slices.ContainsFunc(s.Devices[:i], func(o gpu.GPU) bool { return o.Index == d.Index }) &&
				!preflight.IsUUID(strings.TrimSpace(list)) {
				t.Errorf("%q has GPU %d twice", list, d.Index)
			}
		}
		if f := gpuVisible(t.Context(), in); f.Status == "" || f.What == "" {
			t.Errorf("%q: %+v", list, f)
		}
	})
}
