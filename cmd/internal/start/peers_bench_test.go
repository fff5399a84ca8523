package start

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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
	"testing"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"launch/fabric"
	"launch/fabric/machine/machinetest"
	"launch/internal/job"
	"launch/internal/setting"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
	"launch/preflight/peers"
	"launch/rendezvous"
)

// serveEnv makes the test binary a store, until its standard input ends.
const serveEnv = "LAUNCH_BENCH_SERVE"

// benchJob is the job of that store.
const benchJob = "bench"

// serveMain serves the store. For each line of its standard input it prints how many
// requests and bytes the store has served.
func serveMain() int {
	s, err := rendezvous.Serve(context.Background(), benchJob, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Endpoints()[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		sum := map[string]float64{}
		families, _ := prometheus.DefaultGatherer.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				sum[f.GetName()] += m.GetCounter().GetValue()
			}
		}
		bytes := sum["etcd_network_client_grpc_received_bytes_total"] + sum["etcd_network_client_grpc_sent_bytes_total"]
		fmt.Printf("%.0f %.0f\n", sum["grpc_server_started_total"], bytes)
	}
	s.Drop()
	return 0
}

// benchStore is an embedded store in its own process.
type benchStore struct {
	rendezvous.Store
	pid int
	ask func() (requests, bytes float64)
	end func()
}

func newBenchStore(b *testing.B) benchStore {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"=1", "TMPDIR="+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	read := bufio.NewReader(out)
	line, err := read.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	s := benchStore{Store: rendezvous.Store{Endpoints: []string{strings.TrimSpace(line)}, Job: benchJob, Later: true},
		pid: cmd.Process.Pid}
	s.ask = func() (requests, bytes float64) {
		fmt.Fprintln(in)
		line, _ := read.ReadString('\n')
		_, _ = fmt.Sscan(line, &requests, &bytes)
		return requests, bytes
	}
	s.end = func() { in.Close(); _ = cmd.Wait() }
	return s
}

// simulated is one node: it does what launch and its companion do from the first
// request to the store to the decision.
type simulated struct {
	began, joined, called, decided time.Time
	took                           time.Duration // of its calls
	calls                          []calls.Call
	post                           int // bytes
	decision                       peers.Decision
}

// world is n nodes on one store.
type world struct {
	store rendezvous.Store
	nodes []simulated
	facts fabric.Node
	turn  chan struct{} // held by the nodes that call; see atATime

	mu   sync.Mutex
	ends []func()
}

// end registers a function for close.
func (w *world) end(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, f)
}

func (w *world) node(ctx context.Context, i int) error {
	n, size := &w.nodes[i], len(w.nodes)
	n.began = time.Now()
	lo := netip.MustParseAddr("127.0.0.1")
	id := fmt.Sprintf("%026d", i)
	l, err := sidechannel.Listen(lo, nil, id, nil)
	if err != nil {
		return err
	}
	w.end(l.Close)
	where := w.store
	where.Nodes = size
	cli, err := rendezvous.Connect(ctx, where, nil)
	if err != nil {
		return err
	}
	self := rendezvous.Member{ID: id, Index: -1, Size: size, Host: fmt.Sprintf("node-%04d", i), Addr: lo, PID: 1 + i,
		Port: 29500, Peer: l.Port(), First: i == 0}
	s := rendezvous.Enter(ctx, cli, rendezvous.Config{Job: benchJob, Self: self, Hosted: true, OwnStore: true})
	w.end(func() { s.Leave(""); cli.Close() })
	joined, err := s.Join(ctx, time.Hour)
	if err != nil {
		return err
	}
	n.joined = time.Now()
	w.turn <- struct{}{}
	began := time.Now()
	n.calls, _, err = calls.Caller{Node: w.facts}.Make(ctx, joined, joined.Partners)
	<-w.turn
	if err != nil {
		return err
	}
	n.called = time.Now()
	n.took = n.called.Sub(began)
	j := job.Job{Nodes: setting.Value[int]{V: size}}
	mine, err := json.Marshal(peers.Post{Rank: joined.Rank, Name: self.Host, ID: id, NProc: "8", Version: "v1",
		Command: "torchrun train.py",
		Loads:   loads(w.facts), Traits: traits(j, w.facts, lo, nil), Calls: n.calls})
	if err != nil {
		return err
	}
	n.post = len(mine)
	out, err := s.Round(ctx, GoRound, mine, decideAll)
	if err != nil {
		return err
	}
	n.decided = time.Now()
	return json.Unmarshal(out, &n.decision)
}

// decideAll decides as launch does on the leader.
func decideAll(raw [][]byte) ([]byte, bool) {
	posts := make([]peers.Post, len(raw))
	for i, b := range raw {
		_ = json.Unmarshal(b, &posts[i])
	}
	d := peers.Decide(posts, nil)
	b, _ := json.Marshal(d)
	return b, d.Go
}

// close releases what the nodes hold.
func (w *world) close() {
	var wg sync.WaitGroup
	for _, f := range w.ends {
		wg.Go(f)
	}
	wg.Wait()
}

// atATime is how many nodes call at the same time. On a cluster all nodes do, each on
// its own processors. In this benchmark a thousand share two, and a node that waits
// would seem not to answer.
const atATime = 64

// late is how long the last node keeps the others waiting.
const late = 3 * time.Second

