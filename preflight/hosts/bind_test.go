package hosts

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/mpirun"
)

// A host with too few processors is unfit, with what to type instead. A list that places too few is the line's.
func TestAHostWithTooFewProcessors(t *testing.T) {
	for _, tc := range []struct {
		mpi   string
		bind  mpirun.Bind
		unfit string
		says  string
		fix   string
	}{
		{"openmpi4", mpirun.Bind{To: "core", Option: "--bind-to core"}, "h1", "h1: 1 core for 2 processes",
			"--bind-to core:overload-allowed"},
		{"openmpi5", mpirun.Bind{}, "h1", "h1: 1 core for 2 slots, and each process gets one", "--bind-to none"},
		{"openmpi4", mpirun.Bind{}, "", "", ""},
		{"openmpi4", mpirun.Bind{List: "0,1", Option: "--cpu-set 0,1"}, "h1", "h1: no processor 1", "--cpu-set 0,1"},
		{"openmpi4", mpirun.Bind{List: "0x3", Option: "--cpu-set 0x3"}, "", "", ""},
		{"openmpi5", mpirun.Bind{List: "0-1", Option: "--cpu-set 0-1"}, "", "6 processes, but --cpu-set 0-1 names 1", "0,1"},
		{"openmpi5", mpirun.Bind{To: "core", Shared: true}, "", "", ""},
	} {
		in := healthy()
		in.MPI, in.Run.NP, in.Run.Bind = tc.mpi, 6, &tc.bind
		for i := range in.Run.Hosts {
			in.Run.Hosts[i].Slots = 2
			in.Answers[i].Facts.Parts = map[string]int{"core": 2, "hwthread": 2}
		}
		in.Answers[1].Facts.Parts = map[string]int{"core": 1, "hwthread": 1}
		v := Judge(in)
		failed := v.Report.Failed()
		if tc.says == "" {
			if len(failed) > 0 {
				t.Errorf("%+v: %+v", tc, failed)
			}
			continue
		}
		if len(failed) != 1 || !strings.HasPrefix(failed[0].What, tc.says) || !strings.Contains(failed[0].Fix, tc.fix) ||
			slices.Contains(v.Unfit, "h1") != (tc.unfit != "") || v.Refuse != (tc.unfit == "") {
			t.Errorf("%+v: %+v", tc, v)
		}
	}
}
