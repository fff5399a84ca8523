package mpi

import (
	"slices"
	"strings"
	"testing"

	"launch/lab/programs"
)

// The Open MPI 5 of the rig was built for /opt/openmpi and is in another folder. prterun asks the hosts for the first
// one, and mpirun for the second. launch looks where each looks.
func TestAMovedOpenMPIIsLookedUpWhereItLooks(t *testing.T) {
	tr := newTrial(t, "Open MPI 5.0", 2)
	if o := tr.run(launchSide, plainLimit); o.Exit != 0 || !o.whole(2) {
		t.Errorf("mpirun: exit %d\n%s", o.Exit, o.Said)
	}
	tr.line[slices.Index(tr.line, "mpirun")] = "prterun"
	if o := tr.run(plainSide, plainLimit); o.Exit == 0 {
		t.Errorf("plain prterun starts:\n%s", o.Said)
	}
	o := tr.run(launchSide, plainLimit)
	if flat := strings.Join(strings.Fields(o.Said), " "); o.Exit != 65 || !strings.Contains(flat, "mpi.daemon") ||
		!strings.Contains(flat, "/opt/openmpi/bin/prted") {
		t.Errorf("prterun: exit %d\n%s", o.Exit, o.Said)
	}
	tr.env = append(tr.env, "PRTE_PREFIX="+tr.MPI.Prefix)
	if o := tr.run(launchSide, plainLimit); o.Exit != 0 || !o.whole(2) {
		t.Errorf("prterun with PRTE_PREFIX: exit %d\n%s", o.Exit, o.Said)
	}
}

// Processes of each host are counted as Open MPI counts them: what it refuses is refused, what it starts is started.
func TestProcessesOfEachHostAreCountedAsTheMPICounts(t *testing.T) {
	for _, mpi := range []string{"Open MPI 4.1", "Open MPI 5.0"} {
		t.Run(dashed(mpi), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mpi, 2)
			lines := []struct {
				np    int
				slots [2]int
				add   []string
			}{
				{4, [2]int{2, 2}, []string{"--map-by", "ppr:2:node"}},
				{3, [2]int{2, 2}, []string{"--map-by", "ppr:1:node"}},
				{4, [2]int{1, 5}, []string{"--map-by", "ppr:2:node"}},
				{8, [2]int{2, 2}, []string{"--map-by", "ppr:4:node"}},
				{4, [2]int{1, 1}, []string{"--map-by", "ppr:2:node:OVERSUBSCRIBE"}},
				{3, [2]int{2, 2}, []string{"--npersocket", "1"}},
				{2, [2]int{2, 2}, []string{"--npersocket", "1"}},
				{4, [2]int{2, 2}, []string{"--map-by", "ppr:1:core"}},
				{4, [2]int{2, 2}, []string{"--map-by", "ppr:1:hwthread"}},
				{4, [2]int{4, 4}, []string{"--map-by", "ppr:2:l3cache"}},
				{5, [2]int{4, 4}, []string{"--map-by", "ppr:1:l1cache"}},
				{2, [2]int{2, 2}, []string{"--map-by", "ppr:2:node,1:socket"}},
				{2, [2]int{2, 2}, []string{"--map-by", "ppr:1:node:PE=2"}},
				{4, [2]int{2, 2}, []string{"--map-by", "ppr:2:node:PE=2"}},
				{2, [2]int{1, 1}, []string{"--map-by", "slot:PE=2"}},
				{4, [2]int{2, 2}, []string{"--map-by", "slot:PE=2"}},
				{4, [2]int{2, 2}, []string{"--mca", "rmaps_base_mapping_policy", "slot:PE=2"}}, // 5.0 does not read it
				{2, [2]int{2, 2}, []string{"--map-by", "core:PE=2"}},
				{4, [2]int{2, 2}, []string{"--cpus-per-proc", "2"}},
				{4, [2]int{2, 2}, []string{"--map-by", "slot:PE=1", "--use-hwthread-cpus"}},
				{4, [2]int{4, 4}, []string{"--map-by", "slot:PE=2", "--use-hwthread-cpus"}},
				{2, [2]int{2, 2}, []string{"--nolocal"}},
				{3, [2]int{2, 2}, []string{"--nolocal"}},
				{3, [2]int{2, 2}, []string{"--map-by", "slot:NOLOCAL"}}, // 4.1 knows no such modifier
				{8, [2]int{4, 4}, []string{"--bind-to", "core"}},
				{8, [2]int{4, 4}, nil},
				{3, [2]int{4, 4}, []string{"--bind-to", "core"}},
				{4, [2]int{2, 2}, []string{"--cpu-set", "0"}},
				{2, [2]int{2, 2}, []string{"--cpu-set", "0,99"}},
				{2, [2]int{1, 1}, []string{"--map-by", "node:PE=99"}},
			}
			for _, i := range programs.Draw(t, len(lines), func(i int) string { return itoa(i / 6) }) {
				l := lines[i]
				tr.line = tr.pair(l.np, l.slots[0], l.slots[1], l.add...)
				plain, with := tr.run(plainSide, plainLimit), tr.run(launchSide, plainLimit)
				if runs := plain.Exit == 0 && plain.whole(l.np); runs != (with.Exit == 0 && with.whole(l.np)) {
					t.Errorf("%v: plain runs %v, with launch exit %d\n%s\n%s", tr.line, runs, with.Exit, plain.Said, with.Said)
				} else if !runs && (with.Exit != 65 || !strings.Contains(with.Said, "mpi.slots")) {
					t.Errorf("%v: not refused by its slots: exit %d\n%s\n%s", tr.line, with.Exit, plain.Said, with.Said)
				}
			}
		})
	}
}

