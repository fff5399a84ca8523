package rendezvous

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// renewal is a stream that renews a lease once.
type renewal struct {
	grpc.ServerStream
	ctx   context.Context
	lease int64
	asked bool
}

func (r *renewal) Context() context.Context              { return r.ctx }
func (r *renewal) Send(*pb.LeaseKeepAliveResponse) error { return nil }
func (r *renewal) Recv() (*pb.LeaseKeepAliveRequest, error) {
	if r.asked {
		return nil, io.EOF
	}
	r.asked = true
	return &pb.LeaseKeepAliveRequest{ID: r.lease}, nil
}

// direct reaches a gate without a network.
type direct struct {
	pb.KVClient
	g *gate
}

func (d direct) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return d.g.Txn(ctx, r)
}

func (d direct) Put(ctx context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	return d.g.Put(ctx, r)
}

// caller is a process that asks a gate in the way of a node.
type caller struct {
	t     *testing.T
	ctx   context.Context
	g     *gate
	lease int64
}

func callerAt(t *testing.T, g *gate, addr string) *caller {
	ctx := by(t.Context(), addr)
	return &caller{t, ctx, g, grant(t, g, ctx)}
}

// ask makes a request, and returns whether it was refused.
func (c *caller) ask(conds []protocol.Cond, ops ...protocol.Op) (e event, refused bool) {
	c.t.Helper()
	s := &Session{k: protocol.KeysOf("j")}
	e, err := s.transact(c.ctx, clientv3.NewKVFromKVClient(direct{g: c.g}, nil), action{If: conds, Then: ops})
	if err != nil && status.Code(err) != codes.PermissionDenied {
		c.t.Fatal(err)
	}
	return e, err != nil
}

// must makes a request whose conditions hold.
func (c *caller) must(conds []protocol.Cond, ops ...protocol.Op) event {
	c.t.Helper()
	e, refused := c.ask(conds, ops...)
	if refused || !e.OK {
		c.t.Fatalf("refused: %t, true: %t", refused, e.OK)
	}
	return e
}

func (c *caller) put(key string, v any) protocol.Op {
	return protocol.Op{Do: protocol.Put, Key: key, Value: v, Lease: c.lease}
}

// is and its kin are the conditions of nodes.
func is(of protocol.Target, key string, rev int64) protocol.Cond {
	return protocol.Cond{Of: of, Key: key, Is: '=', Rev: rev}
}

// leads makes the caller a member that leads an open epoch, and returns the revision of that.
func (c *caller) leads(k keys, m Member) int64 {
	c.t.Helper()
	took := c.must([]protocol.Cond{is(protocol.Create, k.Member(m), 0)}, c.put(k.Member(m), m),
		protocol.Op{Do: protocol.Nest, If: []protocol.Cond{is(protocol.Create, k.Leader, 0)},
			Then: []protocol.Op{c.put(k.Leader, m)}}).Rev
	c.must(append(c.lead(k, took), is(protocol.Mod, k.Epoch, 0)),
		protocol.Op{Do: protocol.Put, Key: k.Epoch, Value: Epoch{N: 1, State: Open, Size: 2}})
	return took
}

func (c *caller) lead(k keys, created int64) []protocol.Cond {
	return []protocol.Cond{is(protocol.Create, k.Leader, created), is(protocol.Lease, k.Leader, c.lease)}
}

