package rendezvous

import (
	"context"
	"fmt"
)

// Posted returns what some ranks have posted to a round of the joined world, in their
// order; nil for a rank that has not posted or has left. Once the round has a result, all
// have posted. Its cost grows with the ranks, not with the nodes.
func (s *Session) Posted(ctx context.Context, name string, ranks []int) ([][]byte, error) {
	ep := s.joined()
	out := make([][]byte, len(ranks))
	for i, rank := range ranks {
		r, err := s.cli.Get(timeout(ctx), s.k.Post(ep.N, name, rank))
		if err != nil {
			return nil, fmt.Errorf("read what rank %d has posted: %w", rank, reason(ctx, err))
		}
		for _, kv := range r.Kvs {
			out[i] = kv.Value
		}
	}
	return out, nil
}
