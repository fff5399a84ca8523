package gpu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThrottleNamesEachBit(t *testing.T) {
	tests := []struct {
		bits uint64
		want []string
	}{
		{0, nil},
		{1, []string{"idle"}},
		{8 | 128, []string{"hw_slowdown", "power_brake"}}, // eight H100 of one XE9680
		{32 | 128, []string{"sw_thermal", "power_brake"}}, // GPU 2 of a p5
		{2 | 4 | 16 | 64 | 256, []string{"application_clocks", "sw_power_cap", "sync_boost", "hw_thermal", "display_clocks"}},
		{1<<9 | 1<<63, []string{"bit_9", "bit_63"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, throttle(tt.bits)); diff != "" {
			t.Errorf("throttle(%#x) (-want +got):\n%s", tt.bits, diff)
		}
	}
}

func TestFabricProblemsAreThoseThatTheMaskAffirms(t *testing.T) {
	const allFine = 2 | 2<<2 | 2<<4 | 2<<6 | 1<<8
	tests := []struct {
		mask uint32
		want []string
	}{
		{0, nil}, // not supported
		{allFine, nil},
		{1 | 2<<2 | 2<<4 | 2<<6 | 1<<8, []string{"degraded_bandwidth"}},
		{2 | 1<<2 | 1<<4 | 1<<6, []string{"route_recovery", "route_unhealthy", "access_timeout_recovery"}},
		{2 | 5<<8, []string{"too_few_nvlinks"}},
		{15 << 8, []string{"unknown_15"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, fabricProblems(tt.mask)); diff != "" {
			t.Errorf("fabricProblems(%#x) (-want +got):\n%s", tt.mask, diff)
		}
	}
}

func TestErrorsNameTheFix(t *testing.T) {
	for code, want := range map[int][]string{
		libraryNotFound: {"LIBRARY_NOT_FOUND", "libnvidia-ml.so.1", "utility"},
		driverNotLoaded: {"DRIVER_NOT_LOADED", "modprobe nvidia"},
		18:              {"LIB_RM_VERSION_MISMATCH", "reboot", "image"},
		4:               {"NO_PERMISSION", "/dev/nvidia"},
		gpuIsLost:       {"GPU_IS_LOST", "fell off the bus"},
		resetRequired:   {"RESET_REQUIRED", "--gpu-reset"},
		27:              {"NOT_READY", "fabricmanager"},
		424242:          {"error 424242"},
	} {
		got := sentence("nvmlInit", code)
		for _, word := range want {
			if !strings.Contains(got, word) {
				t.Errorf("sentence(%d) = %q, want %q in it", code, got, word)
			}
		}
		if strings.HasSuffix(got, "()") || !strings.HasPrefix(got, "nvmlInit: ") {
			t.Errorf("sentence(%d) = %q", code, got)
		}
	}
}

func TestUnknownNumbersAreWrittenAsNumbers(t *testing.T) {
	for _, words := range []func(int) string{onOff, computeMode, fabricState, fabricHealth, p2p, distance, remoteType} {
		for _, n := range []int{-1, 77, 1 << 20} {
			if got := words(n); !strings.HasPrefix(got, "unknown_") {
				t.Errorf("word for %d = %q, want it to be unknown", n, got)
			}
		}
	}
	if got := distance(15); got != "unknown_15" {
		t.Errorf("distance(15) = %q", got)
	}
}

func TestProgramIsOnlyTheName(t *testing.T) {
	for in, want := range map[string]string{
		"/opt/conda/bin/python -u train.py --token=x": "python",
		"python3": "python3",
		"":        "",
		"  ":      "",
		"/":       "/",
	} {
		if got := program(in); got != want {
			t.Errorf("program(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAnonymousFactsDoNotTouchTheOthers(t *testing.T) {
	f := Facts{Devices: []GPU{{Processes: []Process{{PID: 7, Name: "someones-job", Memory: 1}}}}}
	if diff := cmp.Diff([]Process{{PID: 7, Memory: 1}}, f.Anonymous().Devices[0].Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if f.Devices[0].Processes[0].Name != "someones-job" {
		t.Error("the facts themselves lost the name")
	}
}
