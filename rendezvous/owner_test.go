package rendezvous

import (
	"errors"
	"launch/rendezvous/protocol"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestARegistrationAsksWhoseStoreItIs: a node neither joins in a store that is
// not its job's nor writes there.
func TestARegistrationAsksWhoseStoreItIs(t *testing.T) {
	for _, tc := range []struct{ name, job, owner string }{
		{"its own", "j", "j"},
		{"its own, with a name that JSON escapes", `a "host" <&>/é`, `a "host" <&>/é`},
		{"another's", "j", "other"},
		{"one whose name begins as its own", "j", "j,"},
		{"one whose name is the begin of its own", "j2", "j"},
		{"of no job", "j", ""},
		{"an etcd of others", "j", "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, b *bench) {
				cli := b.store.connect(t)
				t.Cleanup(func() { cli.Close() })
				inside := b.store.inside(t)
				if e, ok := b.store.(*embedded); ok {
					e.srv.gate.job, e.srv.gate.own = tc.owner, protocol.KeysOf(tc.owner)
				}
				if _, err := inside.Delete(t.Context(), storeKey); err != nil {
					t.Fatal(err)
				}
				if tc.owner != "none" {
					if _, err := inside.Put(t.Context(), storeKey, encode(identity{Job: tc.owner, Host: "h", PID: 7})); err != nil {
						t.Fatal(err)
					}
				}
				before, err := cli.Get(t.Context(), storeKey)
				if err != nil {
					t.Fatal(err)
				}
				s := Enter(t.Context(), cli, Config{Job: tc.job, Self: Member{Index: -1, Size: 1, Host: "a"}, TTL: testTTL,
					OwnStore: true})
				_, err = s.Join(t.Context(), 3*time.Second)
				s.Leave("")
				var other *OtherStoreError
				switch {
				case tc.owner == tc.job:
					if err != nil {
						t.Errorf("its own store: %v", err)
					}
					return
				case tc.owner == "none":
					if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "launch did not start") {
						t.Errorf("got %v, want that launch did not start it", err)
					}
				case !errors.As(err, &other) || other.Job != tc.owner || other.Host != "h":
					t.Errorf("got %v, want the store of job %q", err, tc.owner)
				}
				r, err := cli.Get(t.Context(), protocol.KeysOf(tc.job).Root, clientv3.WithPrefix())
				if err != nil || len(r.Kvs) > 0 || r.Header.Revision != before.Header.Revision {
					t.Errorf("%d keys at revision %d after %d (%v), want that nothing was written", len(r.Kvs), r.Header.Revision,
						before.Header.Revision, err)
				}
			})
		})
	}
}
