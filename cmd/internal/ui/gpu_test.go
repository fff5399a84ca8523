package ui

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
)

func TestUnusualStatesOfAGPUAreReported(t *testing.T) {
	healthy := gpu.GPU{Name: "H100", Throttle: []string{"idle"}, MIG: "off", ECC: &gpu.ECC{Mode: "on"},
		Rows:   &gpu.Rows{Corrected: 2},
		NVLink: &gpu.NVLink{Up: 18, Total: 18}, Fabric: &gpu.Fabric{State: "completed", Status: "SUCCESS"}}
	for name, tc := range map[string]struct {
		edit func(*gpu.GPU)
		want []string
	}{
		"nothing": {func(*gpu.GPU) {}, nil},
		"lost": {func(d *gpu.GPU) { *d = gpu.GPU{Index: 3, Err: "it fell off the bus"} },
			[]string{"it fell off the bus"}},
		"slowed down": {func(d *gpu.GPU) { d.Throttle = []string{"idle", "hw_slowdown", "power_brake"} },
			[]string{"clocks are throttled: hw_slowdown, power_brake"}},
		"a row to replace": {func(d *gpu.GPU) { d.Rows = &gpu.Rows{Pending: true} },
			[]string{"the next reset replaces a faulty memory row"}},
		"no spare row": {func(d *gpu.GPU) { d.Rows = &gpu.Rows{Failed: true, Pending: true} },
			[]string{"no spare row is left for a faulty memory row"}},
		"ECC": {func(d *gpu.GPU) { d.ECC = &gpu.ECC{Uncorrected: 1} },
			[]string{"1 uncorrectable memory error since the driver was loaded"}},
		"an NVLink": {func(d *gpu.GPU) { d.NVLink = &gpu.NVLink{Up: 16, Total: 18} },
			[]string{"16 of 18 NVLinks are up"}},
		"no bridge": {func(d *gpu.GPU) { d.NVLink = &gpu.NVLink{Total: 12} }, nil},
		"fabric manager": {func(d *gpu.GPU) { d.Fabric = &gpu.Fabric{State: "in_progress"} },
			[]string{"the state of its NVLink fabric is in progress"}},
		"MIG": {func(d *gpu.GPU) { d.MIG = "on"; d.MIGDevices = make([]gpu.MIGDevice, 2) },
			[]string{"MIG is on, with 2 slices"}},
		"in use": {func(d *gpu.GPU) { d.Processes = []gpu.Process{{PID: 7, Name: "python"}, {PID: 8}} },
			[]string{"in use by pid 7 python, 8"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := healthy
			d.Throttle = slices.Clone(d.Throttle)
			tc.edit(&d)
			if diff := cmp.Diff(tc.want, remarks(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	page := gpus(fabric.Node{GPUs: gpu.Facts{Present: true, Driver: "570", CUDA: "12.8",
		Devices: []gpu.GPU{{Index: 3, Err: "it fell off the bus"}}}}, rail.Fabric{})
	if want := "GPU 3: it fell off the bus\n"; page[len(page)-len(want):] != want {
		t.Errorf("the page ends without the lost GPU:\n%s", page)
	}
}
