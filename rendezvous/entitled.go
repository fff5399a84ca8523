package rendezvous

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"launch/rendezvous/protocol"
)

// entitled refuses a write in the form of a node's where the conditions do not say that it is the
// writer's to make, and the store knows that it is not. Nodes that share a secret trust each other.
func (g *gate) entitled(ctx context.Context, k keys, conds []protocol.Cond, op protocol.Op) (err error) {
	ok := true
	switch {
	case g.known:
	case op.Key == k.Leader && op.Do == protocol.Put && !k.Free(conds):
		ok, err = g.mayTake(ctx, k, protocol.Version(conds, op.Key))
	case op.Key == k.Leader && op.Do == protocol.Delete && !k.Leads(conds):
		ok, err = g.mayDepose(ctx, k, protocol.Version(conds, op.Key))
	case strings.HasPrefix(op.Key, k.Worlds) && op.Do == protocol.Put && !k.Leads(conds):
		ok, err = g.mayMark(ctx, k, op.Key, op.Value.(Place))
	case op.Do == protocol.Put && k.Closes(op): // by the store's host
		ok = !writer(ctx).IsValid()
	}
	if err == nil && !ok {
		err = refusal("a write of %q for another node", op.Key)
	}
	return err
}

// mayTake returns whether the writer has the lead that it binds to another of its leases.
func (g *gate) mayTake(ctx context.Context, k keys, version int64) (bool, error) {
	leader, passed, err := g.version(ctx, k.Leader, version)
	return passed || leader != nil && g.owns(writer(ctx), leader.Lease), err
}

// mayDepose returns whether the writer has the leader's own key, so that it has replaced the leader.
func (g *gate) mayDepose(ctx context.Context, k keys, version int64) (bool, error) {
	leader, passed, err := g.version(ctx, k.Leader, version)
	if leader == nil || passed {
		return passed, err
	}
	m, ok := decoded[Member](leader.Value)
	if !ok {
		return false, nil
	}
	holder, _, err := g.get(ctx, k.Member(m))
	return holder != nil && g.owns(writer(ctx), holder.Lease), err
}

// mayMark returns whether a place is the writer's: the member of that place is, or is gone, or the place
// has the writer's address. A place that was removed is not made again, and needs no answer.
func (g *gate) mayMark(ctx context.Context, k keys, key string, mark Place) (bool, error) {
	was, _, err := g.get(ctx, key)
	if err != nil {
		return false, err
	}
	from := writer(ctx)
	if was != nil {
		place, ok := decoded[Place](was.Value)
		if !ok || place.ID != mark.ID || place.Rank != mark.Rank {
			return false, nil
		}
		if from.IsValid() && (place.Addr.Unmap() == from || slices.Contains(place.Addrs, from)) {
			return true, nil
		}
	}
	slot := key[strings.LastIndexByte(key, '/')+1:]
	member, _, err := g.get(ctx, k.Members+slot)
	return err == nil && (member == nil || g.owns(from, member.Lease)), err
}

// version returns a key if it has this version. passed: it never has it again.
func (g *gate) version(ctx context.Context, key string, version int64) (kv *mvccpb.KeyValue, passed bool, err error) {
	kv, now, err := g.get(ctx, key)
	if err != nil || kv != nil && kv.ModRevision == version {
		return kv, false, err
	}
	return nil, version <= now, nil
}

// get returns a key, nil where there is none, and the revision of the store.
func (g *gate) get(ctx context.Context, key string) (kv *mvccpb.KeyValue, now int64, err error) {
	r, err := g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key), Serializable: true})
	if err != nil || len(r.Kvs) == 0 {
		return nil, r.GetHeader().GetRevision(), err
	}
	return r.Kvs[0], r.GetHeader().GetRevision(), nil
}
