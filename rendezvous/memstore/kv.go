package memstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// write is one transaction under way: what it has changed so far is already in the store's map.
type write struct {
	s   *Store
	evs change
}

// rev is the revision that the transaction's own reads and writes carry.
func (w *write) rev() int64 {
	if len(w.evs) > 0 {
		return w.s.rev + 1
	}
	return w.s.rev
}

// inside returns whether key is in etcd's range: one key where end is empty, all
// from key on where it is a zero byte.
func inside(key string, from, end []byte) bool {
	switch {
	case len(end) == 0:
		return key == string(from)
	case len(end) == 1 && end[0] == 0:
		return key >= string(from)
	}
	return key >= string(from) && key < string(end)
}

// find are the pairs of a range, in the order of their keys.
func (s *Store) find(from, end []byte) []*mvccpb.KeyValue {
	if len(end) == 0 {
		if kv := s.kvs[string(from)]; kv != nil {
			return []*mvccpb.KeyValue{kv}
		}
		return nil
	}
	var out []*mvccpb.KeyValue
	for _, key := range slices.Sorted(maps.Keys(s.kvs)) {
		if inside(key, from, end) {
			out = append(out, s.kvs[key])
		}
	}
	return out
}

func (w *write) get(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if r.Revision != 0 || r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 ||
		r.MaxCreateRevision != 0 {
		return nil, status.Error(codes.Unimplemented, "memstore reads the present only, unfiltered")
	}
	kvs := w.s.find(r.Key, r.RangeEnd)
	out := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: w.rev()}, Count: int64(len(kvs))}
	if r.CountOnly {
		return out, nil
	}
	order(kvs, r)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, out.More = kvs[:r.Limit], true
	}
	if r.KeysOnly { // without the leases: since 3.7 etcd answers from its index
		for i, kv := range kvs {
			kvs[i] = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
				Version: kv.Version}
		}
	}
	out.Kvs = kvs
	return out, nil
}

func order(kvs []*mvccpb.KeyValue, r *pb.RangeRequest) {
	less := func(a, b *mvccpb.KeyValue) int {
		switch r.SortTarget {
		case pb.RangeRequest_VERSION:
			return cmp.Compare(a.Version, b.Version)
		case pb.RangeRequest_CREATE:
			return cmp.Compare(a.CreateRevision, b.CreateRevision)
		case pb.RangeRequest_MOD:
			return cmp.Compare(a.ModRevision, b.ModRevision)
		case pb.RangeRequest_VALUE:
			return bytes.Compare(a.Value, b.Value)
		}
		return bytes.Compare(a.Key, b.Key)
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if r.SortOrder == pb.RangeRequest_DESCEND {
			return less(b, a)
		}
		return less(a, b)
	})
}

func (w *write) put(r *pb.PutRequest) *pb.PutResponse {
	s, old := w.s, w.s.kvs[string(r.Key)]
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, Version: 1, CreateRevision: s.rev + 1,
		ModRevision: s.rev + 1}
	if old != nil {
		kv.Version, kv.CreateRevision = old.Version+1, old.CreateRevision
		s.unbind(old)
	}
	if l := s.leases[r.Lease]; l != nil {
		l.keys[string(r.Key)] = true
	}
	s.kvs[string(r.Key)] = kv
	w.evs = append(w.evs, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv, PrevKv: old})
	out := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: w.rev()}}
	if r.PrevKv {
		out.PrevKv = old
	}
	return out
}

func (w *write) remove(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	gone := w.s.find(r.Key, r.RangeEnd)
	for _, kv := range gone {
		w.drop(kv)
	}
	out := &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{Revision: w.rev()}, Deleted: int64(len(gone))}
	if r.PrevKv {
		out.PrevKvs = gone
	}
	return out
}

func (w *write) drop(kv *mvccpb.KeyValue) {
	delete(w.s.kvs, string(kv.Key))
	w.s.unbind(kv)
	w.evs = append(w.evs, &mvccpb.Event{Type: mvccpb.Event_DELETE,
		Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: w.s.rev + 1}, PrevKv: kv})
}

// unbind takes a pair that goes from its lease.
func (s *Store) unbind(kv *mvccpb.KeyValue) {
	if l := s.leases[kv.Lease]; l != nil {
		delete(l.keys, string(kv.Key))
	}
}

// kvServer is etcd's service KV.
type kvServer struct {
	pb.UnimplementedKVServer
	l *Link
}

func (k kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return carry(ctx, k.l, r, func() (*pb.RangeResponse, error) {
		if err := checkRange(r); err != nil {
			return nil, err
		}
		return (&write{s: k.l.s}).get(r)
	})
}

func (k kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	return carry(ctx, k.l, r, func() (*pb.PutResponse, error) {
		if err := k.l.s.checkPut(r); err != nil {
			return nil, err
		}
		w := &write{s: k.l.s}
		out := w.put(r)
		w.s.commit(w.evs)
		return out, nil
	})
}

func (k kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return carry(ctx, k.l, r, func() (*pb.DeleteRangeResponse, error) {
		if len(r.Key) == 0 {
			return nil, rpctypes.ErrGRPCEmptyKey
		}
		w := &write{s: k.l.s}
		out := w.remove(r)
		w.s.commit(w.evs)
		return out, nil
	})
}

func (k kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return carry(ctx, k.l, r, func() (*pb.TxnResponse, error) {
		if err := checkTxn(r, maxTxnOps); err != nil {
			return nil, err
		}
		for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
			if _, _, err := overlaps(ops); err != nil {
				return nil, err
			}
		}
		s := k.l.s
		path := s.path(r)
		if err := s.checkPath(path); err != nil {
			return nil, err
		}
		w := &write{s: s}
		out, err := w.apply(path)
		s.commit(w.evs)
		if err != nil {
			return nil, err
		}
		out.Header = s.header()
		return out, nil
	})
}
