package rendezvous

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// run is one start of n nodes.
type run struct {
	took             time.Duration // from the first start to the last node's world
	storeCPU, ownCPU time.Duration
	did              traffic
	rss              int64 // of the store
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// descriptors raises their limit as far as it goes, and says how far that is.
func descriptors() int {
	for most := uint64(1 << 20); most > 1<<10; most /= 2 {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}) == nil {
			break
		}
	}
	var l unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return int(l.Cur)
}

// connections is how many n nodes have: one each, as far as there are
// descriptors for them here and at the store, which needs some itself.
func connections(n, descriptors int) int { return max(1, min(n, descriptors-300)) }

// starter is how the nodes of a benchmark start.
type starter interface {
	// connect makes one connection, which one node has, or several.
	connect(ctx context.Context) (*clientv3.Client, error)
	// join brings node i into the world of n, and returns what ends it.
	join(ctx context.Context, cli *clientv3.Client, i int) (end func(), err error)
}

// ours starts nodes as launch does.
type ours struct {
	Store
	job string
}

func (o ours) connect(ctx context.Context) (*clientv3.Client, error) {
	return Connect(ctx, o.Store, nil)
}

func (o ours) join(ctx context.Context, cli *clientv3.Client, i int) (func(), error) {
	self := Member{Index: -1, Size: o.Nodes, Host: fmt.Sprint("host", i), Addr: netip.MustParseAddr("10.0.0.1"),
		PID: 1 + i}
	s := Enter(ctx, cli, Config{Job: o.job, Self: self, OwnStore: o.Later})
	_, err := s.Join(ctx, time.Hour)
	return func() { s.stop(); <-s.done }, err
}

// starterOf is how n nodes start by a store of the kind.
func starterOf(store *storeProcess, kind string, n int) starter {
	where := store.Store
	where.Nodes, where.Later = n, where.Job != "" // as internal/companion does
	if kind == prototype {
		return naive{where, newID()}
	}
	return ours{where, cmp.Or(where.Job, newID())}
}

// start brings n nodes into one world, all starting within 100 ms and, of
// their own, in their turn. The nodes run until they are ended.
func start(b testing.TB, store *storeProcess, kind string, n, conns int) (run, func(), error) {
	how := starterOf(store, kind, n)
	ends, clients := make([]func(), n), make([]func() (*clientv3.Client, error), conns)
	fails := make(chan error, n)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	for i := range clients {
		clients[i] = sync.OnceValues(func() (*clientv3.Client, error) { return how.connect(ctx) })
	}
	runtime.GC() // what the last run left is not this one's
	store0, own0, did0 := store.cpu(), ownCPU(), store.did(b)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			time.Sleep(rand.N(100 * time.Millisecond))
			cli, err := clients[i%conns]()
			if err == nil {
				ends[i], err = how.join(ctx, cli, i)
			}
			if err != nil {
				fails <- err
			}
		})
	}
	wg.Wait()
	r := run{took: time.Since(began), storeCPU: store.cpu() - store0, ownCPU: ownCPU() - own0, rss: store.rss(),
		did: store.did(b).since(did0)}
	var err error
	select {
	case err = <-fails:
	default:
	}
	return r, func() {
		cancel()
		for _, end := range ends {
			if end != nil {
				wg.Go(end)
			}
		}
		wg.Wait()
		for _, client := range clients {
			if cli, _ := client(); cli != nil {
				wg.Go(func() { cli.Close() })
			}
		}
		wg.Wait()
	}, err
}

