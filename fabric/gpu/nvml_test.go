//go:build linux && cgo && !nonvml

package gpu

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"launch/internal/child"
)

func TestAHealthyMachineReportsEverything(t *testing.T) {
	f, err := answers(t, library(t, compile(t)), h100x8(t))
	if err != nil {
		t.Fatal(err)
	}
	want := GPU{
		Index: 0, Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-00000000-0000-4000-8000-0000000000a0", PCI: "0000:1b:00.0",
		Minor:  3,
		Memory: 85520809984, MemoryUsed: 1 << 30, MemoryNUMA: -1,
		Gen: 5, MaxGen: 5, Lanes: 16, MaxLanes: 16,
		Persistence: "on", ComputeMode: "default", Throttle: []string{"idle"}, MIG: "off",
		ECC:       &ECC{Mode: "on", Pending: "on", CorrectedEver: 3},
		Rows:      &Rows{},
		Processes: []Process{{PID: 4711, Name: "python", Memory: 528482304}, {PID: 4712}},
		NVLink: &NVLink{Up: 18, Total: 18, CRC: 7, Replays: 0, Recoveries: -1, // 59 is not supported
			Remotes: []Remote{{Type: "switch", PCI: "0000:07:00.0", Links: 4},
				{Type: "switch", PCI: "0000:08:00.0", Links: 14}}},
		Fabric: &Fabric{State: "completed", Status: "SUCCESS"},
	}
	if len(f.Devices) != 8 || !f.Present || f.Err != "" || f.Driver != "570.86.15" || f.CUDA != "12.8" ||
		len(f.Unknown) > 0 {
		t.Fatalf("facts = %+v, want eight GPUs and nothing unknown", f)
	}
	if diff := gocmp.Diff(want, f.Devices[0]); diff != "" {
		t.Errorf("GPU 0 (-want +got):\n%s", diff)
	}
	for _, d := range f.Devices[1:] {
		if len(d.Processes) != 0 || d.Err != "" || len(d.Unknown) > 0 {
			t.Errorf("GPU %d = %+v, want no processes and nothing unknown", d.Index, d)
		}
	}
	if len(f.Pairs) != 8*7/2 {
		t.Fatalf("%d pairs, want each of 8 GPUs with each", len(f.Pairs))
	}
	pairs := []Pair{{A: 0, B: 1, Distance: "NODE", Read: "ok", Write: "ok", NVLink: "ok"},
		{A: 0, B: 2, Distance: "SYS", Read: "ok", Write: "ok", NVLink: "ok"}}
	if diff := gocmp.Diff(pairs, f.Pairs[:2]); diff != "" {
		t.Errorf("first pairs (-want +got):\n%s", diff)
	}
}

