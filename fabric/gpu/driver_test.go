package gpu

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// The first two lines as the closed and the open kernel module write them.
const (
	closedVersion = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC " +
		"version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
	openVersion = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  " +
		"(dvs-builder@U16)  Thu Jan 23 20:34:16 UTC 2025\nGCC version:\n"
)

func TestLookAsksOnlyWhereADriverShows(t *testing.T) {
	file := &fstest.MapFile{}
	tests := []struct {
		name      string
		proc, dev fstest.MapFS
		want      Facts
		ask       bool
	}{
		{name: "no driver", want: Facts{Absent: "no /proc/driver/nvidia/version and no /dev/nvidiactl"}},
		{name: "closed module", proc: fstest.MapFS{versionFile: {Data: []byte(closedVersion)}},
			want: Facts{Driver: "535.183.01"}, ask: true},
		{name: "open module", proc: fstest.MapFS{versionFile: {Data: []byte(openVersion)}},
			dev: fstest.MapFS{controlNode: file}, want: Facts{Driver: "570.86.15"}, ask: true},
		{name: "proc is masked", dev: fstest.MapFS{controlNode: file}, ask: true},
		{name: "WSL", dev: fstest.MapFS{wslNode: file}, ask: true},
		{name: "an unknown version", proc: fstest.MapFS{versionFile: {Data: []byte("hello")}}, ask: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ask := Look(tt.proc, tt.dev)
			if diff := cmp.Diff(tt.want, got); diff != "" || ask != tt.ask {
				t.Errorf("ask = %v, want %v; facts (-want +got):\n%s", ask, tt.ask, diff)
			}
		})
	}
}

func TestSettleDistinguishesAContainerWithoutGPUsFromABrokenDriver(t *testing.T) {
	seen := Facts{Driver: "570.86.15"}
	with := fstest.MapFS{controlNode: {}}
	for _, code := range []int{libraryNotFound, driverNotLoaded} {
		lost := Facts{Err: sentence("nvmlInit", code), Code: nameOf(code)}
		if got := Settle(fstest.MapFS{}, fstest.MapFS{}, seen, lost); got.Absent == "" || got.Err != "" ||
			got.Driver != "570.86.15" {
			t.Errorf("%s without nvidiactl: %+v, want it absent", nameOf(code), got)
		}
		if got := Settle(fstest.MapFS{}, with, seen, lost); got.Absent != "" || got.Err == "" || got.Driver != "570.86.15" {
			t.Errorf("%s with nvidiactl: %+v, want an error", nameOf(code), got)
		}
	}
	mismatch := Facts{Err: "nvmlInit: LIB_RM_VERSION_MISMATCH", Code: "LIB_RM_VERSION_MISMATCH"}
	if got := Settle(fstest.MapFS{}, fstest.MapFS{}, seen, mismatch); got.Err == "" {
		t.Errorf("version mismatch: %+v, want an error", got)
	}
	healthy := Facts{Present: true, Driver: "570.86.15", Devices: []GPU{{Name: "NVIDIA H100 80GB HBM3"}}}
	if diff := cmp.Diff(healthy, Settle(fstest.MapFS{}, with, seen, healthy)); diff != "" {
		t.Errorf("a healthy answer changed (-want +got):\n%s", diff)
	}
}

// A lost GPU cannot report its address, but somebody has to find the board.
func TestSettlePlacesTheOnlyGPUWithoutAnAddress(t *testing.T) {
	proc := fstest.MapFS{}
	for _, addr := range []string{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"} {
		proc[gpuDir+"/"+addr+"/information"] = &fstest.MapFile{}
	}
	tests := []struct {
		name string
		pci  []string
		want []string
	}{
		{"the second", []string{"0000:1b:00.0", "", "0000:52:00.0"},
			[]string{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"}},
		{"two of them", []string{"0000:1b:00.0", "", ""}, []string{"0000:1b:00.0", "", ""}},
		{"none", []string{"0000:52:00.0", "0000:1b:00.0", "0000:43:00.0"},
			[]string{"0000:52:00.0", "0000:1b:00.0", "0000:43:00.0"}},
		{"another one that the files do not show", []string{"0000:1b:00.0", "", "0000:99:00.0"},
			[]string{"0000:1b:00.0", "", "0000:99:00.0"}},
		{"fewer than the files show", []string{"0000:1b:00.0", ""}, []string{"0000:1b:00.0", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := Facts{Present: true}
			for i, pci := range tt.pci {
				answer.Devices = append(answer.Devices, GPU{Index: i, PCI: pci})
			}
			var got []string
			for _, d := range Settle(proc, fstest.MapFS{}, Facts{}, answer).Devices {
				got = append(got, d.PCI)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
	if n := Count(proc); n != 3 {
		t.Errorf("Count = %d, want 3", n)
	}
}

// On a machine without NVML, a call before a successful Init would end the test binary.
func TestChildAnswersWithExactlyOneOutcome(t *testing.T) {
	var out bytes.Buffer
	if err := Child(t.Context(), strings.NewReader("{}"), &out); err != nil {
		t.Fatal(err)
	}
	var got Facts
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if (got.Present) == (got.Err != "") || got.Absent != "" {
		t.Errorf("answer = %+v, want either Present or Err", got)
	}
	t.Logf("NVML: %+v", got)
}

func TestSysfsPCI(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:19:00.0": "0000:19:00.0",
		"00000000:DB:00.0": "0000:db:00.0",
		"00010000:01:00.0": "10000:01:00.0",
		"0008:01:00.0":     "0008:01:00.0",
		"":                 "",
		"garbage":          "garbage",
	} {
		if got := sysfsPCI(in); got != want {
			t.Errorf("sysfsPCI(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCUDAVersion(t *testing.T) {
	for in, want := range map[int]string{12080: "12.8", 11070: "11.7", 13000: "13.0", 12020: "12.2"} {
		if got := cudaVersion(in); got != want {
			t.Errorf("cudaVersion(%d) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add(closedVersion, "00000000:19:00.0")
	f.Add(openVersion, "garbage")
	number := regexp.MustCompile(`^(\d+(\.\d+)+)?$`)
	f.Fuzz(func(t *testing.T, version, bus string) {
		if got := parseVersion(version); !number.MatchString(got) {
			t.Errorf("parseVersion(%q) = %q, not a version", version, got)
		}
		if got := sysfsPCI(bus); sysfsPCI(got) != got {
			t.Errorf("sysfsPCI(%q) = %q, which it would change again", bus, got)
		}
	})
}
