package gpu

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// smi runs nvidia-smi. An error means that this version does not know the query.
type smi func(args ...string) (string, error)

// same is one field of nvidia-smi --query-gpu, under each name that it has had, and
// launch's value for it in nvidia-smi's words, lower case.
type same struct {
	query []string
	got   func(GPU) string
}

func sames() []same {
	mode := func(s string) string { return map[string]string{"on": "enabled", "off": "disabled"}[s] }
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	ecc := func(read func(*ECC) string) func(GPU) string {
		return func(g GPU) string {
			if g.ECC == nil {
				return ""
			}
			return read(g.ECC)
		}
	}
	counted := func(read func(*ECC) int64) func(GPU) string {
		return ecc(func(e *ECC) string {
			if n := read(e); n >= 0 {
				return strconv.FormatInt(n, 10)
			}
			return ""
		})
	}
	rows := func(read func(*Rows) string) func(GPU) string {
		return func(g GPU) string {
			if g.Rows == nil {
				return ""
			}
			return read(g.Rows)
		}
	}
	fabric := func(read func(*Fabric) string) func(GPU) string {
		return func(g GPU) string {
			if g.Fabric == nil {
				return ""
			}
			return strings.ReplaceAll(read(g.Fabric), "_", " ")
		}
	}
	one := func(name string, got func(GPU) string) same { return same{[]string{name}, got} }
	return []same{
		one("name", func(g GPU) string { return g.Name }),
		one("uuid", func(g GPU) string { return g.UUID }),
		one("pci.bus_id", func(g GPU) string { return g.PCI }),
		one("memory.total", func(g GPU) string { return strconv.FormatUint(g.Memory>>20, 10) }),
		one("persistence_mode", func(g GPU) string { return mode(g.Persistence) }),
		one("compute_mode", func(g GPU) string { return g.ComputeMode }),
		one("mig.mode.current", func(g GPU) string { return mode(g.MIG) }),
		one("ecc.mode.current", ecc(func(e *ECC) string { return mode(e.Mode) })),
		one("ecc.mode.pending", ecc(func(e *ECC) string { return mode(e.Pending) })),
		one("ecc.errors.corrected.volatile.total", counted(func(e *ECC) int64 { return e.Corrected })),
		one("ecc.errors.uncorrected.volatile.total", counted(func(e *ECC) int64 { return e.Uncorrected })),
		one("ecc.errors.corrected.aggregate.total", counted(func(e *ECC) int64 { return e.CorrectedEver })),
		one("ecc.errors.uncorrected.aggregate.total", counted(func(e *ECC) int64 { return e.UncorrectedEver })),
		one("remapped_rows.correctable", rows(func(r *Rows) string { return strconv.Itoa(r.Corrected) })),
		one("remapped_rows.uncorrectable", rows(func(r *Rows) string { return strconv.Itoa(r.Uncorrected) })),
		one("remapped_rows.pending", rows(func(r *Rows) string { return yes(r.Pending) })),
		one("remapped_rows.failure", rows(func(r *Rows) string { return yes(r.Failed) })),
		one("pcie.link.gen.max", func(g GPU) string { return number(g.MaxGen) }),
		one("pcie.link.width.current", func(g GPU) string { return number(g.Lanes) }),
		one("pcie.link.width.max", func(g GPU) string { return number(g.MaxLanes) }),
		one("fabric.state", fabric(func(f *Fabric) string { return f.State })),
		one("fabric.status", fabric(func(f *Fabric) string { return strings.ToLower(f.Status) })),
		// Only what does not change with the load.
		{[]string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"},
			func(g GPU) string { return strings.Join(faults(g.Throttle), "+") }},
	}
}

// faults returns the reasons for low clocks that a healthy GPU does not show.
func faults(throttle []string) []string {
	return slices.DeleteFunc(slices.Clone(throttle), func(s string) bool {
		return !slices.Contains([]string{"hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"}, s)
	})
}

