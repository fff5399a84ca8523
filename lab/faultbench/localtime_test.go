package faultbench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/fabric/machine/machinetest"

	"launch/lab/starts"
)

// tier is one way to run this node's own checks, and how long they took.
type tier struct {
	what  string
	tr    *trial
	argv  []string
	until string // what launch prints when they are over; "": it ends
	took  []time.Duration
}

// The time of the checks of one node is printed with the tables: the median of
// twenty runs, less the median of `true` on the same host.
func TestTimeOfTheChecksOfOneNode(t *testing.T) {
	if !full {
		t.Skip("a measurement: make faultbench")
	}
	cpus, gpus := newTrial(t, 1), newTrial(t, 1)
	gpus.equip(onIB)
	recording := filepath.Join(t.TempDir(), onIB)
	if err := os.WriteFile(recording, machinetest.Text(t, onIB), 0o644); err != nil {
		t.Fatal(err)
	}
	torchrun := []string{"torchrun", "--nproc-per-node", "8", tools.script}
	start := append([]string{tools.launch, "--store", "host0", "--nnodes", "2", "--join-timeout", "1s"}, torchrun...)
	tiers := []*tier{
		{what: "true", tr: cpus, argv: []string{"true"}},
		{what: "true, eight GPUs", tr: gpus, argv: []string{"true"}},
		{what: "launch check, no GPU", tr: cpus, argv: append([]string{tools.launch, "check"}, torchrun...)},
		{what: "launch check, eight GPUs", tr: gpus, argv: append([]string{tools.launch, "check"}, torchrun...)},
		{what: "a start of two nodes until it waits, no GPU", tr: cpus, argv: start, until: "waiting for"},
		{what: "a start of two nodes until it waits, eight GPUs and HCAs", tr: gpus, argv: start, until: "waiting for"},
		{what: "launch check --nnodes 2 --from a recording of these", tr: cpus,
			argv: append([]string{tools.launch, "check", "--store", "host0", "--nnodes", "2", "--from", recording},
				torchrun...)},
	}
	for range 20 { // interleaved, so that a busy moment affects all
		for _, c := range tiers {
			c.took = append(c.took, c.run(t))
		}
	}
	for i, c := range tiers {
		slices.Sort(c.took)
		if i > 1 {
			base := tiers[0]
			if c.tr == gpus {
				base = tiers[1]
			}
			keepTime(c.what, c.took[len(c.took)/2]-base.took[len(base.took)/2])
		}
	}
}

func (c *tier) run(t *testing.T) time.Duration {
	t.Helper()
	h := c.tr.hosts[0]
	h.Start = starts.Start{}
	h.Exec(c.tr.t, h.Host, patience, append([]string{"PATH=" + tools.fake + ":" + os.Getenv("PATH")}, h.env...), c.argv...)
	for _, l := range h.Lines() {
		if l.Said.Type == "finding" && l.Said.Status == "fail" {
			t.Fatalf("%s: %s", c.what, l.Text)
		}
	}
	if c.until == "" {
		return h.Ended.Sub(h.Begun)
	}
	lines := h.Lines()
	i := slices.IndexFunc(lines, func(l starts.Line) bool { return strings.Contains(l.Text, c.until) })
	if i < 0 {
		t.Fatalf("%s: never printed %q:\n%s", c.what, c.until, c.tr.printed())
	}
	return lines[i].At.Sub(h.Begun)
}

// keepTime adds a row to the table of times.
func keepTime(what string, d time.Duration) {
	compared.Lock()
	defer compared.Unlock()
	load, _ := os.ReadFile("/proc/loadavg")
	compared.times = append(compared.times, fmt.Sprintf("| %s | %.0f | %s |", what, float64(d.Microseconds())/1000,
		strings.Fields(string(load))[0]))
}
