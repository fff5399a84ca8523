package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Members are the nodes that are registered now, by index and arrival.
func Members(ctx context.Context, cli *clientv3.Client, job string) ([]Member, error) {
	k := keysOf(job)
	r, err := cli.Get(timeout(ctx), k.Members(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", reason(ctx, err))
	}
	out := []Member{}
	for _, kv := range r.Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil && m.Left == "" {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Member) int { return a.Index - b.Index })
	return out, nil
}

// Current is the epoch of a job, and whether it has one.
func Current(ctx context.Context, cli *clientv3.Client, job string) (Epoch, bool, error) {
	r, err := cli.Get(timeout(ctx), keysOf(job).Epoch())
	if err != nil {
		return Epoch{}, false, fmt.Errorf("read the epoch: %w", reason(ctx, err))
	}
	if len(r.Kvs) == 0 {
		return Epoch{}, false, nil
	}
	var ep Epoch
	return ep, true, json.Unmarshal(r.Kvs[0].Value, &ep)
}

// Ready are the ranks that have said all that is asked of them before the go.
func Ready(ctx context.Context, cli *clientv3.Client, job string, epoch int, round string) (map[int]bool, error) {
	k := keysOf(job)
	r, err := cli.Get(timeout(ctx), k.Round(epoch, round), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read who is ready: %w", reason(ctx, err))
	}
	ready := map[int]bool{}
	for _, kv := range r.Kvs {
		if _, rank, ok := k.Posted(string(kv.Key)); ok {
			ready[rank] = true
		}
	}
	return ready, nil
}

// Jobs are the ids of the jobs that have state in the store.
func Jobs(ctx context.Context, cli *clientv3.Client) ([]string, error) {
	r, err := cli.Get(timeout(ctx), "/launch/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", reason(ctx, err))
	}
	ids := map[string]bool{}
	for _, kv := range r.Kvs {
		if id, _, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), "/launch/"), "/"); ok {
			ids[strings.NewReplacer("%2F", "/", "%25", "%").Replace(id)] = true
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// Changes tells that something in the jobs of a store has changed, at most once
// every pause. It is closed when ctx ends or the store is gone.
func Changes(ctx context.Context, cli *clientv3.Client, every time.Duration) <-chan struct{} {
	out := make(chan struct{})
	w := cli.Watch(clientv3.WithRequireLeader(ctx), "/launch/", clientv3.WithPrefix())
	go func() {
		defer close(out)
		for {
			select {
			case r, ok := <-w:
				if watched(r, ok) != nil {
					return
				}
			case <-ctx.Done():
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

// Clean removes what is left of a job where no node is registered any more, and
// returns how many are.
func Clean(ctx context.Context, cli *clientv3.Client, job string) (here int, err error) {
	k := keysOf(job)
	r, err := cli.Get(timeout(ctx), k.Members(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("count the members: %w", reason(ctx, err))
	}
	if r.Count > 0 {
		return int(r.Count), nil
	}
	t, err := cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.ModRevision(k.Members()).WithPrefix(), "<",
		r.Header.Revision+1)).
		Then(clientv3.OpDelete(k.Root, clientv3.WithPrefix())).Commit()
	if err != nil {
		return 0, fmt.Errorf("remove the job: %w", reason(ctx, err))
	}
	if !t.Succeeded { // somebody has just come
		return 1, nil
	}
	return 0, nil
}