// nothings are conditions about a key that hold whatever the store has, in each form that a gate could
// take for a node's.
func nothings(key string) (out []*pb.Compare) {
	before := []byte(key[:1]) // the end of a range without keys
	compare := func(r pb.Compare_CompareResult, end []byte, n int64) {
		create := &pb.Compare{Key: []byte(key), RangeEnd: end, Result: r, Target: pb.Compare_CREATE,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: n}}
		mod := &pb.Compare{Key: []byte(key), RangeEnd: end, Result: r, Target: pb.Compare_MOD,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: n}}
		version := &pb.Compare{Key: []byte(key), RangeEnd: end, Result: r, Target: pb.Compare_VERSION,
			TargetUnion: &pb.Compare_Version{Version: n}}
		out = append(out, create, mod, version)
	}
	compare(pb.Compare_GREATER, nil, -1)
	compare(pb.Compare_NOT_EQUAL, nil, -1)
	compare(pb.Compare_LESS, nil, math.MaxInt64)
	compare(pb.Compare_EQUAL, before, 0)
	compare(pb.Compare_LESS, before, 1)
	compare(pb.Compare_LESS, []byte(prefixEnd(key)), math.MaxInt64)
	return append(out, &pb.Compare{Key: []byte(key), RangeEnd: before, Target: pb.Compare_LEASE,
		TargetUnion: &pb.Compare_Lease{}}, &pb.Compare{Key: []byte(key), Result: pb.Compare_NOT_EQUAL,
		Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{}})
}

// A condition that always holds does not make a stranger's write a node's.
func TestConditionsThatSayNothingPermitNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	node, m := callerAt(t, g, "10.0.0.2"), Member{ID: "a", Index: 0, Size: 2, Host: "a", Phase: PhaseArrived}
	took := node.leads(k, m)
	const nonce = "0123456789abcdef"
	place := k.Place(nonce, m)
	node.must(append(node.lead(k, took), is(protocol.Mod, k.Epoch, took+1)),
		protocol.Op{Do: protocol.Put, Key: place, Value: Place{Partner: m.Partner(0)}})

	mallory := callerAt(t, g, "10.0.0.66")
	fake := m
	fake.ID, fake.Host = "b", "evil"
	put := func(key string, v any, leased bool) *pb.RequestOp {
		o := op(clientv3.OpPut(key, encode(v)))
		if leased {
			o.GetRequestPut().Lease = mallory.lease
		}
		return o
	}
	remove := func(key, end string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
			Key: []byte(key), RangeEnd: []byte(end)}}}
	}
	for name, o := range map[string]*pb.RequestOp{
		"a node's key": put(k.Member(m), fake, true), "the lead": put(k.Leader, fake, true),
		"the epoch": put(k.Epoch, Epoch{N: 9, State: Open, Size: 1}, false), "a place": put(place,
			Place{Partner: fake.Partner(0)}, false),
		"the end of a node": put(place, Place{Partner: Partner{ID: "a"}, Over: true}, false),
		"a new place":       put(k.World(nonce)+"0000001", Place{Partner: fake.Partner(1)}, false),
		"a result":          put(k.Result(1, "go"), []byte("{}"), false),
		"the attendance":    put(k.Progress, protocol.Report{}, false),
		"the last one":      put(k.Progress, protocol.Report{Final: true}, false),
		"who is late":       put(k.Late, protocol.Lateness{Nonce: nonce}, false),
		"the store's end":   put(k.Late, protocol.Lateness{Nonce: nonce, Closing: true}, false),
		"a post":            put(k.Post(1, "go", 0), []byte("{}"), true),
		"no leader":         remove(k.Leader, ""),
		"no job":            remove(k.Root, prefixEnd(k.Root)),
		"no places":         remove(k.Worlds, prefixEnd(k.Worlds)),
		"no place":          remove(place, ""), "no attendance": remove(k.Progress, ""),
	} {
		t.Run(name, func(t *testing.T) {
			for _, about := range [][]string{{k.Member(m)}, {k.Leader}, {k.Epoch}, {k.Members, place},
				{k.Member(m), k.Leader, k.Epoch, k.Members, place}} {
				r := &pb.TxnRequest{Success: []*pb.RequestOp{o}}
				for _, key := range about {
					r.Compare = append(r.Compare, nothings(key)...)
				}
				// What everybody can read of the leader says nothing about who asks.
				seen := condOf(k.Leader, took)
				if _, err := g.Txn(mallory.ctx, r); status.Code(err) != codes.PermissionDenied {
					t.Fatalf("with conditions about %q: %v", about, err)
				}
				r.Compare = append(r.Compare, seen...)
				if _, err := g.Txn(mallory.ctx, r); status.Code(err) != codes.PermissionDenied {
					t.Fatalf("with the leader's revisions too: %v", err)
				}
			}
		})
	}
	if got, err := g.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(k.Leader)}); err != nil || len(got.Kvs) != 1 ||
		got.Kvs[0].ModRevision != took {
		t.Errorf("the lead: %v, %v", got, err)
	}
}