// Each difference from the healthy machine must show, and nothing else may change.
func TestWhatIsWrongWithAMachineShows(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	dir := library(t, compile(t))
	tests := []struct {
		name  string
		lines []string
		gpu   int            // that shows it
		alter func(g *GPU)   // from the healthy to the expected
		facts func(f *Facts) // likewise, outside that GPU
	}{
		{"a remap is pending", []string{"nvmlDeviceGetRemappedRows 2 = 0 4 1 0", "nvmlDeviceGetTotalEccErrors 2 1 1 = 4"}, 2,
			func(g *GPU) {
				g.Rows = &Rows{Uncorrected: 4, Pending: true}
				g.ECC.UncorrectedEver = 4
			}, nil},
		{"a remap failed", []string{"nvmlDeviceGetRemappedRows 2 = 1 8 0 1"}, 2, func(g *GPU) {
			g.Rows = &Rows{Corrected: 1, Uncorrected: 8, Failed: true}
		}, nil},
		{"ECC is off, so nothing is counted", []string{"nvmlDeviceGetEccMode 1 = 0 1",
			"nvmlDeviceGetTotalEccErrors 1 * * = !3"}, 1, func(g *GPU) {
			g.ECC = &ECC{Mode: "off", Pending: "on", Corrected: -1, Uncorrected: -1, CorrectedEver: -1, UncorrectedEver: -1}
		}, nil},
		{"power brake", []string{"nvmlDeviceGetCurrentClocksEventReasons 5 = 0x88"}, 5, func(g *GPU) {
			g.Throttle = []string{"hw_slowdown", "power_brake"}
		}, nil},
		{"two links are down", []string{"nvmlDeviceGetNvLinkState 3 1 = 0", "nvmlDeviceGetNvLinkState 3 17 = 0"}, 3,
			func(g *GPU) {
				g.NVLink.Up, g.NVLink.Down = 16, []int{1, 17}
				g.NVLink.Remotes = []Remote{{"switch", "0000:07:00.0", 3}, {"switch", "0000:08:00.0", 13}}
			}, nil},
		{"one link does not answer", []string{"nvmlDeviceGetNvLinkState 3 1 = !999"}, 3, func(g *GPU) {
			g.NVLink.Up = 17
			g.NVLink.Remotes[0].Links = 3
			g.Unknown = []Unknown{{"nvlink 1", sentence("nvmlDeviceGetNvLinkState", 999)}}
		}, nil},
		{"links that this model lacks", []string{"nvmlDeviceGetNvLinkState 3 4 = !3", "nvmlDeviceGetNvLinkState 3 5 = !3"}, 3,
			func(g *GPU) {
				g.NVLink.Up, g.NVLink.Total = 16, 16
				g.NVLink.Remotes[1].Links = 12
			}, nil},
		{"no NVLink", []string{"nvmlDeviceGetNvLinkState 3 * = !3"}, 3, func(g *GPU) { g.NVLink = nil }, nil},
		{"links to a GPU", []string{"nvmlDeviceGetNvLinkRemoteDeviceType 3 * = 0",
			"nvmlDeviceGetNvLinkRemotePciInfo 3 * = 00000000:9D:00.0"}, 3, func(g *GPU) {
			g.NVLink.Remotes = []Remote{{"gpu", "0000:9d:00.0", 18}}
		}, nil},
		{"the fabric is not ready", []string{"nvmlDeviceGetGpuFabricInfo 4 = 2 27 7 0 0 00"}, 4,
			func(g *GPU) { g.Fabric = &Fabric{State: "in_progress"} }, nil},
		{"an NVL72 domain with a bad route", []string{"nvmlDeviceGetGpuFabricInfo 4 = 3 0 32766 0x1a6 2 " +
			"00112233445566778899aabbccddeeff"}, 4, func(g *GPU) {
			g.Fabric = &Fabric{State: "completed", Status: "SUCCESS", Cluster: "00112233-4455-6677-8899-aabbccddeeff",
				Clique: 32766,
				Health: "unhealthy", Problems: []string{"route_recovery"}}
		}, nil},
		{"the fabric refused it", []string{"nvmlDeviceGetGpuFabricInfo 4 = 3 999 0 0 0 00"}, 4,
			func(g *GPU) { g.Fabric.Status = "UNKNOWN" }, nil},
		{"in no fabric", []string{"nvmlDeviceGetGpuFabricInfo 4 = 0 0 0 0 0 00"}, 4, func(g *GPU) { g.Fabric = nil }, nil},
		{"MIG", []string{
			"nvmlDeviceGetMigMode 6 = 1 1", "nvmlDeviceGetMaxMigDeviceCount 6 = 7",
			"nvmlDeviceGetMigDeviceHandleByIndex 6 0 = 0", "nvmlDeviceGetMigDeviceHandleByIndex 6 2 = 0",
			"nvmlDeviceGetMigDeviceHandleByIndex 6 * = !6", "nvmlDeviceGetName 6/0 = NVIDIA H100 80GB HBM3 MIG 3g.40gb",
			"nvmlDeviceGetUUID 6/0 = MIG-a", "nvmlDeviceGetMemoryInfo 6/0 = 42144366592 0",
			"nvmlDeviceGetName 6/2 = NVIDIA H100 80GB HBM3 MIG 1g.10gb", "nvmlDeviceGetUUID 6/2 = MIG-b",
			"nvmlDeviceGetMemoryInfo 6/2 = 10468982784 0"}, 6, func(g *GPU) {
			g.MIG = "on"
			g.MIGDevices = []MIGDevice{{"MIG-a", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 42144366592},
				{"MIG-b", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10468982784}}
		}, nil},
		{"MIG after the next reset", []string{"nvmlDeviceGetMigMode 6 = 0 1"}, 6, func(g *GPU) { g.MIGPending = "on" }, nil},
		{"modes", []string{"nvmlDeviceGetComputeMode 6 = 3", "nvmlDeviceGetPersistenceMode 6 = 0"}, 6, func(g *GPU) {
			g.ComputeMode, g.Persistence = "exclusive_process", "off"
		}, nil},
		{"a narrow link", []string{"nvmlDeviceGetCurrPcieLinkWidth 6 = 4", "nvmlDeviceGetCurrPcieLinkGeneration 6 = 1"}, 6,
			func(g *GPU) { g.Lanes, g.Gen = 4, 1 }, nil},
		{"memory of its own node", []string{"nvmlDeviceGetNumaNodeId 6 = 9"}, 6, func(g *GPU) { g.MemoryNUMA = 9 }, nil},
		{"a process of MPS", []string{"nvmlDeviceGetMPSComputeRunningProcesses 6 = 99 1024"}, 6,
			func(g *GPU) { g.Processes = []Process{{PID: 99, Memory: 1024}} }, nil},
		{"one field fails", []string{"nvmlDeviceGetMemoryInfo 6 = !999", "nvmlDeviceGetMinorNumber 6 = !4"}, 6, func(g *GPU) {
			g.Memory, g.MemoryUsed, g.Minor = 0, 0, -1
			g.Unknown = []Unknown{{"minor", sentence("nvmlDeviceGetMinorNumber", 4)},
				{"memory", sentence("nvmlDeviceGetMemoryInfo", 999)}}
		}, nil},
		{"the driver wants a reset", []string{"nvmlDeviceGetFieldValues 6 230 = 1"}, 6, func(g *GPU) { g.Recovery = "reset" },
			nil},
		{"nothing is to be done", []string{"nvmlDeviceGetFieldValues 6 230 = 0"}, 6, func(g *GPU) {}, nil},
		{"a driver without that field", []string{"nvmlDeviceGetFieldValues 6 230 = !3"}, 6, func(g *GPU) {}, nil},
		{"needs a reset", []string{"nvmlDeviceGetMemoryInfo 6 = !16"}, 6, func(g *GPU) {
			g.Memory, g.MemoryUsed = 0, 0
			g.Err, g.Code = sentence("nvmlDeviceGetMemoryInfo", 16), "RESET_REQUIRED"
			g.Unknown = []Unknown{{"memory", g.Err}}
		}, nil},
		{"no P2P between two", []string{"nvmlDeviceGetP2PStatus 0 1 0 = 3", "nvmlDeviceGetP2PStatus 0 1 1 = 4",
			"nvmlDeviceGetP2PStatus 0 1 2 = 5"}, 0, func(g *GPU) {}, func(f *Facts) {
			f.Pairs[0].Read, f.Pairs[0].Write, f.Pairs[0].NVLink = "topology", "disabled", "not_supported"
		}},
		{"a pair does not answer", []string{"nvmlDeviceGetP2PStatus 0 1 * = !999",
			"nvmlDeviceGetTopologyCommonAncestor 0 1 = !3"}, 0, func(g *GPU) {}, func(f *Facts) {
			f.Pairs[0] = Pair{A: 0, B: 1}
			f.Unknown = []Unknown{{"pairs", sentence("nvmlDeviceGetP2PStatus", 999)}}
		}},
		{"lost from the start", []string{"nvmlDeviceGetHandleByIndex 7 = !15"}, 7, func(g *GPU) {
			*g = GPU{Index: 7, Minor: -1, MemoryNUMA: -1, Err: sentence("nvmlDeviceGetHandleByIndex", 15), Code: "GPU_IS_LOST"}
		}, func(f *Facts) { f.Pairs = without(f.Pairs, 7) }},
		{"lost while it was asked", []string{"nvmlDeviceGetMemoryInfo 7 = !15", "nvmlDeviceGetEccMode 7 = hang"}, 7,
			func(g *GPU) {
				*g = GPU{Index: 7, Name: g.Name, UUID: g.UUID, PCI: g.PCI, Minor: g.Minor, MemoryNUMA: -1,
					Err: sentence("nvmlDeviceGetMemoryInfo", 15), Code: "GPU_IS_LOST"}
			}, func(f *Facts) { f.Pairs = without(f.Pairs, 7) }},
		{"not given to this container", []string{"nvmlDeviceGetHandleByIndex 7 = !4"}, 7, func(g *GPU) {
			*g = GPU{Index: 7, Minor: -1, MemoryNUMA: -1, Err: sentence("nvmlDeviceGetHandleByIndex", 4), Code: "NO_PERMISSION"}
		}, func(f *Facts) { f.Pairs = without(f.Pairs, 7) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := h100x8(t)
			want, err := answers(t, dir, base)
			if err != nil {
				t.Fatal(err)
			}
			tt.alter(&want.Devices[tt.gpu])
			if tt.facts != nil {
				tt.facts(&want)
			}
			got, err := answers(t, dir, base, tt.lines...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func without(pairs []Pair, i int) []Pair {
	return slices.DeleteFunc(pairs, func(p Pair) bool { return p.A == i || p.B == i })
}

func TestOneOldBoardOfOtherKind(t *testing.T) {
	// A workstation's single GPU: no ECC, no NVLink, no MIG, no fabric.
	base := "nvmlInit = 0\nnvmlSystemGetDriverVersion = 470.256.02\nnvmlSystemGetCudaDriverVersion = " +
		"11040\nnvmlDeviceGetCount = 1\n" +
		"nvmlDeviceGetName 0 = NVIDIA GeForce GTX 1080\nnvmlDeviceGetUUID 0 = GPU-b\nnvmlDeviceGetPciInfo 0 = " +
		"00000000:65:00.0\nnvmlDeviceGetMemoryInfo 0 = 8512602112 12582912\n" +
		"nvmlDeviceGetMinorNumber 0 = 0\nnvmlDeviceGetCurrentClocksThrottleReasons 0 = 0\n"
	f, err := answers(t, library(t, compile(t)), base)
	if err != nil {
		t.Fatal(err)
	}
	want := Facts{Present: true, Driver: "470.256.02", CUDA: "11.4", Devices: []GPU{{
		Name: "NVIDIA GeForce GTX 1080", UUID: "GPU-b", PCI: "0000:65:00.0", Memory: 8512602112, MemoryUsed: 12582912,
		MemoryNUMA: -1,
	}}}
	if diff := gocmp.Diff(want, f); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestADriverThatDoesNotStartReportsWhy(t *testing.T) {
	dir := library(t, compile(t))
	for code, name := range map[int]string{
		4: "NO_PERMISSION", 9: "DRIVER_NOT_LOADED", 17: "OPERATING_SYSTEM", 18: "LIB_RM_VERSION_MISMATCH", 27: "NOT_READY",
		28: "GPU_NOT_FOUND", 999: "UNKNOWN", 777: "error 777",
	} {
		f, err := answers(t, dir, fmt.Sprintf("nvmlInit = !%d\n", code))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(Facts{Err: sentence("nvmlInit", code), Code: name}, f); diff != "" {
			t.Errorf("nvmlInit = %d (-want +got):\n%s", code, diff)
		}
	}
	f, err := answers(t, dir, h100x8(t), "nvmlDeviceGetCount = !999")
	if err != nil || f.Code != "UNKNOWN" || f.Present || f.Driver == "" {
		t.Errorf("facts = %+v, %v, want an error and the driver's version", f, err)
	}
	f, err = answers(t, dir, h100x8(t), "nvmlDeviceGetCount = 0")
	if err != nil || !f.Present || len(f.Devices) != 0 {
		t.Errorf("facts = %+v, %v, want a driver without GPUs", f, err)
	}
}

// go-nvml leaves NVML's functions to the loader, which ends a process that calls a
// missing one. So the test removes each function in turn, and then all that are newer
// than the oldest driver for CUDA 11.
func TestAnOlderDriverReportsWhatItCan(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	object := compile(t)
	base := h100x8(t)
	healthy, err := answers(t, library(t, object), base, "nvmlDeviceGetMigMode 0 = 1 1",
		"nvmlDeviceGetMaxMigDeviceCount 0 = 1", "nvmlDeviceGetMigDeviceHandleByIndex 0 0 = 0")
	if err != nil {
		t.Fatal(err)
	}
	all := exported(t, library(t, object))
	if len(all) < 30 {
		t.Fatalf("the library exports %d functions, want many", len(all))
	}
	asked := 0
	for _, name := range all {
		if name == "nvmlInit_v2" { // the entry point: without it this is not NVML
			continue
		}
		f, err := answers(t, library(t, object, name), base, "nvmlDeviceGetMigMode 0 = 1 1",
			"nvmlDeviceGetMaxMigDeviceCount 0 = 1", "nvmlDeviceGetMigDeviceHandleByIndex 0 0 = 0")
		switch {
		case err != nil:
			t.Errorf("without %s: %v", name, err)
		case strings.HasPrefix(name, "nvmlDeviceGetCount") || strings.HasPrefix(name, "nvmlDeviceGetHandleByIndex"):
			if f.Present || !strings.Contains(f.Err, name) {
				t.Errorf("without %s: %+v, want it named in the error", name, f)
			}
		case len(f.Devices) != len(healthy.Devices):
			t.Errorf("without %s: %d GPUs", name, len(f.Devices))
		case gocmp.Equal(f, healthy): // there is another way, or no caller
		case len(f.Unknown) == 0 || slices.ContainsFunc(f.Unknown,
			func(u Unknown) bool { return !strings.Contains(u.Why, name) }):
			t.Errorf("without %s something is missing, and unknown is %+v", name, f.Unknown)
		default:
			asked++
		}
	}
	if asked < 20 {
		t.Errorf("%d functions were missed, want most of %d", asked, len(all))
	}
}

func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	f, err := elf.Open(filepath.Join(dir, "libnvidia-ml.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "nvml") {
			names = append(names, s.Name)
		}
	}
	return names
}

// R450 has none of these; the fabric was new in Hopper.
func TestADriverOfTheYear2020(t *testing.T) {
	object := compile(t)
	dir := library(t, object, "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo",
		"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetNumaNodeId",
		"nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetPciInfo_v3")
	want, err := answers(t, library(t, object), h100x8(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Devices {
		want.Devices[i].Fabric = nil
		for j := range want.Devices[i].NVLink.Remotes {
			want.Devices[i].NVLink.Remotes[j].Type = ""
		}
	}
	got, err := answers(t, dir, h100x8(t))
	if err != nil {
		t.Fatal(err)
	}
	var unknown []string
	for _, u := range got.Unknown {
		unknown = append(unknown, u.What)
	}
	slices.Sort(unknown)
	if diff := gocmp.Diff([]string{"fabric", "memory_numa", "nvlink.remotes.type", "processes"}, unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	got.Unknown = nil
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestTheFabricOfEachDriver(t *testing.T) {
	object := compile(t)
	const line = "nvmlDeviceGetGpuFabricInfo 0 = 3 0 5 1 2 00112233445566778899aabbccddeeff"
	full := &Fabric{State: "completed", Status: "SUCCESS", Cluster: "00112233-4455-6677-8899-aabbccddeeff", Clique: 5,
		Health: "unhealthy", Problems: []string{"degraded_bandwidth"}}
	noSummary, noHealth := *full, *full
	noSummary.Health = ""
	noHealth.Health, noHealth.Problems = "", nil
	for _, tt := range []struct {
		name   string
		hidden []string
		lines  []string
		want   *Fabric
	}{
		{"version 3", nil, []string{line}, full},
		{"version 2", nil, []string{line, "fabric version = 2"}, &noSummary},
		{"version 1", []string{"nvmlDeviceGetGpuFabricInfoV"}, []string{line}, &noHealth},
		{"before Hopper", []string{"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"}, []string{line}, nil},
	} {
		f, err := answers(t, library(t, object, tt.hidden...), h100x8(t), tt.lines...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(tt.want, f.Devices[0].Fabric); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestADriverThatHangsEndsAtTheTimeLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	dir := library(t, compile(t))
	for _, hangs := range []string{"nvmlInit = hang", "nvmlDeviceGetMemoryInfo 5 = hang"} {
		if err := os.WriteFile(filepath.Join(dir, "machine.txt"), []byte(hangs+"\n"+h100x8(t)), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Setenv("LD_LIBRARY_PATH", dir)
		began := time.Now()
		err := child.Ask(t.Context(), "gpu", nil, new(Facts), time.Second)
		if late, ok := errors.AsType[*child.TimeoutError](err); !ok || late.Abandoned {
			t.Errorf("%s: error = %v, want that the time ran out", hangs, err)
		}
		if took := time.Since(began); took > limit {
			t.Errorf("%s: took %v", hangs, took)
		}
	}
}