// usual converts nvidia-smi's value of a field to the form of sames.
func usual(query, value string) string {
	value = strings.TrimSpace(value)
	lower := strings.ToLower(strings.Trim(value, "[]"))
	switch {
	case lower == "n/a" || lower == "not supported" || lower == "unknown error":
		return ""
	case query == "name" || query == "uuid":
		return value
	case query == "pci.bus_id":
		return sysfsPCI(value)
	case strings.HasSuffix(query, "_reasons.active"):
		bits, err := strconv.ParseUint(lower, 0, 64)
		if err != nil {
			return value
		}
		return strings.Join(faults(throttle(bits)), "+")
	}
	return lower
}

// differ compares launch's facts of the GPUs with nvidia-smi's, and counts the compared
// values.
func differ(f Facts, ask smi) (compared int, differences []string) {
	complain := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for _, s := range sames() {
		for _, query := range s.query {
			out, err := ask("--query-gpu=index,"+query, "--format=csv,noheader,nounits")
			if err != nil {
				continue // an older name, or a newer one
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != len(f.Devices) {
				complain("%s: %d GPUs, and launch has %d", query, len(lines), len(f.Devices))
			}
			for _, line := range lines {
				index, value, _ := strings.Cut(line, ",")
				i, err := strconv.Atoi(strings.TrimSpace(index))
				if err != nil || i < 0 || i >= len(f.Devices) {
					complain("%s: launch has no GPU %q", query, index)
					continue
				}
				compared++
				if want, got := usual(query, value), s.got(f.Devices[i]); want != got && !near(query, want, got) {
					complain("GPU %d %s: nvidia-smi %q, launch %q", i, query, want, got)
				}
			}
			break
		}
	}
	n, bad := differLinks(f, ask)
	return compared + n, append(differences, bad...)
}

// near allows for the rounding of MiB.
func near(query, a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return query == "memory.total" && err1 == nil && err2 == nil && math.Abs(x-y) <= 1
}

var (
	smiGPU  = regexp.MustCompile(`^GPU (\d+):`)
	smiLink = regexp.MustCompile(`^\s+Link \d+: (.*)`)
	smiRow  = regexp.MustCompile(`^\s*GPU(\d+)\s+(\S.*)`)
)

// differLinks compares NVLink and the matrix of peers.
func differLinks(f Facts, ask smi) (compared int, differences []string) {
	if out, err := ask("nvlink", "--status"); err == nil {
		up, at := map[int]int{}, -1
		for line := range strings.Lines(out) {
			if m := smiGPU.FindStringSubmatch(line); m != nil {
				at, _ = strconv.Atoi(m[1])
			} else if m := smiLink.FindStringSubmatch(line); m != nil && !strings.Contains(strings.ToLower(m[1]), "inactive") {
				up[at]++
			}
		}
		for _, d := range f.Devices {
			have := 0
			if d.NVLink != nil {
				have = d.NVLink.Up
			}
			if compared++; have != up[d.Index] {
				differences = append(differences, fmt.Sprintf("GPU %d NVLink: nvidia-smi has %d links up, launch %d", d.Index,
					up[d.Index], have))
			}
		}
	}
	words := map[string]string{"OK": "ok", "CNS": "chipset", "GNS": "gpu", "TNS": "topology", "NS": "not_supported",
		"DR": "disabled"}
	for letter, field := range map[string]func(Pair) string{
		"r": func(p Pair) string { return p.Read },
		"w": func(p Pair) string { return p.Write },
		"n": func(p Pair) string { return p.NVLink },
	} {
		out, err := ask("topo", "-p2p", letter)
		if err != nil {
			continue
		}
		cells := map[int][]string{}
		for line := range strings.Lines(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out, "")) {
			// The head of the table has GPUs in every column.
			if m := smiRow.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[2], "GPU") {
				i, _ := strconv.Atoi(m[1])
				cells[i] = strings.Fields(m[2])
			}
		}
		for _, p := range f.Pairs {
			if row := cells[p.A]; p.B < len(row) && words[row[p.B]] != "" {
				if compared++; words[row[p.B]] != field(p) {
					differences = append(differences, fmt.Sprintf("GPUs %d and %d, topo -p2p %s: nvidia-smi %s, launch %q", p.A, p.B,
						letter, row[p.B], field(p)))
				}
			}
		}
	}
	return compared, differences
}

