package rendezvous

import (
	"context"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// Bounds of the store's data: keys with their history since the last compaction, in bytes. One start of
// 1,000 nodes takes 2.5 MB, of 10,000 ten times that.
const (
	share  = 64 << 20  // of one address
	whole  = 256 << 20 // of all; beyond it those that have more than little are refused
	little = 1 << 20
	// quota is etcd's own bound of its file, which holds free pages too; the ledger's come first. etcd maps a tenth
	// more, in whole GiB, and 10 GiB where it is etcd's default (2 GiB).
	quota, mapped = 7 * whole, 2 << 30
	// crowded is more than a start takes: speed matters no longer, and memory does.
	crowded = 32 << 20
	// outdated is how much may be outdated before it is compacted; what is younger than keep stays, for
	// watches that are late.
	outdated, keep = 16 << 20, 30 * time.Second
	// leaseSize is what a lease costs the store, in memory and in its file.
	leaseSize = 2560
)

// ledger knows which address wrote how much of the store.
type ledger struct {
	mu       sync.Mutex
	live     map[string]entry        // by key
	accounts map[netip.Addr]*account // by writer
	leases   map[int64]netip.Addr    // who got it
	used     int                     // by all
	crowded  bool
}

// entry is one key.
type entry struct {
	by   *account
	size int
}

// account is what one address has in the store, in bytes.
type account struct {
	used          int // with its history and its leases
	outdated, old int // the part that is overwritten or deleted: since the last look, and before
	leases        int
}

func newLedger() *ledger {
	return &ledger{live: map[string]entry{}, accounts: map[netip.Addr]*account{}, leases: map[int64]netip.Addr{}}
}

// of returns the account of a writer.
func (l *ledger) of(from netip.Addr) *account {
	a := l.accounts[from]
	if a == nil {
		a = &account{}
		l.accounts[from] = a
	}
	return a
}

// reserve takes room for n more bytes, until free, and refuses a writer that has none.
func (l *ledger) reserve(from netip.Addr, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(from)
	mine, all := a.used+n, l.used+n
	if mine <= share && (all <= whole || mine <= little) {
		a.used += n
		l.used += n
		return nil
	}
	who := "this machine"
	if from.IsValid() {
		who = from.String()
	}
	return status.Errorf(codes.ResourceExhausted, "launch's store has no room for more from %s: it has %s of %s",
		who, megabytes(mine-n), megabytes(l.used))
}

// free gives back what was reserved.
func (l *ledger) free(from netip.Addr, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(from).used -= n
	l.used -= n
}

// charge enters a key that was written.
func (l *ledger) charge(from netip.Addr, key string, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outdate(key)
	a := l.of(from)
	l.live[key] = entry{a, size}
	a.used += size
	if l.used += size; l.used > crowded && !l.crowded {
		l.crowded = true
		debug.SetGCPercent(100)
	}
}

// outdate makes what is known of a key a part of the history.
func (l *ledger) outdate(key string) {
	if e, ok := l.live[key]; ok {
		e.by.outdated += e.size
		delete(l.live, key)
	}
}

// granted enters a lease.
func (l *ledger) granted(from netip.Addr, lease int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[lease] = from
	a := l.of(from)
	a.leases++
	a.used += leaseSize
	l.used += leaseSize
}

// owns returns whether a lease is of this writer, or not known.
func (l *ledger) owns(from netip.Addr, lease int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner, known := l.leases[lease]
	return !known || owner == from
}

// open returns the leases that have not ended, as far as is known.
func (l *ledger) open() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.leases))
}

// look forgets leases that have ended. It returns whether so much is outdated that the store is to be
// compacted.
func (l *ledger) look(ended []int64) (compact bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ended {
		a := l.accounts[l.leases[id]]
		delete(l.leases, id)
		a.leases--
		a.used -= leaseSize
		l.used -= leaseSize
	}
	old := 0
	for from, a := range l.accounts {
		old += a.old
		if a.used == 0 && a.leases == 0 {
			delete(l.accounts, from)
		}
	}
	return old > outdated
}

// age makes what is outdated old; with compacted, what was old is gone.
func (l *ledger) age(compacted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if compacted {
			a.used -= a.old
			l.used -= a.old
			a.old = 0
		}
		a.old += a.outdated
		a.outdated = 0
	}
}

// watchLedger keeps the ledger right until ctx ends: it hears which keys are gone, and compacts the
// store where much is outdated.
func (s *Server) watchLedger(ctx context.Context) {
	watch := s.etcd.Watchable().NewWatchStream()
	defer watch.Close()
	puts := func(e *mvccpb.Event) bool { return e.Type == mvccpb.PUT }
	from, end := []byte(protocol.Root), []byte(prefixEnd(protocol.Root))
	if _, err := watch.Watch(ctx, 0, from, end, 0, mvcc.FilterFunc(puts)); err != nil {
		return
	}
	book, tick := s.gate.book, time.NewTicker(keep)
	defer tick.Stop()
	last := s.etcd.KV().Rev()
	for {
		select {
		case w := <-watch.Chan():
			book.mu.Lock()
			for _, e := range w.Events {
				book.outdate(string(e.Kv.Key))
			}
			book.mu.Unlock()
		case <-tick.C:
			last = s.compact(ctx, last)
		case <-ctx.Done():
			return
		}
	}
}

// compact removes the history up to a revision if there is much of it. It returns the revision now.
func (s *Server) compact(ctx context.Context, last int64) (now int64) {
	now = s.etcd.KV().Rev()
	ended := s.gate.book.open() // what is granted from here on is not among them
	if r, err := s.etcd.LeaseLeases(ctx, &pb.LeaseLeasesRequest{}); err == nil {
		lives := map[int64]bool{}
		for _, l := range r.Leases {
			lives[l.ID] = true
		}
		ended = slices.DeleteFunc(ended, func(id int64) bool { return lives[id] })
	} else {
		ended = nil
	}
	compacted := false
	if s.gate.book.look(ended) {
		_, err := s.etcd.Compact(ctx, &pb.CompactionRequest{Revision: last})
		compacted = err == nil
	}
	s.gate.book.age(compacted)
	return now
}
