package memstore_test

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"pgregory.net/rapid"

	"launch/rendezvous/memstore"
)

// side is one of two stores that are asked the same. Revisions and leases are
// relative to what the side had before.
type side struct {
	c      *clientv3.Client
	base   int64
	leases []clientv3.LeaseID
}

func newSide(t *rapid.T, c *clientv3.Client) *side {
	r, err := c.Get(context.Background(), "any")
	if err != nil {
		t.Fatal(err)
	}
	return &side{c: c, base: r.Header.Revision}
}

func (s *side) rev(relative int64) int64 {
	if relative == 0 {
		return 0
	}
	return s.base + relative
}

func (s *side) relative(rev int64) int64 {
	if rev == 0 {
		return 0
	}
	return rev - s.base
}

// lease is the i-th that was granted here, one that never was, or none.
func (s *side) lease(i int) clientv3.LeaseID {
	switch {
	case i < 0:
		return 0
	case i < len(s.leases):
		return s.leases[i]
	}
	return 77
}

// action is one request, spelled for a side.
type action struct {
	name string
	do   func(*side) string
}

// kv, kvs, op and txn write replies of both sides in one form.
func (s *side) kv(kv *mvccpb.KeyValue) string {
	if kv == nil {
		return "-"
	}
	lease := -1
	for i, id := range s.leases {
		if int64(id) == kv.Lease {
			lease = i
		}
	}
	return fmt.Sprintf("{%s=%q create %d mod %d version %d lease %d}", kv.Key, kv.Value, s.relative(kv.CreateRevision),
		s.relative(kv.ModRevision), kv.Version, lease)
}

func (s *side) kvs(kvs []*mvccpb.KeyValue) string {
	var b strings.Builder
	for _, kv := range kvs {
		b.WriteString(s.kv(kv))
	}
	return b.String()
}

func (s *side) op(r *pb.ResponseOp) string {
	switch r := r.Response.(type) {
	case *pb.ResponseOp_ResponseRange:
		x := r.ResponseRange
		return fmt.Sprintf("range@%d n %d more %v %s", s.relative(x.Header.Revision), x.Count, x.More, s.kvs(x.Kvs))
	case *pb.ResponseOp_ResponsePut:
		x := r.ResponsePut
		return fmt.Sprintf("put@%d %s", s.relative(x.Header.Revision), s.kv(x.PrevKv))
	case *pb.ResponseOp_ResponseDeleteRange:
		x := r.ResponseDeleteRange
		return fmt.Sprintf("del@%d %d %s", s.relative(x.Header.Revision), x.Deleted, s.kvs(x.PrevKvs))
	case *pb.ResponseOp_ResponseTxn:
		return s.txn((*clientv3.TxnResponse)(r.ResponseTxn), "nested")
	}
	return "?"
}

func (s *side) txn(r *clientv3.TxnResponse, at string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "txn@%s %v (", at, r.Succeeded)
	for _, x := range r.Responses {
		b.WriteString(s.op(x) + "; ")
	}
	return b.String() + ")"
}

var names = []string{"a", "b", "c", "ca", "d"}

// drawOp draws an operation; it is spelled for a side when it is made.
func drawOp(t *rapid.T, root string, depth int) func(*side) clientv3.Op {
	key := root + rapid.SampledFrom(names).Draw(t, "key")
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case kind < 4:
		value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value")
		lease, prev := rapid.IntRange(-3, 2).Draw(t, "lease"), rapid.Bool().Draw(t, "prev")
		return func(s *side) clientv3.Op {
			opts := []clientv3.OpOption{clientv3.WithLease(s.lease(lease))}
			if prev {
				opts = append(opts, clientv3.WithPrevKV())
			}
			return clientv3.OpPut(key, value, opts...)
		}
	case kind < 6:
		opts := []clientv3.OpOption{clientv3.WithPrevKV()}
		if rapid.Bool().Draw(t, "prefix") {
			opts = append(opts, clientv3.WithPrefix())
		}
		return func(*side) clientv3.Op { return clientv3.OpDelete(key, opts...) }
	case kind < 8 || depth == 0:
		opts := drawGet(t, root)
		return func(*side) clientv3.Op { return clientv3.OpGet(key, opts...) }
	}
	return drawTxn(t, root, depth-1)
}

func drawGet(t *rapid.T, root string) []clientv3.OpOption {
	var opts []clientv3.OpOption
	switch rapid.IntRange(0, 3).Draw(t, "range") {
	case 0:
		return nil
	case 1:
		opts = append(opts, clientv3.WithPrefix())
	case 2:
		opts = append(opts, clientv3.WithRange(root+"d"))
	case 3:
		opts = append(opts, clientv3.WithRange(clientv3.GetPrefixRangeEnd(root)))
	}
	if rapid.Bool().Draw(t, "limited") {
		opts = append(opts, clientv3.WithLimit(int64(rapid.IntRange(1, 3).Draw(t, "limit"))))
	}
	// Create revisions of one transaction are equal: only keys sort uniquely.
	orders := []clientv3.SortOrder{clientv3.SortNone, clientv3.SortAscend, clientv3.SortDescend}
	opts = append(opts, clientv3.WithSort(clientv3.SortByKey, rapid.SampledFrom(orders).Draw(t, "order")))
	switch rapid.IntRange(0, 3).Draw(t, "less") {
	case 0:
		opts = append(opts, clientv3.WithKeysOnly())
	case 1:
		opts = append(opts, clientv3.WithCountOnly())
	}
	return opts
}

