package rendezvous

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// Other programs keep keys of their own in an external etcd.

// Foreign returns the value of another program's key; "": there is none.
func Foreign(ctx context.Context, cli *clientv3.Client, key string) (string, error) {
	r, err := cli.Get(timeout(ctx), key)
	if err != nil {
		return "", fmt.Errorf("read %q: %w", key, reason(ctx, err))
	}
	if len(r.Kvs) == 0 {
		return "", nil
	}
	return string(r.Kvs[0].Value), nil
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
