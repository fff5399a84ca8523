package scene

import "testing"

func TestWhatIsEarlierThanLaunch(t *testing.T) {
	// pid: parent, started
	of := map[int][2]int{1: {0, 0}, 5: {1, 10}, 6: {1, 20}, 20: {5, 100}, 21: {20, 110}, 19: {5, 90}, 18: {19, 95},
		30: {1, 50}, 31: {1, 150}, 40: {6, 60}}
	tab := &table{procs: map[int]*seen{}}
	for pid, p := range of {
		tab.procs[pid] = &seen{pid: pid, stat: stat{parent: p[0], started: int64(p[1])}}
	}
	for pid, want := range map[int]bool{
		20: false, // launch
		21: false, // its rank
		19: false, // another task of this node
		18: false, // and its rank
		30: true,  // an orphan
		31: false, // an orphan of this run
		40: true,  // of another shell
	} {
		if got := tab.earlier(tab.procs[pid], 20); got != want {
			t.Errorf("%d: earlier %v", pid, got)
		}
	}
	if tab.earlier(tab.procs[30], 31) != true || tab.earlier(tab.procs[30], 0) {
		t.Error("where process 1 is launch's parent, an orphan is earlier; without a launch nothing is")
	}
}
