package bandwidth

import (
	"encoding/json"
	"fmt"

	"launch/internal/sidechannel"
	"launch/preflight/bench"
)

// Read returns what the nodes have posted, in rank order. The store, and not the node, says whose post it
// is. Of one that is unreadable, or that no node can have measured, only the rank is known.
func Read(raw [][]byte) []Rates {
	posts := make([]Rates, len(raw))
	for rank, b := range raw {
		if json.Unmarshal(b, &posts[rank]) != nil || !posts[rank].sound() {
			posts[rank] = Rates{Name: fmt.Sprintf("node rank %d", rank)}
		}
		posts[rank].Rank = rank
		for i, s := range posts[rank].Samples {
			if s.Cause == "" && s.Out.Speed == 0 && s.Back.Speed == 0 {
				s.Cause, s.Err = string(sidechannel.Silent), "nothing arrived"
				posts[rank].Samples[i] = s
			}
		}
	}
	return posts
}

// sound returns whether a node can have measured all rates.
func (r Rates) sound() bool {
	var all []float64
	for _, p := range r.Ports {
		all = append(all, p.Rate, p.Floor)
	}
	for _, w := range r.Was {
		all = append(all, w.Out, w.In)
	}
	for _, s := range r.Samples {
		for _, f := range []bench.Flow{s.Out, s.Back} {
			all = append(all, f.Speed, f.Deliver, f.Carried)
		}
		if s.GPU != nil {
			all = append(all, s.GPU.Out, s.GPU.Back)
		}
	}
	for _, v := range all {
		if v != 0 && (v < slowest || v > fastest) {
			return false
		}
	}
	return true
}

// The bounds of a rate that is believed, in bytes/s and in Gb/s; quotients and sums of such rates are finite.
const (
	slowest = 1e-6
	fastest = 1e18
)
