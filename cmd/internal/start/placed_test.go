package start

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"strings"
	"testing"

	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/preflight/hosts"
)

// placed are lines that Open MPI 4.1.8 and 5.0.11 were given with a topology of hwloc and --do-not-launch: a line, how
// many packages, NUMA nodes, L3, L2 and L1 caches, cores and hardware threads each host has, and what each version did.
// "?" is a crash.
//
//go:embed testdata/placed.txt
var placed string

// A line that Open MPI places is never refused, and most of those that it refuses are.
func TestPlacedLinesAreJudgedAsTheMPIJudges(t *testing.T) {
	refused := map[string]int{}
	for text := range strings.Lines(placed) {
		f := strings.Split(strings.TrimSpace(text), " | ")
		var n [7]any
		for i := range n {
			n[i] = new(int)
		}
		if _, err := fmt.Sscan(f[1], n[:]...); err != nil {
			t.Fatal(text, err)
		}
		parts := map[string]int{}
		for i, name := range strings.Fields("package numa l3cache l2cache l1cache core hwthread") {
			parts[name] = *n[i].(*int)
		}
		for i, mpi := range []string{"openmpi4", "openmpi5"} {
			line, err := launcher.Parse(strings.Fields("mpirun "+f[0]+" ./a"), "")
			if err != nil {
				t.Fatal(err)
			}
			run, err := mpirun.Read(mpirun.Input{Line: line.Of(mpi)})
			if err != nil {
				t.Fatal(f[0], err)
			}
			facts := func(mpirun.Host) mpirun.Facts { return mpirun.Facts{Parts: parts} }
			slots := func(h mpirun.Host) int { return h.Slots }
			why := cmp.Or(hosts.Crowded(run, mpi, facts, slots), hosts.Bound(run, mpi, facts, slots).Why())
			if runs := f[2+i] == "runs"; runs && why != "" {
				t.Errorf("%s places %s, refused: %s", mpi, text, why)
			} else if !runs && why != "" {
				refused[mpi]++
			}
		}
	}
	if want := map[string]int{"openmpi4": 206, "openmpi5": 206}; !maps.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
}
