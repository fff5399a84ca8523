package rendezvous

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"launch/internal/secret"
)

// What a benchmark can have as its store, each a process of its own, so that
// its memory and CPU are its own.
const (
	embeddedStore = "embedded"
	embeddedTLS   = "with TLS"  // as LAUNCH_TOKEN makes it
	prototype     = "prototype" // embedded; and the nodes are those of naive
	externalEtcd  = "etcd"      // the one of this machine: it syncs its files to the disk
)

// serveEnv makes the test binary a store, of the kind that it says.
const serveEnv = "RENDEZVOUS_SERVE"

const (
	benchToken = "a token for benchmarks"
	benchJob   = "bench"
)

// traffic is what a store has done since its start.
type traffic struct {
	Requests, Messages, In, Out float64 // requests and streams begun; messages received; bytes
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.Requests - before.Requests, t.Messages - before.Messages, t.In - before.In, t.Out - before.Out}
}

// add counts one of the counters that every etcd has.
func (t *traffic) add(name string, value float64) {
	switch name {
	case "grpc_server_started_total":
		t.Requests += value
	case "grpc_server_msg_received_total":
		t.Messages += value
	case "etcd_network_client_grpc_received_bytes_total":
		t.In += value
	case "etcd_network_client_grpc_sent_bytes_total":
		t.Out += value
	}
}

// counter counts what the store in this process does.
type counter struct{ requests, messages, in, out atomic.Int64 }

func (c *counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *counter) HandleConn(context.Context, stats.ConnStats)                       {}

func (c *counter) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.Begin:
		c.requests.Add(1)
	case *stats.InPayload:
		c.messages.Add(1)
		c.in.Add(int64(s.Length))
	case *stats.OutPayload:
		c.out.Add(int64(s.Length))
	}
}

func (c *counter) traffic() traffic {
	return traffic{float64(c.requests.Load()), float64(c.messages.Load()), float64(c.in.Load()), float64(c.out.Load())}
}

// serveMain hosts a store until its standard input ends, and says for each line
// there what it has done.
func serveMain() int {
	var keys *TLS
	if os.Getenv(serveEnv) == embeddedTLS {
		keys = benchKeys()
	}
	var c counter
	s, err := serve(context.Background(), benchJob, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, keys,
		grpc.StatsHandler(&c))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Endpoints()[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		_ = json.NewEncoder(os.Stdout).Encode(c.traffic())
	}
	s.Drop()
	return 0
}

func benchKeys() *TLS {
	k := secret.Token(benchToken).Keys("bench")
	return &TLS{Client: k.Client(), Server: k.Server()}
}

// storeProcess is a store in a process of its own.
type storeProcess struct {
	Store
	cmd     *exec.Cmd
	end     func()
	traffic func() (traffic, error)
}

// did is what the store has done so far.
func (s *storeProcess) did(b testing.TB) traffic {
	t, err := s.traffic()
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func newStoreProcess(b testing.TB, kind string) *storeProcess {
	s, err := startStore(b.TempDir(), kind)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func startStore(dir, kind string) (*storeProcess, error) {
	if kind == externalEtcd {
		return etcdProcess(dir)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+kind, "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	read := bufio.NewReader(out)
	line, err := read.ReadString('\n')
	s := &storeProcess{Store: Store{Endpoints: []string{strings.TrimSpace(line)}, Job: benchJob}, cmd: cmd}
	if kind == embeddedTLS {
		s.TLS = benchKeys()
	}
	s.end = func() { in.Close(); _ = cmd.Wait() }
	s.traffic = func() (t traffic, err error) {
		fmt.Fprintln(in)
		line, err := read.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		return t, err
	}
	return s, err
}

// etcdProcess starts the etcd of this machine unchanged.
func etcdProcess(dir string) (*storeProcess, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	url, peer := "http://"+l.Addr().String(), "unix://peer:0"
	l.Close()
	cmd := exec.Command("etcd", "--name", "s", "--data-dir", "d", "--log-level", "error",
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "s="+peer)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &storeProcess{Store: Store{Endpoints: []string{url}}, cmd: cmd}
	s.end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	s.traffic = func() (traffic, error) { return scrape(url + "/metrics") }
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cli, err := Connect(ctx, s.Store, nil)
	if err == nil {
		cli.Close()
	}
	return s, err
}

// scrape reads the counters of an etcd from its page.
func scrape(url string) (t traffic, err error) {
	r, err := http.Get(url)
	if err != nil {
		return t, err
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	for line := range strings.Lines(string(page)) {
		if f := strings.Fields(line); len(f) > 1 { // no value of a label has a space
			name, _, _ := strings.Cut(f[0], "{")
			v, _ := strconv.ParseFloat(f[len(f)-1], 64)
			t.add(name, v)
		}
	}
	return t, err
}

// rss is the resident memory of the store, in bytes.
func (s *storeProcess) rss() int64 {
	return kilobytes(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid), "VmRSS:") << 10
}

// kilobytes reads a line of proc's.
func kilobytes(path, name string) int64 {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb
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