// pair returns a line of np ranks on two hosts with these slots.
func (tr *trial) pair(np, first, second int, add ...string) []string {
	names := tr.Names()
	line := tr.Line(names...)
	tr.list(names[0] + " slots=" + itoa(first) + "\n" + names[1] + " slots=" + itoa(second) + "\n")
	line[slices.Index(line, "-np")+1] = itoa(np)
	return slices.Insert(line, 1, add...)
}

// Where a line has several programs, the slots of each one's hosts are counted as Open MPI counts them.
func TestTheSlotsOfEachProgramAreCountedAsTheMPICounts(t *testing.T) {
	for _, mpi := range []string{"Open MPI 4.1", "Open MPI 5.0"} {
		t.Run(dashed(mpi), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mpi, 2)
			for _, l := range []struct {
				words string
				np    int
			}{
				{"-np 1 --host host0 P : -np 2 --host host1:2 P", 3},
				{"-np 2 --host host0 P : -np 1 --host host1:2 P", 3},
				{"-np 1 --host host0 P : -np 3 --host host1:2 P", 4},
				{"-np 1 --host host0 P : -np 1 --host host0 P", 2}, // 4.1 refuses it
				{"-np 1 --host host0 P : -np 1 P", 2},
				{"-np 2 --map-by :OVERSUBSCRIBE --host host0 P : -np 1 --host host1:2 P", 3},
			} {
				tr.line = strings.Fields(tr.MPI.Run + " " + strings.ReplaceAll(l.words, " P", " "+Job+"/world"))
				plain, with := tr.run(plainSide, plainLimit), tr.run(launchSide, plainLimit)
				if runs := plain.Exit == 0 && plain.whole(l.np); runs != (with.Exit == 0 && with.whole(l.np)) {
					t.Errorf("%v: plain runs %v, with launch exit %d\n%s\n%s", tr.line, runs, with.Exit, plain.Said, with.Said)
				} else if !runs && (with.Exit != 65 || !strings.Contains(with.Said, "mpi.slots")) {
					t.Errorf("%v: not refused by its slots: exit %d\n%s\n%s", tr.line, with.Exit, plain.Said, with.Said)
				}
			}
		})
	}
}
