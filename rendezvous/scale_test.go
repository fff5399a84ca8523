package rendezvous

import (
	"bufio"
	"context"
	"fmt"
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

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// serveEnv makes the test binary a store: so its memory and CPU are its own.
const serveEnv = "RENDEZVOUS_SERVE"

// serveMain hosts a store until its standard input ends.
func serveMain() {
	s, err := Serve(context.Background(), "", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Endpoints()[0])
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	s.Drop()
	os.Exit(0)
}

// storeProcess is a store in a process of its own.
type storeProcess struct {
	endpoint string
	cmd      *exec.Cmd
	end      func()
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &storeProcess{strings.TrimSpace(line), cmd, func() { in.Close(); _ = cmd.Wait() }}
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
			time.Sleep(rand.N(100*time.Millisecond) + Stagger(n))
			cli, err := Connect(ctx, Store{Endpoints: []string{store.endpoint}}, nil)
			if err != nil {
				fails <- err
				return
			}
			self := Member{Index: -1, Size: n, Host: fmt.Sprint("host", i), Addr: netip.MustParseAddr("10.0.0.1"), PID: 1 + i}
			nodes[i] = one{Enter(ctx, cli, Config{Job: job, Self: self}), cli}
			if _, err := nodes[i].s.Join(ctx); err != nil {
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

// BenchmarkRendezvous prints how the start grows with the number of nodes.
func BenchmarkRendezvous(b *testing.B) {
	sizes := []int{2, 16, 64, 256, 1000}
	if text := os.Getenv("RENDEZVOUS_SIZES"); text != "" {
		sizes = nil
		for w := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(w)
			if err != nil {
				b.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	}
	debug.SetGCPercent(400) // one heap for all nodes, which have one each
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 17, Max: 1 << 17})
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nnodes\ts\tms a node\tstore CPU s\tnodes' CPU s\tstore RSS MB\t")
	for _, n := range sizes {
		rounds := 3
		var times []time.Duration
		var storeCPU, nodeCPU time.Duration
		var rss int64
		for range rounds {
			store := newStoreProcess(b)
			s0, n0 := store.cpu(), ownCPU()
			took, end := start(b, store, n)
			times = append(times, took)
			storeCPU, nodeCPU, rss = store.cpu()-s0, ownCPU()-n0, store.rss()
			end()
			store.end()
		}
		slices.Sort(times)
		m := times[len(times)/2]
		fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", n, m.Seconds(), float64(m.Microseconds())/1000/float64(n), storeCPU.Seconds(), nodeCPU.Seconds(), float64(rss)/1e6)
		w.Flush()
	}
	b.ReportMetric(0, "ns/op")
}
