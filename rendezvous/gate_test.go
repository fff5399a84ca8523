package rendezvous

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"launch/rendezvous/protocol"
)

// by is a request from an address.
func by(ctx context.Context, addr string) context.Context {
	return peer.NewContext(ctx, &peer.Peer{
		Addr:      net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 40000)),
		LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:29377"))})
}

func op(put clientv3.Op) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: put.KeyBytes(),
		Value: put.ValueBytes()}}}
}

// post is a transaction in the form of a post, of n bytes, of a node that has joined with this lease.
func post(k keys, lease int64, i, n int) *pb.TxnRequest {
	o := op(clientv3.OpPut(fmt.Sprintf("%s9/x/%d", k.Posts, i), strings.Repeat("x", n)))
	o.GetRequestPut().Lease = lease
	return &pb.TxnRequest{Success: []*pb.RequestOp{o}, Compare: []*pb.Compare{
		{Key: []byte(k.Epoch), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{}},
		{Key: []byte(k.Member(nodeOf(lease))), Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: lease}}}}
}

// nodeOf is the node that has joined with a lease.
func nodeOf(lease int64) Member { return Member{ID: fmt.Sprint(lease), Index: -1, Size: 2, Host: "h"} }

// enrolled returns the lease of a node that has joined.
func enrolled(t *testing.T, g *gate, ctx context.Context, k keys) int64 {
	t.Helper()
	lease := grant(t, g, ctx)
	m := nodeOf(lease)
	o := op(clientv3.OpPut(k.Member(m), encode(m)))
	o.GetRequestPut().Lease = lease
	r, err := g.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{o}, Compare: []*pb.Compare{{Key: []byte(k.Member(m)),
		Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}}})
	if err != nil || !r.Succeeded {
		t.Fatal(r, err)
	}
	return lease
}

func grant(t *testing.T, g *gate, ctx context.Context) int64 {
	t.Helper()
	l, err := g.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
	if err != nil {
		t.Fatal(err)
	}
	return l.ID
}

// One address fills its share and no more; the others do not notice, and the store stays small.
func TestAFloodEndsAtTheShareOfItsAddress(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	srv := serveHere(t)
	g, k := srv.gate, protocol.KeysOf("j")
	bad, good := by(t.Context(), "10.0.0.66"), by(t.Context(), "10.0.0.2")
	lease := enrolled(t, g, bad, k)
	var err error
	var i int
	for ; err == nil && i < 2*share>>20; i++ {
		_, err = g.Txn(bad, post(k, lease, i, 1<<20))
	}
	if i > share>>20+1 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "10.0.0.66") {
		t.Errorf("after %d MB: %v", i, err)
	}
	if _, err := g.Txn(good, post(k, enrolled(t, g, good, k), i, 1000)); err != nil {
		t.Errorf("another address: %v", err)
	}
	var disk int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if info, statErr := d.Info(); err == nil && statErr == nil {
			disk += info.Size()
		}
		return nil
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if disk > 4*share || m.HeapAlloc > 4*share {
		t.Errorf("%d MB of files and %d MB of memory", disk>>20, m.HeapAlloc>>20)
	}
	// What a lease deletes is outdated, and then gone.
	if _, err := g.LeaseRevoke(bad, &pb.LeaseRevokeRequest{ID: lease}); err != nil {
		t.Fatal(err)
	}
	used := func() int {
		g.book.mu.Lock()
		defer g.book.mu.Unlock()
		return g.book.used
	}
	rev := srv.etcd.KV().Rev()
	for end := time.Now().Add(10 * time.Second); used() > 1<<20 && time.Now().Before(end); {
		rev = srv.compact(t.Context(), rev)
		time.Sleep(20 * time.Millisecond)
	}
	if n := used(); n > 1<<20 {
		t.Errorf("%d MB remain", n>>20)
	}
	if _, err := g.Txn(bad, post(k, enrolled(t, g, bad, k), 0, 1<<20)); err != nil {
		t.Errorf("after the compaction: %v", err)
	}
}

// Where many addresses fill the store together, nodes still find room.
func TestAFullStoreHasRoomForNodes(t *testing.T) {
	l := newLedger()
	from := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	i := 0
	for ; l.reserve(from(i), share) == nil; i++ {
		l.free(from(i), share)
		l.charge(from(i), fmt.Sprint(i), share)
	}
	if i != whole/share {
		t.Errorf("%d addresses filled their share", i)
	}
	if err := l.reserve(from(9999), 2000); err != nil {
		t.Errorf("a node: %v", err)
	}
	if err := l.reserve(from(9999), 2*little); err == nil {
		t.Error("a full store takes more")
	}
}

// A key that is written again and again costs its history until that is compacted.
func TestWhatIsOverwrittenCountsUntilItIsCompacted(t *testing.T) {
	l, a := newLedger(), netip.MustParseAddr("10.0.0.1")
	for range 3 {
		l.charge(a, "k", 10)
	}
	if l.used != 30 {
		t.Errorf("used %d", l.used)
	}
	l.age(false)
	l.charge(a, "k", 10) // too young to be compacted
	l.age(true)
	if l.used != 20 {
		t.Errorf("used %d after a compaction", l.used)
	}
}

// A transaction that reads the job often would multiply what it holds.
func TestATransactionReadsTheJobOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	all := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(k.Root),
		RangeEnd: []byte(prefixEnd(k.Root))}}}
	a := by(t.Context(), "10.0.0.2")
	if _, err := g.Txn(a, &pb.TxnRequest{Success: []*pb.RequestOp{all}}); err != nil {
		t.Error(err)
	}
	twice := &pb.TxnRequest{Success: []*pb.RequestOp{all, {Request: &pb.RequestOp_RequestTxn{
		RequestTxn: &pb.TxnRequest{Failure: []*pb.RequestOp{all}}}}}}
	if _, err := g.Txn(a, twice); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
}

