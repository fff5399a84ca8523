package mpirun

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheProgramsOfALine(t *testing.T) {
	a, b := []Host{{"a", "", 1}}, []Host{{"b", "", 2}}
	shared := []Section{{1, a}, {2, []Host{{"a", "", 2}}}}
	for line, want := range map[string][2][]Section{ // 4.1 and 5.0
		"-np 2 --host a P : -np 1 --host b:2 P":                  {{{2, a}, {1, b}}, {{2, a}, {1, b}}},
		"-np 1 --host a P : --host b,b P":                        {{{1, a}, {0, b}}, {{1, a}, {0, b}}},
		"-np 1 P : -np 2 --host b:2 P":                           {{{1, b}, {2, b}}, {{1, b}, {2, b}}},
		"-np 1 --host a P : -np 2 --host a:2 P":                  {shared, nil},
		"-np 1 --host a:* P : -np 1 --host b P":                  {},
		"-np 2 --host a P":                                       {},
		"-np 2 --hostfile hosts --host a P : -np 1 --host b:2 P": {{{2, a}, {1, b}}, {{2, a}, {1, b}}},
		"-np 2 --hostfile hosts --host a P : -np 1 P":            {},
		"-np 2 --map-by node --host a P : -np 1 --host b:2 P":    {{{2, a}, {1, b}}, {{2, a}, {1, b}}},
		"-np 2 --map-by ppr:1:node --host a P : --host b:2 P":    {},
		"-np 2 --oversubscribe --host a P : -np 1 --host b:2 P":  {},
	} {
		for i, mpi := range []string{"openmpi4", "openmpi5"} {
			run := read(t, mpi, nil, strings.Fields("mpirun --default-hostfile none "+line)...)
			if diff := cmp.Diff(want[i], run.Sections); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", mpi, line, diff)
			}
		}
	}
	env := []string{"SLURM_JOB_NODELIST=a,b", "SLURM_TASKS_PER_NODE=1,2"}
	run := read(t, "openmpi4", env, strings.Fields("mpirun -np 2 --host a:2 P : -np 2 --host b:2 P")...)
	if diff := cmp.Diff([]Section{{2, a}, {2, b}}, run.Sections); diff != "" {
		t.Errorf("in an allocation (-want +got):\n%s", diff)
	}
	if run := read(t, "openmpi4", env, strings.Fields("mpirun --host a P : P")...); run.Sections != nil {
		t.Errorf("in an allocation: %+v", run.Sections)
	}
}