// condOf are comparisons with what a key's revisions are.
func condOf(key string, rev int64) []*pb.Compare {
	return []*pb.Compare{{Key: []byte(key), Target: pb.Compare_CREATE,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev}}, {Key: []byte(key), Target: pb.Compare_MOD,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}}
}

// A condition on the version of the lead is for a node that has the lead already, or that has replaced
// the leader's incarnation.
func TestWhoHasReplacedTheLeaderMayDeposeIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	m := Member{ID: "a", Index: 0, Vouch: protocol.Scheduled, Size: 2, Host: "a", Phase: PhaseArrived}
	old, next, other := callerAt(t, g, "10.0.0.2"), callerAt(t, g, "10.0.0.3"), callerAt(t, g, "10.0.0.4")
	took := old.leads(k, m)
	depose := func(c *caller, key string) ([]protocol.Cond, protocol.Op) {
		return []protocol.Cond{is(protocol.Lease, key, c.lease), is(protocol.Mod, k.Leader, took)},
			protocol.Op{Do: protocol.Delete, Key: k.Leader}
	}
	second := Member{ID: "c", Index: 1, Size: 2, Host: "c", Phase: PhaseArrived}
	other.must([]protocol.Cond{is(protocol.Create, k.Member(second), 0)}, other.put(k.Member(second), second))
	conds, do := depose(other, k.Member(second))
	if _, refused := other.ask(conds, do); !refused {
		t.Error("another member deposes it")
	}
	if _, refused := other.ask([]protocol.Cond{is(protocol.Mod, k.Leader, took)}, other.put(k.Leader, second)); !refused {
		t.Error("another member takes the lead")
	}
	if _, refused := other.ask([]protocol.Cond{is(protocol.Mod, k.Leader, took+1000)},
		other.put(k.Leader, second)); !refused {
		t.Error("another member takes a lead of the future")
	}

	again := m
	again.ID = "b"
	conds, do = depose(next, k.Member(m))
	if _, refused := next.ask(conds, do); !refused {
		t.Error("a node deposes it that has not replaced it yet")
	}
	next.must([]protocol.Cond{is(protocol.Mod, k.Member(m), took)}, next.put(k.Member(m), again))
	next.must(conds, do)
	if e, refused := next.ask(conds, do); refused || e.OK { // a race that is lost is no error
		t.Errorf("once more: refused %t, true %t", refused, e.OK)
	}
	// And it binds its lead to the lease of its next life.
	took = next.must([]protocol.Cond{is(protocol.Create, k.Leader, 0)}, next.put(k.Leader, again)).Rev
	next.lease = grant(t, g, next.ctx)
	next.must([]protocol.Cond{is(protocol.Mod, k.Leader, took)}, next.put(k.Leader, again))
}

