package diagnose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
)

func TestStart(t *testing.T) {
	here := func(rank int, name, phase string) Node { return Node{Rank: rank, Name: name, Here: true, Phase: phase} }
	for _, tc := range []struct {
		name string
		e    Evidence
		want map[string]finding.Status
		says string
	}{
		{"an index has not joined",
			Evidence{State: "open", Want: 3, Nodes: []Node{here(-1, "a", "arrived"), here(-1, "b", "arrived")},
				Missing: []int{2}},
			map[string]finding.Status{"start.missing": finding.Warn}, "2 of 3 nodes joined, 1 missing: node 2"},
		{"fewer than enough", Evidence{State: "open", Want: 4, Min: 2, Nodes: []Node{here(-1, "a", "arrived")},
			Missing: []int{1, 2, 3}},
			map[string]finding.Status{"start.missing": finding.Warn}, "1 of at least 2 nodes joined, 1 missing"},
		{"enough", Evidence{State: "open", Want: 4, Min: 2, Nodes: []Node{here(-1, "a", "arrived"), here(-1, "b",
			"arrived")}},
			map[string]finding.Status{"start.enough": finding.Pass},
			"2 of up to 4 nodes joined, enough to start after the last call"},
		{"all have joined", Evidence{State: "",
			Want: 2, Nodes: []Node{here(-1, "a", "arrived"), here(-1, "b", "arrived")}},
			map[string]finding.Status{"start.decide": finding.Warn},
			"all 2 nodes joined, the ranks are not agreed on yet"},
		{"a standby node", Evidence{State: "started",
			Want: 1, Nodes: []Node{here(0, "a", "started"), {Rank: -1, Name: "c", Here: true, Phase: "arrived",
				Spare: true}}},
			map[string]finding.Status{"start.running": finding.Pass, "start.spare": finding.Pass},
			"all 1 nodes have started"},
		{"a missing node is not fit", Evidence{State: "open", Want: 2, Nodes: []Node{here(-1, "a", "arrived")},
			Missing: []int{1}, Unfit: "node 1 b is not fit: gpu.count: 7"},
			map[string]finding.Status{"start.unfit": finding.Warn, "start.missing": finding.Warn},
			"node 1 b is not fit: gpu.count: 7"},
		{"no node", Evidence{}, map[string]finding.Status{"start.missing": finding.Warn}, "no node has joined yet"},
		{"all run", Evidence{State: "started",
			Want: 2, Nodes: []Node{here(0, "a", "started"), here(1, "b", "started")}},
			map[string]finding.Status{"start.running": finding.Pass}, "all 2 nodes have started"},
		{"one is gone", Evidence{State: "started",
			Want: 2, Nodes: []Node{here(0, "a", "started"), {Rank: 1, Name: "b"}}},
			map[string]finding.Status{"start.gone": finding.Warn}, "ended: node rank 1 b"},
		{"one is lost", Evidence{State: "started",
			Want: 2, Nodes: []Node{here(0, "a", "started"), {Rank: 1, Name: "b", Lost: true}}},
			map[string]finding.Status{"start.lost": finding.Warn},
			"lost: node rank 1 b: launch there no longer reports to the store"},
		{"one is silent", Evidence{State: "started",
			Want: 2, Nodes: []Node{here(0, "a", "started"), here(1, "b", "arrived")}},
			map[string]finding.Status{"start.silent": finding.Warn}, "may start, but has not reported it: node rank 1 b"},
		{"one waits for the others to end",
			Evidence{State: "started", Want: 2, Nodes: []Node{here(0, "a", "ended"), here(1, "b", "started")}},
			map[string]finding.Status{"start.running": finding.Pass}, "all 2 nodes have started"},
		{"over without an error",
			Evidence{State: "over", Want: 2, Nodes: []Node{{Rank: 0, Name: "a"}, here(1, "b", "ended")}},
			map[string]finding.Status{"start.ended": finding.Pass},
			"the commands of all 2 nodes have ended without an error; still ending: node rank 1 b"},
		{"over with an error", Evidence{State: "over", Want: 2, Why: "rank 1, b, is gone",
			Restarts: 3, Nodes: []Node{{Rank: 0, Name: "a"}, {Rank: 1, Name: "b"}, here(-1, "c", "arrived")}},
			map[string]finding.Status{"start.failed": finding.Fail, "start.surplus": finding.Warn},
			"the job has failed: rank 1, b, is gone; no restarts left (--restarts 3)"},
		{"all ended, one with 3",
			Evidence{State: "started", Want: 2, Nodes: []Node{{Rank: 0, Name: "a with 0"}, {Rank: 1, Name: "b with 3",
				Bad: true}}},
			map[string]finding.Status{"start.ended": finding.Warn},
			"all 2 nodes have ended, some with an error: node rank 1 b with 3"},
		{"all ended", Evidence{State: "started", Want: 1, Nodes: []Node{{Rank: 0, Name: "a"}}},
			map[string]finding.Status{"start.ended": finding.Pass}, "all 1 nodes have ended"},
		{"one too many", Evidence{State: "started",
			Want: 1, Nodes: []Node{here(0, "a", "started"), here(-1, "c", "arrived")}},
			map[string]finding.Status{"start.running": finding.Pass, "start.surplus": finding.Warn},
			"all 1 nodes have started"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Start(tc.e)
			got := map[string]finding.Status{}
			for _, f := range r {
				got[f.ID] = f.Status
				if f.Status != finding.Pass && f.Fix == "" {
					t.Errorf("%s has no advice", f.ID)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r[0].What != tc.says {
				t.Errorf("the finding is %q, want %q", r[0].What, tc.says)
			}
		})
	}
}

// TestAnUnfitNodeIsNotStartedAgainAsItIs: the advice of a node that is missing; where none is unfit, to start it.
func TestAnUnfitNodeIsNotStartedAgainAsItIs(t *testing.T) {
	for unfit, want := range map[string]string{"": "start launch there", "b is not fit": "fix the unfit node"} {
		r := Start(Evidence{State: "open", Want: 2, Nodes: []Node{{Rank: -1, Name: "a", Here: true}}, Unfit: unfit})
		if do := r[len(r)-1].Fix; !strings.HasPrefix(do, want) {
			t.Errorf("%q: %q", unfit, do)
		}
	}
}
