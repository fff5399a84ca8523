package bandwidth

import (
	"encoding/json"
	"testing"

	"launch/preflight/bench"
)

// Whatever two nodes post, a third one that is well judges for all.
func FuzzWhatTheNodesMeasured(f *testing.F) {
	post := func(r Rates) []byte {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	port := bench.Port{Name: "eth0", Netdev: "eth0", Rate: 100, Floor: 1e9, Kinds: []string{"tcp"}}
	sample := bench.Sample{Round: 0, From: 0, To: 1, FromPort: "eth0", ToPort: "eth0", Kind: "tcp",
		Result: bench.Result{Out: bench.Flow{Speed: 1e9}, Back: bench.Flow{Speed: 1e9}}}
	well := Rates{Name: "a", Ports: []bench.Port{port}, Samples: []bench.Sample{sample}}
	f.Add(post(Rates{Name: "b", Ports: []bench.Port{port}}), post(Rates{Name: "c", Ports: []bench.Port{port},
		Samples: []bench.Sample{{From: 2, To: 0, FromPort: "eth0", ToPort: "eth0", Kind: "tcp"}}}))
	f.Add([]byte(`{"rank": -7, "samples": [{"from": -1, "to": 7}]}`), []byte(`{"rank": 5, "ports": [{}]}`))
	f.Add([]byte(`{"ports": [{"name": "eth0", "rate": 100}], "samples": [{"from": 1, "to": 0, "from_port": "eth0",
		"to_port": "eth0", "kind": "tcp", "out": {"speed": 1e308}, "back": {"speed": 5e-324}}]}`), []byte(`{}`))
	f.Add([]byte(`{"ports": [{"name": "eth0", "rate": -1, "floor": 1e308}]}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, b, c []byte) {
		posts := Read([][]byte{post(well), b, c})
		for i, p := range posts {
			if p.Rank != i {
				t.Fatalf("post %d has rank %d", i, p.Rank)
			}
		}
		v := Compare(posts, nil)
		if _, err := json.Marshal(v); err != nil {
			t.Error(err)
		}
		for _, r := range v.Named {
			if r < 0 || r > 2 {
				t.Errorf("rank %d of 3 is named", r)
			}
		}
		for _, m := range v.Again {
			if min(m.A, m.B) < 0 || max(m.A, m.B) > 2 {
				t.Errorf("ranks %d and %d of 3 measure again", m.A, m.B)
			}
		}
	})
}
