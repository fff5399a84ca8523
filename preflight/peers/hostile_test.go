package peers

import (
	"encoding/json"
	"net/netip"
	"testing"

	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/calls"
)

// A post names another rank than that of its key: the key is right.
func TestTheRankOfAPostIsThatOfItsKey(t *testing.T) {
	posts := Read([][]byte{[]byte(`{"rank": 1, "name": "a", "version": "1"}`), []byte(`{"rank": -7, "name": "b"}`),
		[]byte(`{"rank": 1e12}`), []byte(`{"rank": 5, "name": "d"}`)})
	for i, p := range posts {
		if p.Rank != i {
			t.Errorf("post %d has rank %d", i, p.Rank)
		}
	}
	if p := posts[2]; p.Name != "node rank 2" || p.Version != "unreadable" {
		t.Errorf("unreadable post: %+v", p)
	}
	d := Decide(posts, nil)
	if !d.Go {
		t.Errorf("unfit: %v", d.Unfit)
	}
}

func TestAComparisonThatPanicsIsASkip(t *testing.T) {
	got := comparison{"same.script", func([]Post) []judged { panic("index out of range") }, false}.of(nil)
	if len(got) != 1 || got[0].Status != finding.Skip || got[0].ID != "same.script" {
		t.Errorf("got %+v", got)
	}
}

// Whatever two nodes post, a third one that is well decides for all.
func FuzzWhatTheNodesPost(f *testing.F) {
	post := func(p Post) []byte {
		b, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	well := Post{Name: "a", ID: "a", NProc: "8", Version: "1", Command: "x", Restarts: "0",
		Calls: []calls.Call{{To: 1, Addr: "10.0.0.2"}, {To: 2, Addr: "10.0.0.3", Cause: "refused"}},
		Names: calls.Found{Host: "a", Known: []int{1}, Unknown: []int{2},
			Strays: []calls.Stray{{To: 1, Addr: netip.MustParseAddr("10.0.0.9")}}},
		Traits: Traits{Machine: "m"}, Constants: map[string]string{"NCCL_DEBUG": "INFO"}}
	f.Add(post(well), post(well))
	f.Add([]byte(`{"rank": -7, "calls": [{"to": -1}, {"to": 1000000000000}]}`), []byte(`{"rank": 5}`))
	f.Add([]byte(`{"local": [{"id": "x", "status": "none"}]}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, b, c []byte) {
		posts := Read([][]byte{post(well), b, c})
		for _, compare := range comparisons(nil) {
			compare.compare(posts)
		}
		d := Decide(posts, nil)
		for _, r := range d.Unfit {
			if r < 0 || r > 2 {
				t.Errorf("rank %d of 3 is unfit", r)
			}
		}
		NewSurvey(posts, d, []preflight.Check{{ID: "peer.reach"}})
		Elsewhere(posts, 0)
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	})
}
