package rendezvous

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"launch/rendezvous/memstore"
)

// store is an etcd under test: of each kind a test gets one for itself.
type store interface {
	connect(t *testing.T) *clientv3.Client
	inside(t *testing.T) *clientv3.Client // one whose requests pass no gate
	stop(t *testing.T)                    // it ends, with all that it held
	restart(t *testing.T)                 // an empty one starts at the same address
}

// inMemory runs a test in a bubble of its own time.
func inMemory(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &bench{t: t, store: memory{memstore.New()}, job: "j", exact: true})
	})
}

// eachStore runs one test of the protocol on every kind of store: in memory,
// where time passes only while all wait, so that what is driven by time is
// exact; on the store inside launch, by its own call; and on an etcd that is there already.
func eachStore(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	t.Run("memory", func(t *testing.T) { inMemory(t, test) })
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, &bench{t: t, store: &embedded{serveHere(t)}, job: "j", asks: true})
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		test(t, &bench{t: t, store: newExternal(t), job: "j"})
	})
}

type memory struct{ s *memstore.Store }

func (m memory) connect(*testing.T) *clientv3.Client { return m.s.Client() }
func (m memory) inside(*testing.T) *clientv3.Client  { return m.s.Client() }
func (m memory) stop(*testing.T)                     { m.s.Stop() }
func (m memory) restart(*testing.T)                  { m.s.Restart() }

func connect(t *testing.T, s Store) *clientv3.Client {
	t.Helper()
	c, err := Connect(short(t, 10*time.Second), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type embedded struct{ srv *Server }

// serveHere is an embedded store of job j that ends with the test.
func serveHere(t *testing.T) *Server {
	t.Helper()
	srv, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

func (e *embedded) connect(t *testing.T) *clientv3.Client {
	t.Helper()
	return connect(t, Store{Endpoints: e.srv.Endpoints(), Job: "j"})
}

func (e *embedded) inside(t *testing.T) *clientv3.Client {
	c := v3client.New(e.srv.etcd)
	t.Cleanup(func() { c.Close() })
	return c
}

func (e *embedded) stop(*testing.T) { e.srv.Close() }

func (e *embedded) restart(t *testing.T) {
	srv, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort(e.srv.Endpoints()[0])}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	e.srv = srv
}

// external is an etcd server of this machine, a process of its own.
type external struct {
	binary, url string
	cmd         *exec.Cmd
}

func newExternal(t *testing.T) *external {
	t.Helper()
	binary, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("needs an etcd server in PATH (package etcd-server)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &external{binary: binary, url: fmt.Sprintf("http://%s", l.Addr())}
	l.Close()
	e.restart(t)
	t.Cleanup(func() { e.stop(t) })
	return e
}

func (e *external) connect(t *testing.T) *clientv3.Client {
	t.Helper()
	return connect(t, Store{Endpoints: []string{e.url}})
}

func (e *external) inside(t *testing.T) *clientv3.Client {
	c := e.connect(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func (e *external) stop(*testing.T) {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.cmd = nil
	}
}

func (e *external) restart(t *testing.T) {
	t.Helper()
	const peer = "unix://peer:0" // in the server's working directory
	e.cmd = exec.Command(e.binary, "--name", "s", "--data-dir", "d", "--log-level", "error",
		"--heartbeat-interval", "50", "--election-timeout", "250", // one member elects itself
		"--listen-client-urls", e.url, "--advertise-client-urls", e.url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "s="+peer)
	e.cmd.Dir = t.TempDir()
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.connect(t).Close() // it answers
}