// run starts all nodes within 100 ms, or all but one.
func (w *world) run(oneLate bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fails := make(chan error, len(w.nodes))
	var wg sync.WaitGroup
	for i := range w.nodes {
		wait := rand.N(100 * time.Millisecond)
		if oneLate && i == len(w.nodes)-1 {
			wait = late
		}
		wg.Go(func() {
			time.Sleep(wait)
			if err := w.node(ctx, i); err != nil {
				fails <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-fails:
		return err
	default:
		return nil
	}
}

// last returns the latest of a time of all nodes.
func (w *world) last(of func(simulated) time.Time) (t time.Time) {
	for _, n := range w.nodes {
		if of(n).After(t) {
			t = of(n)
		}
	}
	return t
}

// measured is one start; times are in seconds.
type measured struct {
	whole, join, calls, decision float64 // after the last node's arrival: all, and its parts
	cpu, storeCPU                float64
	own, slowest                 float64 // ms, of a node's own calls: the median and the longest
	requests, kilobytes          float64 // to and from the store, a node
	post                         float64 // bytes
}

func oneStart(b *testing.B, facts fabric.Node, n int, oneLate bool) measured {
	store := newBenchStore(b)
	defer store.end()
	w := &world{store: store.Store, nodes: make([]simulated, n), facts: facts, turn: make(chan struct{}, atATime)}
	runtime.GC() // garbage of the previous start
	before := cpuOf(os.Getpid())
	requests, bytes := store.ask()
	err := w.run(oneLate)
	own, theirs := cpuOf(os.Getpid())-before, cpuOf(store.pid)
	r2, b2 := store.ask()
	w.close()
	if err != nil {
		b.Fatalf("%d nodes: %v", n, err)
	}
	for i, node := range w.nodes {
		if d := node.decision; !d.Go || len(d.Findings)+len(d.Nodes) > 0 {
			b.Fatalf("%d nodes: a false alarm, as node %d read it: %d unfit; %.1000v", n, i, len(d.Unfit), d.Findings)
		}
	}
	arrived := w.last(func(s simulated) time.Time { return s.began })
	joined := w.last(func(s simulated) time.Time { return s.joined })
	called := w.last(func(s simulated) time.Time { return s.called })
	decided := w.last(func(s simulated) time.Time { return s.decided })
	slices.SortFunc(w.nodes, func(a, b simulated) int { return cmp.Compare(a.took, b.took) })
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return measured{
		decided.Sub(arrived).Seconds(), joined.Sub(arrived).Seconds(), called.Sub(joined).Seconds(), decided.Sub(called).
			Seconds(),
		own.Seconds(), theirs.Seconds(), ms(w.nodes[n/2].took), ms(w.nodes[n-1].took),
		(r2 - requests) / float64(n), (b2 - bytes) / 1000 / float64(n), float64(w.nodes[n/2].post),
	}
}

// cpuOf returns the processor time of a process so far.
func cpuOf(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.Atoi(f[11])
	k, _ := strconv.Atoi(f[12])
	return time.Duration(u+k) * 10 * time.Millisecond // USER_HZ is 100
}

// BenchmarkPreflight prints how long the checks between nodes take, by the number
// of nodes. All nodes are in this process and the store is in another, with a
// socket for everything. It always does the same work, whatever b.N is.
func BenchmarkPreflight(b *testing.B) {
	debug.SetGCPercent(1000) // a single node never collects before its decision
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	facts := machinetest.Node(b, "h100-ib-ndr-bond")
	for i := range facts.Interfaces {
		if facts.Interfaces[i].Kind == "loopback" {
			facts.Interfaces[i].MTU = 9000 // of the fabric that it represents
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nnodes\tarrival\ts\tjoin s\tcalls s\tdecision s\ta node's calls ms\tslowest ms\tnodes' CPU "+
		"s\tstore CPU s\trequests a node\tKB a node\tpost B\tload\t")
	sizes := strings.Split(cmp.Or(os.Getenv("BENCH_SIZES"), "2,16,64,256,1000"), ",")
	for _, size := range sizes {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatalf("BENCH_SIZES: %v", err)
		}
		for _, oneLate := range []bool{false, true} {
			var all []measured
			for range 5 {
				all = append(all, oneStart(b, facts, n, oneLate))
			}
			mid := func(of func(measured) float64) float64 {
				var vs []float64
				for _, m := range all {
					vs = append(vs, of(m))
				}
				slices.Sort(vs)
				return vs[len(vs)/2]
			}
			load, _ := os.ReadFile("/proc/loadavg")
			fmt.Fprintf(w, "%d\t%s\t", n, map[bool]string{false: "all at once", true: "one late"}[oneLate])
			for _, c := range []struct {
				format string
				of     func(measured) float64
			}{
				{"%.2f", func(m measured) float64 { return m.whole }},
				{"%.2f", func(m measured) float64 { return m.join }},
				{"%.2f", func(m measured) float64 { return m.calls }},
				{"%.2f", func(m measured) float64 { return m.decision }},
				{"%.1f", func(m measured) float64 { return m.own }},
				{"%.0f", func(m measured) float64 { return m.slowest }},
				{"%.2f", func(m measured) float64 { return m.cpu }},
				{"%.2f", func(m measured) float64 { return m.storeCPU }},
				{"%.1f", func(m measured) float64 { return m.requests }},
				{"%.1f", func(m measured) float64 { return m.kilobytes }},
				{"%.0f", func(m measured) float64 { return m.post }},
			} {
				fmt.Fprintf(w, c.format+"\t", mid(c.of))
			}
			fmt.Fprintf(w, "%s\t\n", strings.Fields(string(load))[0])
			w.Flush()
		}
	}
	b.ReportMetric(0, "ns/op")
}
