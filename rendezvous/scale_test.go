package rendezvous

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// serveEnv makes the test binary a store: so its memory and CPU are its own.
const serveEnv = "RENDEZVOUS_SERVE"

// traffic is what a store has done since its start.
type traffic struct {
	Requests, In, Out float64 // requests and streams begun; bytes
}

// served reads the store's own counters.
func served() (t traffic) {
	families, _ := prometheus.DefaultGatherer.Gather()
	for _, f := range families {
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		switch f.GetName() {
		case "grpc_server_started_total":
			t.Requests = sum
		case "etcd_network_client_grpc_received_bytes_total":
			t.In = sum
		case "etcd_network_client_grpc_sent_bytes_total":
			t.Out = sum
		}
	}
	return t
}

// serveMain hosts a store until its standard input ends, and says for each line
// there what it has done.
func serveMain() int {
	s, err := Serve(context.Background(), "", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Endpoints()[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		_ = json.NewEncoder(os.Stdout).Encode(served())
	}
	s.Drop()
	return 0
}

// storeProcess is a store in a process of its own.
type storeProcess struct {
	endpoint string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
}

func (s *storeProcess) end() {
	s.in.Close()
	_ = s.cmd.Wait()
}

func (s *storeProcess) traffic(b testing.TB) (t traffic) {
	fmt.Fprintln(s.in)
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &t)
	}
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func newStoreProcess(b testing.TB) *storeProcess {
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
	return &storeProcess{strings.TrimSpace(line), cmd, in, read}
}

// rss is the resident memory of the store, in bytes.
func (s *storeProcess) rss() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// cpu is the processor time of the store so far.
func (s *storeProcess) cpu() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	f := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.Atoi(f[11])
	k, _ := strconv.Atoi(f[12])
	return time.Duration(u+k) * 10 * time.Millisecond // USER_HZ is 100
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// start brings n nodes into one world, all starting within 100 ms, and returns
// the time from the first start to the last node's world.
func start(b testing.TB, store *storeProcess, n int) (time.Duration, func()) {
	type one struct {
		s   *Session
		cli *clientv3.Client
	}
	nodes := make([]one, n)
	fails := make(chan error, n)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	job := newID()
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			time.Sleep(rand.N(100 * time.Millisecond))
			cli, err := Connect(ctx, Store{Endpoints: []string{store.endpoint}, Nodes: n}, nil)
			if err != nil {
				fails <- err
				return
			}
			self := Member{Index: -1, Size: n, Host: fmt.Sprint("host", i), Addr: netip.MustParseAddr("10.0.0.1"), PID: 1 + i}
			nodes[i] = one{Enter(ctx, cli, Config{Job: job, Self: self}), cli}
			if _, err := nodes[i].s.Join(ctx, time.Hour); err != nil {
				fails <- err
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-fails:
		b.Fatalf("%d nodes: %v", n, err)
	default:
	}
	return took, func() {
		cancel()
		var wg sync.WaitGroup
		for _, o := range nodes {
			wg.Go(func() { o.s.stop(); <-o.s.done; o.cli.Close() })
		}
		wg.Wait()
	}
}

// c10d is the same start by torch's own rendezvous; 0: it did not come about
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

// BenchmarkRendezvous prints how the start grows with the number of nodes, and
// torch's c10d beside it. It always does the same work, whatever b.N is.
func BenchmarkRendezvous(b *testing.B) {
	debug.SetGCPercent(400) // one heap for all nodes, which have one each
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 17, Max: 1 << 17})
	const rounds = 3
	peer, python := sizesOf(b, "BENCH_C10D", 2, 16), torchPython()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nnodes\ts\tms a node\trequests a node\tKB a node\tstore CPU s\tnodes' CPU s\tstore MB\tc10d s\tratio\t")
	for _, n := range sizesOf(b, "BENCH_SIZES", 2, 16, 64, 256, 1000) {
		var times, theirs []time.Duration
		var storeCPU, nodeCPU time.Duration
		var did traffic
		var rss int64
		for range rounds { // interleaved, so that a busy moment meets both
			store := newStoreProcess(b)
			s0, n0, t0 := store.cpu(), ownCPU(), store.traffic(b)
			took, end := start(b, store, n)
			times = append(times, took)
			storeCPU, nodeCPU, rss, did = store.cpu()-s0, ownCPU()-n0, store.rss(), store.traffic(b)
			did = traffic{did.Requests - t0.Requests, did.In - t0.In, did.Out - t0.Out}
			end()
			store.end()
			if python != "" && slices.Contains(peer, n) {
				theirs = append(theirs, c10d(b, python, n))
			}
		}
		m := mid(times)
		fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%.0f\t%s\t\n", n, m.Seconds(), float64(m.Microseconds())/1000/float64(n),
			did.Requests/float64(n), (did.In+did.Out)/1000/float64(n), storeCPU.Seconds(), nodeCPU.Seconds(), float64(rss)/1e6, beside(theirs, m))
		w.Flush()
	}
	b.ReportMetric(0, "ns/op")
}

func mid(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// beside is c10d's median and how many times ours it is.
func beside(theirs []time.Duration, ours time.Duration) string {
	if len(theirs) == 0 {
		return "-\t-"
	}
	m := mid(theirs)
	if m == 0 {
		return "none\t-"
	}
	return fmt.Sprintf("%.2f\t%.1f", m.Seconds(), m.Seconds()/ours.Seconds())
}
