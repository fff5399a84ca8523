package start

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/setting"
	"launch/preflight/hosts"
)

// bindCase is a line on two hosts of 2 cores, and whether Open MPI 4.1.4 and 5.0.11 have refused it in the laboratory.
type bindCase struct {
	np         int
	slots      [2]int
	words      string
	four, five bool
	says       string // for the first version that refuses
}

func bindCases() []bindCase {
	return []bindCase{
		{4, [2]int{2, 2}, "--bind-to core", false, false, ""},
		{8, [2]int{4, 4}, "--bind-to core", true, true, "host0: 2 cores for 4 processes (--bind-to core)"},
		{6, [2]int{2, 4}, "--bind-to core", true, true, "host1: 2 cores for 4 processes"},
		{6, [2]int{4, 4}, "--map-by node --bind-to core", true, true, "host0: 2 cores for 3 processes"},
		{4, [2]int{4, 4}, "--map-by node --bind-to core", false, false, ""},
		{3, [2]int{4, 4}, "--bind-to core", true, false, "host0: 2 cores for 3 processes"},
		{8, [2]int{4, 4}, "--bind-to core:overload-allowed", false, false, ""},
		{8, [2]int{4, 4}, "--bind-to core:if-supported", true, true, ""},
		{8, [2]int{4, 4}, "--bind-to none", false, false, ""},
		{8, [2]int{4, 4}, "--bind-to hwthread", true, true, "2 hardware threads for 4 processes"},
		{8, [2]int{4, 4}, "--bind-to socket", true, true, "2 cores for 4 processes (--bind-to socket)"},
		{8, [2]int{4, 4}, "--bind-to l3cache", true, true, ""},
		{8, [2]int{4, 4}, "--bind-to board", false, false, ""},
		{8, [2]int{4, 4}, "--bind-to-core", true, true, "(--bind-to-core)"},
		{8, [2]int{4, 4}, "--map-by ppr:4:node --bind-to core", true, false, ""}, // 5 refuses it: not counted
		{8, [2]int{4, 4}, "--map-by ppr:4:node", false, false, ""},
		{8, [2]int{4, 4}, "--map-by core --bind-to core", true, true, ""},
		{8, [2]int{4, 4}, "--map-by slot --bind-to core", true, true, ""},
		{8, [2]int{4, 4}, "--map-by slot", false, false, ""},
		{8, [2]int{4, 4}, "--map-by node", false, false, ""},
		{8, [2]int{4, 4}, "--map-by core", false, true, "2 cores for 4 slots, and each process gets one (the"},
		{8, [2]int{4, 4}, "--map-by socket", false, true, ""},
		{8, [2]int{4, 4}, "", false, true, "host0: 2 cores for 4 slots, and each"},
		{5, [2]int{4, 1}, "", false, true, "host0: 2 cores"},
		{3, [2]int{4, 4}, "", false, false, ""},
		{8, [2]int{4, 4}, "--use-hwthread-cpus", false, true, ""},
		{8, [2]int{2, 2}, "--oversubscribe", false, false, ""},
		{8, [2]int{2, 2}, "--map-by :OVERSUBSCRIBE --bind-to core", false, true, ""}, // 4 refuses it: not counted
		{8, [2]int{4, 4}, "--prtemca hwloc_default_binding_policy none", false, false, ""},
		{4, [2]int{2, 2}, "--cpu-set 0", false, true, "4 processes, but --cpu-set 0 names 1 processor, and places as many"},
		{4, [2]int{2, 2}, "--cpu-set 0-1", false, true, ""},
		{4, [2]int{2, 2}, "--cpu-set 0,1", false, false, ""},
		{2, [2]int{2, 2}, "--cpu-set 0,5", true, false, "no processor 5, which --cpu-set 0,5 names: it has 0 to 1"},
		{2, [2]int{2, 2}, "--cpu-list 5", true, false, ""},
		{2, [2]int{2, 2}, "--cpu-set 0-3", true, false, ""},
		{8, [2]int{4, 4}, "--cpu-set 0,1 --bind-to core", false, true, ""},
		{4, [2]int{2, 2}, "--map-by pe-list=0,1", false, false, ""},
		{4, [2]int{1, 1}, "--map-by :OVERSUBSCRIBE --cpu-set 0", false, false, ""},
		{2, [2]int{2, 2}, "--map-by slot:PE=2 --bind-to core", true, false, "host0 gets 2 processes by"},
		{4, [2]int{2, 2}, "--map-by slot:PE=2 --bind-to core", true, true, ""},
		{2, [2]int{1, 1}, "--map-by slot:PE=2 --bind-to core", false, false, ""},
		{2, [2]int{1, 1}, "--map-by ppr:1:node:PE=3 --bind-to core", true, true, ""},
		{2, [2]int{1, 1}, "--map-by node:PE=3", true, true, "host0 gets 1 process by --map-by node:PE=3, and has 2 cores"},
		{2, [2]int{2, 2}, "--map-by node:PE=2", false, false, ""},
		{4, [2]int{2, 2}, "--map-by node:PE=2", true, true, ""},
		{8, [2]int{4, 4}, "--map-by slot:PE=1 --bind-to core", true, true, ""},
	}
}

// A host with fewer processors than Open MPI binds processes to is named, and no other line is refused.
func TestProcessesThatAreBoundNeedProcessors(t *testing.T) {
	parts := map[string]int{"package": 1, "numa": 1, "l3cache": 1, "l2cache": 2, "l1cache": 2, "core": 2, "hwthread": 2}
	for _, tc := range bindCases() {
		says := tc.says
		for _, mpi := range []string{"openmpi4", "openmpi5", "openmpi"} { // the last: its version is not known
			run := bindRun(t, mpi, tc)
			slots := func(h mpirun.Host) int { return h.Slots }
			why := func(parts map[string]int) string {
				facts := func(mpirun.Host) mpirun.Facts { return mpirun.Facts{Parts: parts} }
				return cmp.Or(hosts.Crowded(run, mpi, facts, slots), hosts.Bound(run, mpi, facts, slots).Why())
			}
			got := why(parts)
			if mpi == "openmpi" {
				if got != "" && !(tc.four && tc.five) {
					t.Errorf("%s: %+v: %q", mpi, tc, got)
				}
				continue
			}
			if refused := got != ""; refused != (tc.four && mpi == "openmpi4" || tc.five && mpi == "openmpi5") {
				t.Errorf("%s: %+v: %q", mpi, tc, got)
			} else if refused {
				if !strings.Contains(got, says) {
					t.Errorf("%s: %+v: %q", mpi, tc, got)
				}
				says = ""
			}
			if got = why(nil); mpi == "openmpi4" && got != "" { // a shell with some of the processors
				t.Errorf("%+v: processors are not known: %q", tc, got)
			}
		}
	}
}

// bindRun returns what a line on two hosts asks.
func bindRun(t *testing.T, mpi string, tc bindCase) mpirun.Run {
	t.Helper()
	words := fmt.Sprintf("mpirun -np %d %s --host host0:%d,host1:%d ./a", tc.np, tc.words, tc.slots[0], tc.slots[1])
	line, err := launcher.Parse(strings.Fields(words), "")
	if err != nil {
		t.Fatal(err)
	}
	in := mpirun.Input{Line: line.Of(mpi), Dir: "/"}
	for _, o := range line.Options {
		if name, value, ok := strings.Cut(o.Value, " "); ok && o.Name == "prtemca" {
			in.Decided = append(in.Decided, setting.Decided{Name: "PRTE_MCA_" + name, Value: value})
		}
	}
	run, err := mpirun.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}
