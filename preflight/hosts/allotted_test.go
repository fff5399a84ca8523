package hosts

import (
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// What Open MPI refuses where a line has several programs: seen with 4.1.4 and 5.0.11, which printed their map and
// started nothing.
func TestTheSlotsOfSeveralProgramsAreCounted(t *testing.T) {
	a, a2, b2 := mpirun.Host{Name: "a", Slots: 1}, mpirun.Host{Name: "a", Slots: 2}, mpirun.Host{Name: "b", Slots: 2}
	section := func(np int, hosts ...mpirun.Host) mpirun.Section { return mpirun.Section{NP: np, Hosts: hosts} }
	for _, tc := range []struct {
		sections []mpirun.Section
		says     string // "": mpirun starts
	}{
		{[]mpirun.Section{section(1, a), section(2, b2)}, ""},
		{[]mpirun.Section{section(0, a), section(2, b2)}, ""},
		{[]mpirun.Section{section(1, a), section(1, a2)}, ""},
		{[]mpirun.Section{section(1, a, b2), section(1, a, b2)}, ""},
		{[]mpirun.Section{section(2, a), section(1, b2)},
			"2 processes for program 1 of the line, but its hosts have 1 slot (--host)"},
		{[]mpirun.Section{section(1, a), section(3, b2)}, "3 processes for program 2 of the line, but"},
		{[]mpirun.Section{section(1, a), section(1, a)},
			"1 process for program 2 of the line, but its hosts have 1 slot, and the programs before it leave 0 (--host)"},
		{[]mpirun.Section{section(0, a2), section(1, a2)}, "2 slots, and the programs before it leave 0"},
		{[]mpirun.Section{section(2, a2), section(1, a)}, "1 process for program 2"},
	} {
		in := Input{MPI: "openmpi4", Run: mpirun.Run{Strict: true, Sections: tc.sections, Source: "--host"}}
		failed := Judge(in).Report.Failed()
		if tc.says == "" && len(failed) == 0 {
			continue
		}
		if len(failed) != 1 || failed[0].ID != "mpi.slots" || tc.says == "" || !strings.Contains(failed[0].What, tc.says) {
			t.Errorf("%+v: %+v", tc.sections, failed)
		}
		in.Run.Strict = false
		if failed := Judge(in).Report.Failed(); len(failed) > 0 {
			t.Errorf("more processes than slots are allowed: %+v", failed)
		}
	}
}

// A host that the allocation does not have by that name is a warning, and the slots of the others are not counted.
func TestAHostOutsideOfTheAllocation(t *testing.T) {
	in := healthy()
	in.Run.NP, in.Run.Allocation = 9, "SLURM_JOB_NODELIST"
	const both = "--hostfile hosts or SLURM_JOB_NODELIST"
	if f := Judge(in).Report.Failed(); len(f) != 1 || !strings.Contains(f[0].Fix, both) {
		t.Errorf("%+v", f)
	}
	in.Run.Outside = []string{"x1", "x2"}
	for _, f := range Judge(in).Report {
		if f.ID == "mpi.slots" && (f.Status != finding.Warn ||
			f.What != "x1, x2 of --hostfile hosts: not in the allocation by that name (SLURM_JOB_NODELIST)") {
			t.Errorf("%+v", f)
		}
	}
}

func TestAllSlotsOfAHostInAnAllocation(t *testing.T) {
	in := healthy()
	in.Run.NP, in.Run.Allocation, in.Run.Starred = 1, "SLURM_JOB_NODELIST", []string{"x1"}
	if f := Judge(in).Report.Failed(); len(f) > 0 {
		t.Errorf("other hosts have the slots: %+v", f)
	}
	in.Run.NP = 9
	if f := Judge(in).Report.Failed(); len(f) != 1 || !strings.Contains(f[0].What, "NAME:* in --host counts no slot") {
		t.Errorf("%+v", f)
	}
	in.Run.Doubt = true
	for _, f := range Judge(in).Report {
		if f.ID == "mpi.slots" && (f.Status != finding.Warn || !strings.Contains(f.Breaks, "if it takes the hosts")) {
			t.Errorf("in doubt: %+v", f)
		}
	}
}
