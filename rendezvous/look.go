package rendezvous

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// page is how many places one request reads: 60 KB.
const page = 120

// Members returns the nodes that are registered now, by index and arrival.
func Members(ctx context.Context, cli *clientv3.Client, job string) ([]Member, error) {
	all, err := read[Member](ctx, cli, "read the members", protocol.KeysOf(job).Members, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(all, func(m Member) bool { return m.Left != "" })
	slices.SortStableFunc(out, func(a, b Member) int { return a.Index - b.Index })
	return out, nil
}

// read returns the readable values of some keys; what names the request in an error.
func read[T any](
	ctx context.Context, cli *clientv3.Client, what, key string, opts ...clientv3.OpOption,
) ([]T, error) {
	r, err := cli.Get(timeout(ctx), key, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, reason(ctx, err))
	}
	return values[T](r.Kvs), nil
}

// values returns the readable ones of some values.
func values[T any](kvs []*mvccpb.KeyValue) []T {
	out := []T{}
	for _, kv := range kvs {
		if v, ok := decoded[T](kv.Value); ok {
			out = append(out, v)
		}
	}
	return out
}

// Current returns the epoch of a job, and whether it has one.
func Current(ctx context.Context, cli *clientv3.Client, job string) (Epoch, bool, error) {
	r, err := cli.Get(timeout(ctx), protocol.KeysOf(job).Epoch)
	if err != nil {
		return Epoch{}, false, fmt.Errorf("read the epoch: %w", reason(ctx, err))
	}
	if len(r.Kvs) == 0 {
		return Epoch{}, false, nil
	}
	ep, ok := decoded[Epoch](r.Kvs[0].Value)
	if !ok {
		return Epoch{}, false, fmt.Errorf("read the epoch: not of launch, or of another version: %q", r.Kvs[0].Value)
	}
	return ep, true, nil
}

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
		out[i] = p.Partner
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

// Ready returns the ranks that have posted to a round.
func Ready(ctx context.Context, cli *clientv3.Client, job string, epoch int, round string) (map[int]bool, error) {
	k := protocol.KeysOf(job)
	r, err := cli.Get(timeout(ctx), k.Round(epoch, round), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read which nodes are ready: %w", reason(ctx, err))
	}
	ready := map[int]bool{}
	for _, kv := range r.Kvs {
		if _, rank, ok := k.Posted(string(kv.Key)); ok {
			ready[rank] = true
		}
	}
	return ready, nil
}

// Jobs returns the ids of the jobs that have state in the store.
func Jobs(ctx context.Context, cli *clientv3.Client) ([]string, error) {
	r, err := cli.Get(timeout(ctx), protocol.Root, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", reason(ctx, err))
	}
	ids := map[string]bool{}
	for _, kv := range r.Kvs {
		if id, _, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), protocol.Root), "/"); ok {
			ids[strings.NewReplacer("%2F", "/", "%25", "%").Replace(id)] = true
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// Changes returns a channel that reports changes in the jobs of a store, at most one
// in each pause. It is closed when ctx ends or the store is lost.
func Changes(ctx context.Context, cli *clientv3.Client, every time.Duration) <-chan struct{} {
	out := make(chan struct{})
	w := cli.Watch(clientv3.WithRequireLeader(ctx), protocol.Root, clientv3.WithPrefix())
	go func() {
		defer close(out)
		for r := range w { // closed when ctx ends
			if watched(r, true) != nil {
				return
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Clean removes the state of a job that has no registered node, and returns how many
// it has.
func Clean(ctx context.Context, cli *clientv3.Client, job string) (here int, err error) {
	k := protocol.KeysOf(job)
	r, err := cli.Get(timeout(ctx), k.Members, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("count the members: %w", reason(ctx, err))
	}
	if r.Count > 0 {
		return int(r.Count), nil
	}
	t, err := cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.CreateRevision(k.Members).WithPrefix(), "=", 0)).
		Then(clientv3.OpDelete(k.Root, clientv3.WithPrefix())).Commit()
	if err != nil {
		return 0, fmt.Errorf("remove the job: %w", reason(ctx, err))
	}
	if !t.Succeeded { // a node has just joined
		return 1, nil
	}
	return 0, nil
}
