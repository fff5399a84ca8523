package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// Two nodes may each host a store of one job, where the store's name has the addresses of both and they do not see
// each other in time. One of the stores is retired then.

// Precedence is what decides which of two stores of one job is retired.
type Precedence struct {
	Order string // the store with the least one stays; each store has another one
	Begun bool   // a world of its job has started: the store stays
}

// Peek returns the precedence of a store of this job; an error: there is no store, or it is another job's. It takes no
// longer than glance.
func Peek(ctx context.Context, s Store) (Precedence, error) {
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	quick, end := context.WithTimeout(ctx, glance/2)
	c, err := dialShort(quick, s.Endpoints[0]) // Connect would try again
	end()
	if err != nil {
		return Precedence{}, err
	}
	_ = c.Close()
	cli, err := Connect(ctx, s, nil)
	if err != nil {
		return Precedence{}, err
	}
	defer cli.Close()
	r, err := cli.Txn(ctx).Then(clientv3.OpGet(storeKey), clientv3.OpGet(protocol.KeysOf(s.Job).Epoch)).Commit()
	if err != nil {
		return Precedence{}, fmt.Errorf("read the store's precedence: %w", reason(ctx, err))
	}
	var id identity
	own := r.Responses[0].GetResponseRange().Kvs
	if len(own) == 0 || json.Unmarshal(own[0].Value, &id) != nil || id.Order == "" {
		return Precedence{}, fmt.Errorf("the store at %s is of another version of launch", s)
	}
	ep := values[Epoch](r.Responses[1].GetResponseRange().Kvs)
	return Precedence{Order: id.Order, Begun: len(ep) > 0 && ep[0].Begun()}, nil
}

// glance bounds a look at a store, in which an address that does not answer takes half of that time.
const glance = 2 * time.Second

// orderOf returns the order of a store that listens there: its first address, then what no other store has.
func orderOf(listen []netip.AddrPort) string {
	at := slices.MinFunc(listen, func(a, b netip.AddrPort) int { return cmp.Compare(order(a), order(b)) })
	return fmt.Sprintf("%s %016x", order(at), rand.Uint64())
}

// order writes an address so that texts sort as addresses do.
func order(at netip.AddrPort) string {
	a := at.Addr().Unmap()
	return fmt.Sprintf("%03d %x", a.BitLen(), a.AsSlice())
}

// Order returns what Precedence.Order is for this store.
func (s *Server) Order() string { return s.order }

// Retire ends all writes into this store for good, unless its job has begun: then it returns false and changes
// nothing. No go is written meanwhile: a node never starts in a world whose store is retired.
func (s *Server) Retire(ctx context.Context) bool {
	g := s.gate
	g.writing.Lock() // waits for the transactions that are under way
	defer g.writing.Unlock()
	r, err := g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(g.own.Epoch)})
	if err != nil {
		return false
	}
	ep := values[Epoch](r.Kvs)
	g.retired = len(ep) == 0 && len(r.Kvs) == 0 || len(ep) > 0 && !ep[0].Begun()
	return g.retired
}

// fence orders the writes into a store and its retirement.
type fence struct {
	writing sync.RWMutex
	retired bool
}

// commit carries out a transaction, unless the store is retired.
func (g *gate) commit(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	g.writing.RLock()
	defer g.writing.RUnlock()
	if g.retired {
		return nil, status.Error(codes.Unavailable, "this store is retired: the job has another one")
	}
	return g.kv.Txn(ctx, r)
}