// What a node writes when it leaves depends on what it finds, and says why it leaves even where
// another node leads and its place is gone.
func TestANodeThatDoesNotLeadMayLeave(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	leader, m := callerAt(t, g, "10.0.0.2"), Member{ID: "a", Index: 0, Size: 2, Host: "a", Phase: PhaseArrived}
	took := leader.leads(k, m)
	const nonce = "0123456789abcdef"
	for i, removed := range []bool{true, false} {
		c := callerAt(t, g, fmt.Sprintf("10.0.0.%d", 10+i))
		self := Member{ID: fmt.Sprint("c", i), Index: 1 + i, Size: 2, Host: "c", Phase: PhaseArrived}
		key, place := k.Member(self), k.Place(nonce, self)
		c.must([]protocol.Cond{is(protocol.Create, key, 0)}, c.put(key, self))
		if !removed {
			leader.must(append(leader.lead(k, took), is(protocol.Mod, k.Epoch, took+1)),
				protocol.Op{Do: protocol.Put, Key: place, Value: Place{Partner: self.Partner(1)}})
		}
		end := protocol.Op{Do: protocol.Nest, If: []protocol.Cond{{Of: protocol.Create, Key: place, Is: '>'}},
			Then: []protocol.Op{
				{Do: protocol.Put, Key: place, Value: Place{Partner: Partner{Rank: 1, ID: self.ID}, Over: true}},
			}}
		self.Left = "its command has ended"
		c.must(nil, end, protocol.Op{Do: protocol.Put, Key: k.Quit(nonce), Value: []byte(self.ID)},
			protocol.Op{Do: protocol.Nest, If: []protocol.Cond{is(protocol.Lease, key, c.lease)}, Then: []protocol.Op{
				c.put(key, self), {Do: protocol.Nest, If: []protocol.Cond{is(protocol.Lease, k.Leader, c.lease)},
					Then: []protocol.Op{c.put(k.Leader, self)}}}})
		got, err := g.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(key)})
		if err != nil || len(got.Kvs) != 1 || !strings.Contains(string(got.Kvs[0].Value), self.Left) {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := g.LeaseRevoke(c.ctx, &pb.LeaseRevokeRequest{ID: c.lease}); err != nil {
			t.Error(err)
		}
		if _, refused := c.ask(nil, end); refused {
			t.Error("after its lease its place cannot say that it has ended")
		}
	}
	got, err := g.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(k.Leader)})
	if err != nil || got.Kvs[0].ModRevision != took {
		t.Errorf("the lead: %v, %v", got, err)
	}
}

// A lease takes memory as a key does.
func TestLeasesCountForTheShare(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	g, bad := srv.gate, by(t.Context(), "10.0.0.66")
	g.book.charge(writer(bad), "k", share-10*2560)
	var err error
	granted := 0
	var last int64
	for ; err == nil && granted < 20; granted++ {
		var l *pb.LeaseGrantResponse
		if l, err = g.LeaseGrant(bad, &pb.LeaseGrantRequest{TTL: 60}); err == nil {
			last = l.ID
		}
	}
	if granted != 11 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after %d leases: %v", granted, err)
	}
	if g.book.used != share {
		t.Errorf("all have %d, want %d", g.book.used, share)
	}
	if _, err := g.LeaseRevoke(bad, &pb.LeaseRevokeRequest{ID: last}); err != nil {
		t.Fatal(err)
	}
	srv.compact(t.Context(), srv.etcd.KV().Rev())
	if g.book.used != share-2560 {
		t.Errorf("all have %d after one has ended", g.book.used)
	}
}

// An address that has its share of the store's memory does not get more by long keys.
func TestALongKeyIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	ctx := by(t.Context(), "10.0.0.2")
	for n, want := range map[int]codes.Code{2048: codes.OK, 2049: codes.PermissionDenied} {
		key := []byte(k.Notes + strings.Repeat("x", n-len(k.Notes)))
		if _, err := g.Range(ctx, &pb.RangeRequest{Key: key}); status.Code(err) != want {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// A write as well, before anything else is asked about it.
	if k := protocol.KeysOf(strings.Repeat("j", 2048)); g.permitsAll(ctx, nil, []*pb.RequestOp{op(
		clientv3.OpPut(k.Conflict, `{"size": 2}`))}) == errOtherJob {
		t.Error("a write of a long key is looked at")
	}
}

// A connection on which no handshake ends is closed.
func TestAHandshakeEnds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	c, err := dialShort(t.Context(), srv.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if err := c.SetReadDeadline(began.Add(handshake + 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, c)
	if d := time.Since(began); err != nil || d > handshake+4*time.Second {
		t.Errorf("open for %s: %v", d, err)
	}
}
