package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// naive starts nodes as a prototype would, by etcd's client unchanged: a session,
// a key, and node 0 writes the whole roster into one key, which all read. No node
// looks whose store it is, holds what was written against what was sealed, or can be
// lost. It is the least that a node does, and what the aims were measured by.
type naive struct {
	Store
	prefix string
}

func (p naive) connect(context.Context) (*clientv3.Client, error) {
	silenceGRPC()
	return clientv3.New(clientv3.Config{Endpoints: p.Endpoints, DialTimeout: time.Minute, Logger: zap.NewNop()})
}

func (p naive) join(ctx context.Context, cli *clientv3.Client, i int) (end func(), err error) {
	s, err := concurrency.NewSession(cli, concurrency.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	key := fmt.Sprint(p.prefix, "/node/", i)
	if _, err := cli.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, fmt.Sprint("host", i, " 10.0.0.1"), clientv3.WithLease(s.Lease()))).Commit(); err != nil {
		return s.Orphan, err
	}
	if i == 0 {
		if err := p.lead(ctx, cli); err != nil {
			return s.Orphan, err
		}
	}
	for r := range cli.Watch(ctx, p.prefix+"/roster", clientv3.WithRev(1)) {
		if len(r.Events) > 0 {
			var roster []string
			err := json.Unmarshal(r.Events[0].Kv.Value, &roster)
			if len(roster) != p.Nodes {
				err = errors.Join(err, fmt.Errorf("a roster of %d, want %d", len(roster), p.Nodes))
			}
			return s.Orphan, err
		}
	}
	return s.Orphan, ctx.Err()
}

// lead writes the roster once all are there.
func (p naive) lead(ctx context.Context, cli *clientv3.Client) error {
	var roster []string
	for r := range cli.Watch(ctx, p.prefix+"/node/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range r.Events {
			roster = append(roster, string(e.Kv.Value))
		}
		if len(roster) == p.Nodes {
			break
		}
	}
	text, err := json.Marshal(roster)
	if err != nil {
		return err
	}
	_, err = cli.Put(ctx, p.prefix+"/roster", string(text))
	return err
}
