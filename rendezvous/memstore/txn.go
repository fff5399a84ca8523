package memstore

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxTxnOps is the default of etcd's --max-txn-ops.
const maxTxnOps = 128

// branch is the side of a transaction that its compares have chosen. etcd
// decides all of them, nested ones too, before it applies anything.
type branch struct {
	succeeded bool
	ops       []*pb.RequestOp
	nested    map[*pb.RequestOp]branch
}

// path returns the branch that a transaction takes.
func (s *Store) path(r *pb.TxnRequest) branch {
	b := branch{succeeded: true, ops: r.Success, nested: map[*pb.RequestOp]branch{}}
	for _, c := range r.Compare {
		if !s.holds(c) {
			b.succeeded, b.ops = false, r.Failure
			break
		}
	}
	for _, op := range b.ops {
		if t := op.GetRequestTxn(); t != nil {
			b.nested[op] = s.path(t)
		}
	}
	return b
}

// holds returns whether a compare is true of every key in its range; of an absent
// key everything but the value is zero.
func (s *Store) holds(c *pb.Compare) bool {
	kvs := s.find(c.Key, c.RangeEnd)
	if len(kvs) == 0 {
		return c.Target != pb.Compare_VALUE && matches(c, &mvccpb.KeyValue{})
	}
	return !slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return !matches(c, kv) })
}

// matches returns whether a compare is true of a pair.
func matches(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	got := 0
	switch c.Target {
	case pb.Compare_VALUE:
		got = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		got = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		got = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		got = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		got = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return got == 0
	case pb.Compare_NOT_EQUAL:
		return got != 0
	case pb.Compare_GREATER:
		return got > 0
	}
	return got < 0
}

// apply carries out a branch.
func (w *write) apply(b branch) (*pb.TxnResponse, error) {
	out := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: b.succeeded}
	for _, op := range b.ops {
		var r pb.ResponseOp
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			got, err := w.get(op.RequestRange)
			if err != nil {
				return nil, err
			}
			r.Response = &pb.ResponseOp_ResponseRange{ResponseRange: got}
		case *pb.RequestOp_RequestPut:
			r.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.put(op.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			r.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.remove(op.RequestDeleteRange)}
		}
		if n, ok := b.nested[op]; ok {
			got, err := w.apply(n)
			if err != nil {
				return nil, err
			}
			r.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: got}
		}
		out.Responses = append(out.Responses, &r)
	}
	return out, nil
}

// checkPath refuses what etcd refuses before it applies the first operation.
func (s *Store) checkPath(b branch) error {
	for _, op := range b.ops {
		if p := op.GetRequestPut(); p != nil {
			if err := s.checkPut(p); err != nil {
				return err
			}
		}
		if n, ok := b.nested[op]; ok {
			if err := s.checkPath(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

func (s *Store) checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.Lease != 0 && s.leases[r.Lease] == nil:
		return rpctypes.ErrGRPCLeaseNotFound
	}
	return nil
}

func checkTxn(r *pb.TxnRequest, most int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if err := checkOp(op, most-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, most int) error {
	empty := false
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		empty = len(op.RequestRange.Key) == 0
	case *pb.RequestOp_RequestPut:
		empty = len(op.RequestPut.Key) == 0
	case *pb.RequestOp_RequestDeleteRange:
		empty = len(op.RequestDeleteRange.Key) == 0
	case *pb.RequestOp_RequestTxn:
		return checkTxn(op.RequestTxn, most)
	}
	if empty {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// overlaps refuses operations of which one undoes another: a key put twice, or
// put and deleted (etcd server/v3, api/v3rpc/key.go: checkIntervals). It
// returns what is put and deleted, for the transaction around.
func overlaps(ops []*pb.RequestOp) (puts map[string]bool, dels []*pb.DeleteRangeRequest, err error) {
	puts = map[string]bool{}
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			dels = append(dels, d)
		}
	}
	add := func(key string, alsoBy map[string]bool) error {
		if puts[key] && !alsoBy[key] {
			return rpctypes.ErrGRPCDuplicateKey
		}
		for _, d := range dels {
			if inside(key, d.Key, d.RangeEnd) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
		puts[key] = true
		return nil
	}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		var side [2]map[string]bool
		var gone []*pb.DeleteRangeRequest
		for i, ops := range [][]*pb.RequestOp{t.Success, t.Failure} {
			var d []*pb.DeleteRangeRequest
			if side[i], d, err = overlaps(ops); err != nil {
				return nil, nil, err
			}
			gone = append(gone, d...)
		}
		for i := range side {
			for key := range side[i] {
				var other map[string]bool
				if i == 1 { // only one of the two branches is taken
					other = side[0]
				}
				if err := add(key, other); err != nil {
					return nil, nil, err
				}
			}
		}
		dels = append(dels, gone...)
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if err := add(string(p.Key), nil); err != nil {
				return nil, nil, err
			}
		}
	}
	return puts, dels, nil
}
