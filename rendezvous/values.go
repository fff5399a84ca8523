package rendezvous

import (
	"encoding/json"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// encode returns a value as the store has it.
func encode(v any) string {
	if raw, ok := v.([]byte); ok {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("rendezvous: " + err.Error()) // own types: cannot fail
	}
	return string(b)
}

// as decodes a value; nil: it is not readable.
func as[T any](raw []byte) any {
	if v, ok := decoded[T](raw); ok {
		return v
	}
	return nil
}

// decoded decodes a value of the store, with printable texts. It is readable if a node can have written it.
func decoded[T any](raw []byte) (v T, ok bool) {
	if json.Unmarshal(raw, &v) != nil {
		return v, false
	}
	if c, texts := any(&v).(interface{ Clean() }); texts {
		c.Clean()
	}
	s, judges := any(v).(interface{ Sound() bool })
	return v, !judges || s.Sound()
}

// decode returns a key of the session's job as the protocol has it.
func (s *Session) decode(kv *mvccpb.KeyValue) protocol.KV { return decode(s.k, kv) }

func decode(k keys, kv *mvccpb.KeyValue) protocol.KV {
	out := protocol.KV{Key: string(kv.Key), Create: kv.CreateRevision, Mod: kv.ModRevision}
	switch key := out.Key; {
	case strings.HasPrefix(key, k.Members), key == k.Leader, key == k.Conflict:
		out.Value = as[Member](kv.Value)
	case strings.HasPrefix(key, k.Worlds):
		out.Value = as[Place](kv.Value)
	case key == k.Epoch:
		out.Value = as[Epoch](kv.Value)
	case key == k.Progress:
		out.Value = as[protocol.Report](kv.Value)
	case key == k.Late:
		out.Value = as[protocol.Lateness](kv.Value)
	case strings.HasPrefix(key, k.Notes):
		out.Value = as[Note](kv.Value)
	default:
		out.Value = kv.Value
	}
	return out
}

// changes returns the events of a watch as the protocol has them.
func (s *Session) changes(evs []*clientv3.Event) []protocol.KV {
	out := make([]protocol.KV, 0, len(evs))
	for _, e := range evs {
		if e.Type == clientv3.EventTypeDelete {
			out = append(out, protocol.KV{Key: string(e.Kv.Key), Mod: e.Kv.ModRevision, Gone: true})
		} else {
			out = append(out, s.decode(e.Kv))
		}
	}
	return out
}

// jobChanges returns the events of all keys of the job, without those of the control
// keys, which have a watch of their own, and without the places that this leader wrote.
func (s *Session) jobChanges(evs []*clientv3.Event) []protocol.KV {
	s.mu.Lock()
	var others []*clientv3.Event
	for _, e := range evs {
		key := string(e.Kv.Key)
		own := strings.HasPrefix(key, s.k.Worlds) && e.Type == clientv3.EventTypePut && s.node.Wrote(e.Kv.ModRevision)
		if !own && !strings.HasPrefix(key, s.k.Control) {
			others = append(others, e)
		}
	}
	s.mu.Unlock()
	return s.changes(others)
}

// compares returns conditions as etcd has them.
func compares(conds []protocol.Cond) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(conds))
	for i, c := range conds {
		var cmp clientv3.Cmp
		switch c.Of {
		case protocol.Create:
			cmp = clientv3.Compare(clientv3.CreateRevision(c.Key), string(c.Is), c.Rev)
		case protocol.Mod:
			cmp = clientv3.Compare(clientv3.ModRevision(c.Key), string(c.Is), c.Rev)
		case protocol.Lease:
			cmp = clientv3.Compare(clientv3.LeaseValue(c.Key), string(c.Is), clientv3.LeaseID(c.Rev))
		}
		if c.Prefix {
			cmp = cmp.WithPrefix()
		}
		out[i] = cmp
	}
	return out
}

// operations returns operations as etcd has them.
func operations(ops []protocol.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, o := range ops {
		var opts []clientv3.OpOption
		if o.Prefix {
			opts = append(opts, clientv3.WithPrefix())
		}
		switch o.Do {
		case protocol.Get:
			if o.Limit > 0 {
				opts = append(opts, clientv3.WithLimit(int64(o.Limit)))
			}
			if o.Oldest {
				opts = append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
			}
			out[i] = clientv3.OpGet(o.Key, opts...)
		case protocol.Put:
			if o.Lease != 0 {
				opts = append(opts, clientv3.WithLease(clientv3.LeaseID(o.Lease)))
			}
			out[i] = clientv3.OpPut(o.Key, encode(o.Value), opts...)
		case protocol.Delete:
			out[i] = clientv3.OpDelete(o.Key, opts...)
		case protocol.Nest:
			out[i] = clientv3.OpTxn(compares(o.If), operations(o.Then), nil)
		}
	}
	return out
}

// read adds to an answer what a transaction has read.
func (s *Session) read(e *event, responses []*etcdserverpb.ResponseOp) {
	for _, r := range responses {
		if t := r.GetResponseTxn(); t != nil {
			e.Took = t.Succeeded
		}
		for _, kv := range r.GetResponseRange().GetKvs() {
			e.KVs = append(e.KVs, s.decode(kv))
		}
	}
}