// c10d is the same start by torch's own rendezvous; 0: it failed
// within the limit.
func c10d(b testing.TB, python string, n int) time.Duration {
	const limit = 200
	out, err := exec.Command(python, "testdata/c10d.py", strconv.Itoa(n), strconv.Itoa(limit)).Output()
	s, perr := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if len(out) == 0 && err != nil {
		b.Logf("c10d with %d nodes: %v", n, err)
	}
	if perr != nil {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// torchPython is a Python that has torch, or "".
func torchPython() string {
	for _, p := range []string{os.Getenv("BENCH_PYTHON"), "../.venv/bin/python", "python3"} {
		if p != "" && exec.Command(p, "-c", "import torch.distributed").Run() == nil {
			return p
		}
	}
	return ""
}

// sizesOf reads a list of numbers of nodes from a variable.
func sizesOf(b *testing.B, variable string, or ...int) []int {
	text := os.Getenv(variable)
	if text == "" {
		return or
	}
	var sizes []int
	for w := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			b.Fatalf("%s: %v", variable, err)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// stores are the kinds of store that can be had here.
func stores() []string {
	kinds := []string{embeddedStore, prototype, embeddedTLS, externalEtcd}
	if text := os.Getenv("BENCH_STORES"); text != "" {
		kinds = strings.Split(text, ",")
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == externalEtcd })
	}
	return kinds
}

// fits returns whether n nodes and their store have room in memory.
func fits(n int) bool {
	const nodeKB = 600 // seen with 10,000: 500 here and 130 at the store
	return kilobytes("/proc/meminfo", "MemAvailable:") > int64(n)*nodeKB+1<<20
}

// rounds is how often n nodes start.
func rounds(n int) int {
	if n > 1000 {
		return 3
	}
	return 5
}

// BenchmarkRendezvous prints how the start grows with the number of nodes, and
// a prototype, torch's c10d and the public workaround as well. It always does the same
// work, whatever b.N is.
func BenchmarkRendezvous(b *testing.B) {
	// All nodes have one heap here. One of its own allocates 0.13 MB until it has
	// its world, and Go collects for the first time at 4 MB: each start collects
	// before its clock runs, and then no more.
	debug.SetGCPercent(-1)
	files := descriptors()
	peer, python := sizesOf(b, "BENCH_C10D", 2, 16), torchPython()
	w := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nnodes\tstore\ts\tms a node\trequests a node\tKB a node\t"+
		"store CPU s\tnodes' CPU s\tstore MB\tsleep s\tc10d s\tratio\t")
	for _, n := range sizesOf(b, "BENCH_SIZES", 2, 16, 64, 256, 1000) {
		conns := connections(n, files)
		if conns < n {
			fmt.Printf("%d nodes share %d connections: there are %d descriptors\n", n, conns, files)
		}
		if !fits(n) {
			fmt.Printf("%d nodes: not enough memory\n", n)
			continue
		}
		kinds := stores()
		runs, theirs := make([][]run, len(kinds)), []time.Duration(nil)
		for round := range 1 + rounds(n) { // interleaved, so that a busy moment meets all
			for i, kind := range kinds {
				if r, err := once(b, kind, n, conns); err != nil {
					fmt.Printf("%d nodes, %s: %v\n", n, kind, err)
				} else if round > 0 { // the first gets its memory from a virtual machine's host
					runs[i] = append(runs[i], r)
				}
			}
			if round > 0 && python != "" && slices.Contains(peer, n) {
				theirs = append(theirs, c10d(b, python, n))
			}
		}
		for i, kind := range kinds {
			if len(runs[i]) > 0 {
				fmt.Fprintln(w, row(n, kind, runs[i], theirs))
			}
		}
		w.Flush()
	}
	b.ReportMetric(0, "ns/op")
}

// once is one start by a store of its own.
func once(b testing.TB, kind string, n, conns int) (run, error) {
	store := newStoreProcess(b, kind)
	defer store.end()
	r, end, err := start(b, store, kind, n, conns)
	end()
	return r, err
}

// row is one row of the table: medians, each for itself.
func row(n int, kind string, runs []run, theirs []time.Duration) string {
	mid := func(of func(run) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	took, each := mid(func(r run) float64 { return r.took.Seconds() }), float64(n)
	line := fmt.Sprintf("%d\t%s\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%.0f\t%d\t", n, kind, took, took*1000/each,
		mid(func(r run) float64 { return r.did.Requests / each }),
		mid(func(r run) float64 { return (r.did.In + r.did.Out) / 1000 / each }),
		mid(func(r run) float64 { return r.storeCPU.Seconds() }),
		mid(func(r run) float64 { return r.ownCPU.Seconds() }),
		mid(func(r run) float64 { return float64(r.rss) / 1e6 }),
		30*n) // sleep $((INDEX * 30 + 30)), for the last index
	if len(theirs) == 0 {
		return line + "-\t-\t"
	}
	slices.Sort(theirs)
	m := theirs[len(theirs)/2].Seconds()
	if m == 0 {
		return line + "none\t-\t"
	}
	return line + fmt.Sprintf("%.2f\t%.1f\t", m, m/took)
}

// BenchmarkRendezvousKept prints what N nodes that have started cost their
// store from then on.
func BenchmarkRendezvousKept(b *testing.B) {
	const quiet, long = LeaseTTL, 15 * time.Second
	debug.SetGCPercent(1000)
	files := descriptors()
	w := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nnodes\tstore\tmessages/s\tKB/s\tstore CPU %\tnodes' CPU %\tstore MB\t")
	for _, n := range sizesOf(b, "BENCH_KEPT", 1000) {
		if !fits(n) {
			fmt.Printf("%d nodes: not enough memory\n", n)
			continue
		}
		for _, kind := range stores() {
			if kind == prototype {
				continue
			}
			store := newStoreProcess(b, kind)
			_, end, err := start(b, store, kind, n, connections(n, files))
			if err != nil {
				b.Fatal(err)
			}
			time.Sleep(quiet)
			cpu, own, did := store.cpu(), ownCPU(), store.did(b)
			time.Sleep(long)
			each, s := store.did(b).since(did), long.Seconds()
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t%.0f\t\n", n, kind, each.Messages/s, (each.In+each.Out)/1000/s,
				100*(store.cpu()-cpu).Seconds()/s, 100*(ownCPU()-own).Seconds()/s, float64(store.rss())/1e6)
			w.Flush()
			end()
			store.end()
		}
	}
	b.ReportMetric(0, "ns/op")
}
