package hosts

import (
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// What Open MPI refuses where a line places processes on each host or part: seen with 4.1.8 and 5.0.11, which printed
// their map and started nothing.
func TestProcessesOfEachHostAreCounted(t *testing.T) {
	node := func(n int) *mpirun.Per { return &mpirun.Per{N: n, Of: "node", Option: "--map-by ppr:N:node"} }
	two := func(n int) *mpirun.Per { return &mpirun.Per{N: n, Of: "package", Option: "--map-by ppr:N:package"} }
	for _, tc := range []struct {
		np, a, b   int // processes, and the slots of two hosts
		per        *mpirun.Per
		free       bool // more processes than slots are allowed
		four, five bool // refused
		says       string
	}{
		{4, 2, 2, node(2), false, false, false, ""},
		{0, 2, 2, node(2), false, false, false, ""},
		{3, 2, 2, node(1), false, true, true, "3 processes, but --map-by ppr:N:node places 2 on 2 hosts"},
		{3, 2, 2, node(1), true, true, true, "3 processes, but"},
		{8, 2, 2, node(4), false, true, true, ""},
		{8, 2, 2, node(4), true, false, false, ""},
		{4, 1, 5, node(2), false, true, true, ""},
		{2, 1, 1, node(2), false, true, false, "hosta gets 2 processes by --map-by ppr:N:node, and has 1 slot"},
		{0, 1, 1, node(2), false, true, true, ""},
		{0, 2, 2, node(3), false, true, true, ""},
		{8, 4, 4, two(2), false, false, false, ""},
		{9, 8, 8, two(2), false, true, true, "places 8 on 2 hosts"},
		{8, 2, 8, two(2), false, true, true, ""},
	} {
		run := mpirun.Run{NP: tc.np, Strict: !tc.free, Per: tc.per,
			Hosts: []mpirun.Host{{Name: "hosta", Slots: tc.a}, {Name: "hostb", Slots: tc.b}}}
		parts := func(mpirun.Host) int { return map[string]int{"node": 1, "package": 2}[tc.per.Of] }
		slots := func(h mpirun.Host) int { return h.Slots }
		four, five := Crowded(run, "openmpi4", parts, slots), Crowded(run, "openmpi5", parts, slots)
		if (four != "") != tc.four || (five != "") != tc.five || !strings.Contains(four, tc.says) {
			t.Errorf("%+v: %q and %q", tc, four, five)
		}
	}
}

// Without the number of packages the slots of all hosts are what counts.
func TestPartsThatAreNotKnown(t *testing.T) {
	in := healthy()
	in.Run.Per = &mpirun.Per{N: 1, Of: "package", Option: "-npersocket 1"}
	if f := Judge(in).Report.Failed(); len(f) != 0 {
		t.Errorf("%+v", f)
	}
	in.Run.NP = 4
	if f := Judge(in).Report.Failed(); len(f) != 1 || f[0].ID != "mpi.slots" || !strings.Contains(f[0].What, "3 slots") {
		t.Errorf("%+v", f)
	}
	for i := range in.Answers {
		in.Answers[i].Facts.Packages = 1
	}
	v := Judge(in)
	if f := v.Report.Failed(); len(f) != 1 || f[0].What != "4 processes, but -npersocket 1 places 3 on 3 hosts "+
		"(--hostfile hosts)" || f[0].Status != finding.Fail || !v.Refuse {
		t.Errorf("%+v", v)
	}
}

// What a busy head cannot know is a warning, and no failure of a host.
func TestAHostIsNotUnfitForABusyHead(t *testing.T) {
	const busy = "in 40s its processes waited 38s for a processor"
	for name, do := range map[string]func(a *Answer){
		"no answer": func(a *Answer) { a.Whole, a.Facts, a.Late = false, mpirun.Facts{}, true },
		"no call":   func(a *Answer) { a.Facts.Calls = []mpirun.Call{{To: "10.0.0.1"}} },
	} {
		in := healthy()
		do(&in.Answers[2])
		if v := Judge(in); len(v.Report.Failed()) != 1 {
			t.Errorf("%s: no failure without load: %+v", name, v.Report)
		}
		in.Answers[2].Busy = busy
		v := Judge(in)
		if v.Report.Worst() != finding.Warn || len(v.Unfit) > 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
