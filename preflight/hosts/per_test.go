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
		parts := func(mpirun.Host) mpirun.Facts { return mpirun.Facts{Parts: map[string]int{"package": 2}} }
		slots := func(h mpirun.Host) int { return h.Slots }
		four, five := Crowded(run, "openmpi4", parts, slots), Crowded(run, "openmpi5", parts, slots)
		if (four != "") != tc.four || (five != "") != tc.five || !strings.Contains(four, tc.says) {
			t.Errorf("%+v: %q and %q", tc, four, five)
		}
	}
}

// What is said of a line that Open MPI refuses. Two hosts have 2 slots, 2 cores and 4 hardware threads each.
func TestWhyALineIsRefused(t *testing.T) {
	parts := map[string]int{"package": 1, "numa": 1, "l3cache": 1, "l2cache": 2, "core": 2, "hwthread": 4}
	for _, tc := range []struct {
		per        mpirun.Per
		np         int
		four, five string
	}{
		{mpirun.Per{N: 1, Of: "l3cache"}, 2, "", ""},
		{mpirun.Per{N: 1, Of: "l3cache"}, 3, "3 processes, but X places 2 on 2 hosts",
			"3 processes, but X places 2 on 2 hosts"},
		{mpirun.Per{N: 2, Of: "l2cache"}, 4, "hosta gets 4 processes by X, and has 2 slots", ""},
		{mpirun.Per{N: 2, Of: "l1cache"}, 9, "", ""}, // how many there are is not known
		{mpirun.Per{N: 2, Of: "node,1"}, 2, "X names several parts, and Open MPI takes one",
			"X names several parts, and Open MPI takes one"},
		{mpirun.Per{Of: "slot", CPUs: 2}, 2, "hosta gets 2 processes by X, and has 2 cores", ""},
		{mpirun.Per{Of: "slot", CPUs: 2}, 3, "hosta gets 2 processes by X, and has 2 cores",
			"3 processes, but X places 2 on 2 hosts"},
		{mpirun.Per{Of: "slot", CPUs: 2, Threads: true}, 4, "", ""},
		{mpirun.Per{Of: "slot", CPUs: 3, Threads: true}, 2, "hosta gets 2 processes by X, and has 4 hardware threads", ""},
		{mpirun.Per{Of: "core", CPUs: 2}, 1, "X gives each process 2 processors of one core, which is one processor",
			"X gives each process 2 processors of one core, which is one processor"},
		{mpirun.Per{Of: "core", CPUs: 2, Threads: true}, 2, "", ""},
	} {
		tc.per.Option = "X"
		run := mpirun.Run{NP: tc.np, Strict: true, Per: &tc.per,
			Hosts: []mpirun.Host{{Name: "hosta", Slots: 2}, {Name: "hostb", Slots: 2}}}
		for mpi, want := range map[string]string{"openmpi4": tc.four, "openmpi5": tc.five} {
			got := Crowded(run, mpi, func(mpirun.Host) mpirun.Facts { return mpirun.Facts{Parts: parts} },
				func(h mpirun.Host) int { return h.Slots })
			if got != want {
				t.Errorf("%s: %+v with %d: %q, want %q", mpi, tc.per, tc.np, got, want)
			}
		}
	}
}

// A host without a number has as many slots as cores, or hardware threads where those count: seen with both versions.
func TestSlotsThatAreNotSaidAreProcessors(t *testing.T) {
	facts := func(mpirun.Host) mpirun.Facts {
		return mpirun.Facts{Cores: 4, Parts: map[string]int{"core": 2, "hwthread": 4}}
	}
	for _, tc := range []struct {
		np      int
		threads bool
		refused bool
	}{{4, false, false}, {5, false, true}, {8, true, false}, {9, true, true}} {
		run := mpirun.Run{NP: tc.np, Strict: true, Hosts: []mpirun.Host{{Name: "hosta"}, {Name: "hostb"}},
			Per: &mpirun.Per{Of: "slot", CPUs: 1, Threads: tc.threads, Option: "X"}}
		for _, mpi := range []string{"openmpi4", "openmpi5"} {
			why := Crowded(run, mpi, facts, func(mpirun.Host) int { return 4 })
			if (why != "") != tc.refused {
				t.Errorf("%s: %+v: %q", mpi, tc, why)
			}
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
		in.Answers[i].Facts.Parts = map[string]int{"package": 1}
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