// TestAcceptGPU is half of make accept-gpu; the other half needs torch.
// LAUNCH_ACCEPT_GPU is a folder for a recording of the machine.
func TestAcceptGPU(t *testing.T) {
	dir := os.Getenv("LAUNCH_ACCEPT_GPU")
	if dir == "" {
		t.Skip("make accept-gpu runs it, on a machine with an NVIDIA GPU")
	}
	recording := filepath.Join(dir, "machine.json")
	live := launchFabric(t, "--record", recording)
	if !live.Present || len(live.Devices) == 0 {
		t.Fatalf("launch sees no GPU: %+v", live)
	}
	compared, differences := differ(live, func(args ...string) (string, error) {
		out, err := exec.Command("nvidia-smi", args...).Output()
		return string(out), err
	})
	for _, d := range differences {
		t.Error(d)
	}
	if compared < 8*len(live.Devices) {
		t.Errorf("only %d values could be compared", compared)
	}
	t.Logf("%d GPUs, %d values agree; unknown to launch: %v; XIDs: %+v", len(live.Devices), compared-len(differences),
		live.Unknown, live.XIDs)

	replayed := launchFabric(t, "--from", recording)
	if diff := cmp.Diff(nameless(live), nameless(replayed)); diff != "" {
		t.Errorf("the recording is of another machine (-live +replayed):\n%s", diff)
	}
}