func drawCmp(t *rapid.T, root string) func(*side) clientv3.Cmp {
	key, prefix := root+rapid.SampledFrom(names).Draw(t, "cmp key"), rapid.Bool().Draw(t, "cmp prefix")
	sign := rapid.SampledFrom([]string{"=", "!=", "<", ">"}).Draw(t, "sign")
	n := int64(rapid.IntRange(0, 12).Draw(t, "n"))
	target := rapid.IntRange(0, 4).Draw(t, "target")
	return func(s *side) clientv3.Cmp {
		var c clientv3.Cmp
		switch target {
		case 0:
			c = clientv3.Compare(clientv3.CreateRevision(key), sign, s.rev(n))
		case 1:
			c = clientv3.Compare(clientv3.ModRevision(key), sign, s.rev(n))
		case 2:
			c = clientv3.Compare(clientv3.Version(key), sign, n%3)
		case 3:
			c = clientv3.Compare(clientv3.Value(key), sign, "x")
		case 4:
			if sign == "<" || sign == ">" { // ids are random
				sign = "="
			}
			c = clientv3.Compare(clientv3.LeaseValue(key), sign, s.lease(int(n%4)-1))
		}
		if prefix {
			c = c.WithPrefix()
		}
		return c
	}
}

func drawTxn(t *rapid.T, root string, depth int) func(*side) clientv3.Op {
	var cmps []func(*side) clientv3.Cmp
	for range rapid.IntRange(0, 2).Draw(t, "cmps") {
		cmps = append(cmps, drawCmp(t, root))
	}
	var branches [2][]func(*side) clientv3.Op
	for i := range branches {
		for range rapid.IntRange(0, 3).Draw(t, "ops") {
			branches[i] = append(branches[i], drawOp(t, root, depth))
		}
	}
	return func(s *side) clientv3.Op {
		var cs []clientv3.Cmp
		for _, c := range cmps {
			cs = append(cs, c(s))
		}
		var ops [2][]clientv3.Op
		for i := range branches {
			for _, op := range branches[i] {
				ops[i] = append(ops[i], op(s))
			}
		}
		return clientv3.OpTxn(cs, ops[0], ops[1])
	}
}

func (s *side) do(op clientv3.Op) string {
	r, err := s.c.Do(context.Background(), op)
	switch {
	case err != nil:
		return err.Error()
	case op.IsTxn():
		return s.txn(r.Txn(), fmt.Sprint(s.relative(r.Txn().Header.Revision)))
	case op.IsPut():
		return s.op(&pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: (*pb.PutResponse)(r.Put())}})
	case op.IsDelete():
		deleted := (*pb.DeleteRangeResponse)(r.Del())
		return s.op(&pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: deleted}})
	}
	return s.op(&pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: (*pb.RangeResponse)(r.Get())}})
}

func draw(t *rapid.T, root string) action {
	switch rapid.IntRange(0, 11).Draw(t, "action") {
	case 0:
		return action{"grant", func(s *side) string {
			g, err := s.c.Grant(context.Background(), 60)
			if err != nil {
				return err.Error()
			}
			s.leases = append(s.leases, g.ID)
			return fmt.Sprint(g.TTL, " @", s.relative(g.Revision))
		}}
	case 1:
		i := rapid.IntRange(0, 2).Draw(t, "lease")
		return action{"revoke", func(s *side) string {
			r, err := s.c.Revoke(context.Background(), s.lease(i))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint("@", s.relative(r.Header.Revision))
		}}
	}
	op := drawOp(t, root, 2)
	return action{"op", func(s *side) string { return s.do(op(s)) }}
}

func (s *side) watch(ctx context.Context, root string) clientv3.WatchChan {
	return s.c.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(s.base+1), clientv3.WithPrevKV())
}

// events are those of a watch, up to a last put.
func (s *side) events(root string, w clientv3.WatchChan) string {
	if _, err := s.c.Put(context.Background(), root+"end", ""); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for r := range w {
		for _, e := range r.Events {
			fmt.Fprintf(&b, "%s %s before %s\n", e.Type, s.kv(e.Kv), s.kv(e.PrevKv))
			if strings.HasSuffix(string(e.Kv.Key), "end") {
				return b.String()
			}
		}
	}
	return b.String() + "no end"
}

func TestAnswersAsEtcdDoes(t *testing.T) {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.TickMs, cfg.ElectionMs = t.TempDir(), "panic", 20, 100
	at := []url.URL{{Scheme: "unix", Host: filepath.Join(t.TempDir(), "s")}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls, cfg.ListenPeerUrls = at, at, nil
	srv, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	<-srv.Server.ReadyNotify()
	real := v3client.New(srv.Server)
	defer real.Close()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := fmt.Sprintf("/%d/", n)
		mem := memstore.New().Client()
		defer mem.Close()
		etcd, ours := newSide(t, real), newSide(t, mem)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		late := rapid.IntRange(0, 9).Draw(t, "late") == 0 // etcd takes 0.1 s to catch up
		var we, wo clientv3.WatchChan
		if !late {
			we, wo = etcd.watch(ctx, root), ours.watch(ctx, root)
		}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			a := draw(t, root)
			if diff := cmp.Diff(a.do(etcd), a.do(ours)); diff != "" {
				t.Fatalf("%s (-etcd +memstore):\n%s", a.name, diff)
			}
		}
		if late {
			we, wo = etcd.watch(ctx, root), ours.watch(ctx, root)
		}
		if diff := cmp.Diff(etcd.events(root, we), ours.events(root, wo)); diff != "" {
			t.Fatalf("events (-etcd +memstore):\n%s", diff)
		}
	})
}