// Without TLS the epoch is written by the address that has the lead.
func TestAnotherAddressDoesNotLead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	a, b := by(t.Context(), "10.0.0.2"), by(t.Context(), "10.0.0.3")
	lease := grant(t, g, a)
	write := func(ctx context.Context, leases ...int64) error {
		r := &pb.TxnRequest{Success: []*pb.RequestOp{op(clientv3.OpPut(k.Epoch, `{"state":"open"}`))}, Compare: []*pb.Compare{
			{Key: []byte(k.Leader), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 2}},
			{Key: []byte(k.Epoch), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{}}}}
		for _, l := range leases {
			r.Compare = append(r.Compare, &pb.Compare{Key: []byte(k.Leader), Target: pb.Compare_LEASE,
				TargetUnion: &pb.Compare_Lease{Lease: l}})
		}
		_, err := g.Txn(ctx, r)
		return err
	}
	if err := write(a, lease); err != nil {
		t.Errorf("by the lease's own address: %v", err)
	}
	if err := write(b, lease); status.Code(err) != codes.PermissionDenied {
		t.Errorf("by another address: %v", err)
	}
	if err := write(b); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a lease: %v", err)
	}
}

// Without TLS a lease belongs to the address that got it.
func TestALeaseBelongsToItsAddress(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("j")
	a, b := by(t.Context(), "10.0.0.2"), by(t.Context(), "10.0.0.3")
	lease := enrolled(t, g, a, k)
	if _, err := g.LeaseRevoke(b, &pb.LeaseRevokeRequest{ID: lease}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another address gives it back: %v", err)
	}
	if _, err := g.Txn(b, post(k, lease, 1, 10)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another address writes with it: %v", err)
	}
	if _, err := g.Txn(a, post(k, lease, 1, 10)); err != nil {
		t.Errorf("its own: %v", err)
	}
	if _, err := g.LeaseGrant(a, &pb.LeaseGrantRequest{TTL: 9_000_000_000}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("for ever: %v", err)
	}
	if _, err := g.LeaseGrant(b, &pb.LeaseGrantRequest{TTL: 9, ID: lease + 1}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with a number of its choice: %v", err)
	}
	if err := g.LeaseKeepAlive(&renewal{ctx: b, lease: lease}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another address renews it: %v", err)
	}
	if err := g.LeaseKeepAlive(&renewal{ctx: a, lease: lease}); err != nil {
		t.Errorf("its own address renews it: %v", err)
	}
}

// A store serves one job; a transaction that belongs to another one writes nothing and says whose it is.
func TestARegistrationForAnotherJobWritesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, k := serveHere(t).gate, protocol.KeysOf("other")
	a := by(t.Context(), "10.0.0.2")
	if _, err := g.Txn(a, post(k, grant(t, g, a), 1, 10)); err != nil {
		t.Fatal(err)
	}
	r, err := g.Range(a, &pb.RangeRequest{Key: []byte(k.Root), RangeEnd: []byte(prefixEnd(k.Root))})
	if err != nil || len(r.Kvs) > 0 {
		t.Errorf("%v, %v", r, err)
	}
}

// A request that panics is answered, and the next one too.
func TestAPanicIsTheAnswerOfItsRequest(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	cli := (&embedded{srv}).connect(t)
	defer cli.Close()
	kv := srv.gate.kv
	srv.gate.kv = nil
	if _, err := cli.Get(t.Context(), storeKey); status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
	srv.gate.kv = kv
	if _, err := cli.Get(t.Context(), storeKey); err != nil {
		t.Error(err)
	}
}

// Whatever a stranger asks of the store, the store lives, and still says whose it is.
func FuzzWhatAStrangerAsks(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir())
	srv, err := Serve(f.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(srv.Close)
	g, k := srv.gate, protocol.KeysOf("j")
	add := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	mine := post(k, 7, 1, 10)
	add(mine)
	add(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: mine}}, {}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
			Key: []byte(k.Root), RangeEnd: []byte(prefixEnd(k.Root))}}}}})
	add(&pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte(k.Leader), Target: pb.Compare_CREATE,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 2}}, {Key: []byte(k.Epoch)}},
		Success: []*pb.RequestOp{op(clientv3.OpPut(k.Epoch, `{"state":"open"}`))}})
	add(&pb.RangeRequest{Key: []byte(k.Root), RangeEnd: []byte{0}, Limit: -1, Revision: 99})
	add(&pb.LeaseGrantRequest{TTL: -9, ID: 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx, cancel := context.WithTimeout(by(t.Context(), "10.0.0.66"), 5*time.Second)
		defer cancel()
		var txn pb.TxnRequest
		if proto.Unmarshal(b, &txn) == nil {
			_, _ = g.Txn(ctx, &txn)
		}
		var r pb.RangeRequest
		if proto.Unmarshal(b, &r) == nil {
			_, _ = g.Range(ctx, &r)
		}
		var p pb.PutRequest
		if proto.Unmarshal(b, &p) == nil {
			_, _ = g.Put(ctx, &p)
		}
		var l pb.LeaseGrantRequest
		if proto.Unmarshal(b, &l) == nil {
			_, _ = g.LeaseGrant(ctx, &l)
		}
		got, err := g.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(storeKey)})
		if err != nil || len(got.Kvs) != 1 || !strings.Contains(string(got.Kvs[0].Value), `"job":"j"`) {
			t.Fatalf("%v, %v", got, err)
		}
	})
}
