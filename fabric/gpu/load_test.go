//go:build linux && cgo && !nonvml

package gpu

import "testing"

// What a GPU does now is asked only on demand; a GPU in MIG mode has no utilisation.
func TestTheLoadIsKnownWhereItIsAskedFor(t *testing.T) {
	dir := library(t, compile(t))
	f, err := answersTo(t, Question{Load: true}, dir, h100x8(t), "nvmlDeviceGetUtilizationRates 1 = !3",
		"nvmlDeviceGetPowerUsage 2 = !999")
	if err != nil || len(f.Devices) != 8 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i, want := range []Load{{41, 114.25, 700, 97, 12}, {41, 114.25, 700, -1, -1}, {41, -1, 700, 97, 12}} {
		if got := f.Devices[i].Load; got == nil || *got != want {
			t.Errorf("GPU %d: %+v, want %+v", i, got, want)
		}
	}
	if u := f.Devices[2].Unknown; len(u) != 1 || u[0].What != "load.power" || len(f.Devices[1].Unknown) > 0 {
		t.Errorf("unknown: %v and %v", u, f.Devices[1].Unknown)
	}
}