// launchFabric returns the GPUs of launch fabric.
func launchFabric(t *testing.T, args ...string) Facts {
	t.Helper()
	binary, err := filepath.Abs(os.Getenv("LAUNCH_TEST_BIN"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, append([]string{"--json", "fabric"}, args...)...).Output()
	if err != nil {
		t.Fatalf("launch --json fabric %q: %v", args, err)
	}
	var node struct {
		GPUs Facts `json:"gpus"`
	}
	if err := json.Unmarshal(out, &node); err != nil {
		t.Fatal(err)
	}
	return node.GPUs
}

// nameless returns the facts without what a recording replaces.
func nameless(f Facts) Facts {
	f = f.Anonymous()
	for i := range f.Devices {
		d := &f.Devices[i]
		d.UUID = ""
		for j := range d.MIGDevices {
			d.MIGDevices[j].UUID = ""
		}
		if d.Fabric != nil {
			d.Fabric.Cluster = ""
		}
	}
	return f
}

// sample returns two GPUs as launch and nvidia-smi would describe them.
func sample() (Facts, smi) {
	one := GPU{Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-a", PCI: "0000:1b:00.0", Memory: 85520809984, Persistence: "on",
		ComputeMode: "default", MIG: "off",
		ECC: &ECC{Mode: "on", Pending: "on", CorrectedEver: -1}, Rows: &Rows{Uncorrected: 4, Pending: true}, MaxGen: 5,
		Lanes: 16, MaxLanes: 16,
		Throttle: []string{"idle"}, NVLink: &NVLink{Up: 2, Total: 3}, Fabric: &Fabric{State: "in_progress"}}
	other := GPU{Index: 1, Name: "NVIDIA T4", UUID: "GPU-b", PCI: "0000:9d:00.0", Memory: 16106127360,
		Throttle: []string{"hw_slowdown", "power_brake"}}
	answers := map[string]string{
		"name": "0, NVIDIA H100 80GB HBM3\n1, NVIDIA T4", "uuid": "0, GPU-a\n1, GPU-b",
		"pci.bus_id":   "0, 00000000:1B:00.0\n1, 00000000:9D:00.0",
		"memory.total": "0, 81559\n1, 15360", "persistence_mode": "0, Enabled\n1, [N/A]",
		"compute_mode": "0, Default\n1, [N/A]", "mig.mode.current": "0, Disabled\n1, [N/A]",
		"ecc.mode.current": "0, Enabled\n1, [N/A]", "ecc.mode.pending": "0, Enabled\n1, [N/A]",
		"ecc.errors.corrected.volatile.total":  "0, 0\n1, [N/A]",
		"ecc.errors.corrected.aggregate.total": "0, [N/A]\n1, [N/A]", "remapped_rows.uncorrectable": "0, 4\n1, [N/A]",
		"remapped_rows.pending": "0, Yes\n1, [N/A]",
		"remapped_rows.failure": "0, No\n1, [N/A]", "pcie.link.width.current": "0, 16\n1, [N/A]",
		"fabric.state":                   "0, In Progress\n1, [N/A]",
		"clocks_throttle_reasons.active": "0, 0x0000000000000004\n1, 0x0000000000000088",
	}
	ask := func(args ...string) (string, error) {
		switch {
		case args[0] == "nvlink":
			return "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: " +
				"26.562 GB/s\nGPU 1: NVIDIA T4 (UUID: GPU-b)\n", nil
		case args[0] == "topo" && args[2] == "r":
			return " \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n\nLegend:\n\n  X    = Self\n", nil
		}
		if out, ok := answers[strings.TrimPrefix(args[0], "--query-gpu=index,")]; ok {
			return out + "\n", nil
		}
		return "", os.ErrInvalid
	}
	return Facts{Present: true, Devices: []GPU{one, other}, Pairs: []Pair{{A: 0, B: 1, Read: "chipset",
		Write: "chipset"}}}, ask
}

func TestAcceptanceFindsEachDifference(t *testing.T) {
	f, ask := sample()
	compared, differences := differ(f, ask)
	if len(differences) > 0 || compared != 17*2+2+1 {
		t.Fatalf("%d values compared, differences %q; want none", compared, differences)
	}
	tests := map[string]func(f *Facts){
		`GPU 0 memory.total: nvidia-smi "81559", launch "81561"`: func(f *Facts) {
			f.Devices[0].Memory += 2 << 20
		},
		`GPU 1 name: nvidia-smi "NVIDIA T4", launch "NVIDIA T4G"`: func(f *Facts) {
			f.Devices[1].Name = "NVIDIA T4G"
		},
		`GPU 0 remapped_rows.pending: nvidia-smi "yes", launch "no"`: func(f *Facts) {
			f.Devices[0].Rows.Pending = false
		},
		`GPU 1 clocks_throttle_reasons.active: nvidia-smi "hw_slowdown+power_brake", launch ""`: func(f *Facts) {
			f.Devices[1].Throttle = nil
		},
		`GPU 0 NVLink: nvidia-smi has 2 links up, launch 3`: func(f *Facts) {
			f.Devices[0].NVLink.Up = 3
		},
		`GPUs 0 and 1, topo -p2p r: nvidia-smi CNS, launch "ok"`: func(f *Facts) {
			f.Pairs[0].Read = "ok"
		},
		`GPU 0 fabric.state: nvidia-smi "in progress", launch "completed"`: func(f *Facts) {
			f.Devices[0].Fabric.State = "completed"
		},
		`GPU 0 ecc.errors.corrected.aggregate.total: nvidia-smi "", launch "7"`: func(f *Facts) {
			f.Devices[0].ECC.CorrectedEver = 7
		},
		`GPU 0 pci.bus_id: nvidia-smi "0000:1b:00.0", launch "0000:1c:00.0"`: func(f *Facts) {
			f.Devices[0].PCI = "0000:1c:00.0"
		},
	}
	for want, alter := range tests {
		f, ask := sample()
		alter(&f)
		if _, got := differ(f, ask); !cmp.Equal([]string{want}, got) {
			t.Errorf("differences = %q, want %q", got, want)
		}
	}
	f, ask = sample()
	f.Devices = f.Devices[:1]
	if _, got := differ(f, ask); len(got) == 0 {
		t.Error("a GPU that launch does not see makes no difference")
	}
}
