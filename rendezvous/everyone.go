package rendezvous

import (
	"context"
	"fmt"
	"launch/rendezvous/protocol"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is how many places one request reads: 60 KB.
const page = 120

// Everyone returns all nodes of the joined world, this one included, in rank order.
// It costs O(N) for each node that asks, hence O(N^2) where all do: it serves requests
// of people only. A world that no longer exists is a *BrokenError.
func (s *Session) Everyone(ctx context.Context) ([]Partner, error) {
	ep := s.joined()
	places, err := Places(ctx, s.cli, s.cfg.Job, ep.Nonce)
	if err != nil {
		return nil, err
	}
	if len(places) < ep.Size {
		return nil, &BrokenError{Why: fmt.Sprintf("%d of its %d places remain", len(places), ep.Size)}
	}
	out := make([]Partner, len(places))
	for i, p := range places {
		out[i] = p.Partner()
	}
	return out, nil
}

// Places returns the places of a sealed world, in rank order, without the partners
// of each.
func Places(ctx context.Context, cli *clientv3.Client, job, nonce string) ([]Place, error) {
	prefix := protocol.KeysOf(job).World(nonce)
	var out []Place
	for from, more := prefix, true; more; {
		r, err := cli.Get(timeout(ctx), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithLimit(page))
		if err != nil {
			return nil, fmt.Errorf("read the places: %w", reason(ctx, err))
		}
		for _, p := range values[Place](r.Kvs) {
			p.Partners = nil
			out = append(out, p)
		}
		if more = r.More; more {
			from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return a.Rank - b.Rank })
	return out, nil
}
