package rendezvous

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// Other programs keep keys of their own in an external etcd.

// Foreign returns the values of another program's keys below a prefix, by key.
func Foreign(ctx context.Context, cli *clientv3.Client, prefix string) (map[string]string, error) {
	r, err := cli.Get(timeout(ctx), prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the keys below %q: %w", prefix, reason(ctx, err))
	}
	out := map[string]string{}
	for _, kv := range r.Kvs {
		out[string(kv.Key)] = string(kv.Value)
	}
	return out, nil
}

// AwaitForeign calls enough for each key of another program below a prefix, and for each value that is written there
// from then on, even if it is removed at once. It returns once enough reports true.
func AwaitForeign(ctx context.Context, cli *clientv3.Client, prefix string, enough func(key, value string) bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, err := cli.Get(timeout(ctx), prefix, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read the keys below %q: %w", prefix, reason(ctx, err))
	}
	for _, kv := range r.Kvs {
		if enough(string(kv.Key), string(kv.Value)) {
			return nil
		}
	}
	for w := range cli.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1),
		clientv3.WithFilterDelete()) {
		if err := w.Err(); err != nil {
			return fmt.Errorf("watch the keys below %q: %w", prefix, reason(ctx, err))
		}
		for _, e := range w.Events {
			if enough(string(e.Kv.Key), string(e.Kv.Value)) {
				return nil
			}
		}
	}
	return context.Cause(ctx)
}

// Ours reports whether launch has keys below a prefix, or may have.
func Ours(prefix string) bool {
	return strings.HasPrefix(protocol.Root, prefix) || strings.HasPrefix(prefix, protocol.Root)
}

// Purge removes all keys below a prefix, and returns how many there were.
func Purge(ctx context.Context, cli *clientv3.Client, prefix string) (int64, error) {
	r, err := cli.Delete(timeout(ctx), prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, fmt.Errorf("remove the keys below %q: %w", prefix, reason(ctx, err))
	}
	return r.Deleted, nil
}
