package rendezvous

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/internal/secret"
)

func TestConnectRefusesAnotherJobsStore(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	_, err := Connect(short(t, 5*time.Second), Store{Endpoints: srv.Endpoints(), Job: "other"}, nil)
	var other *OtherStoreError
	if !errors.As(err, &other) || other.Job != "j" {
		t.Fatalf("got %v, want the store of job j", err)
	}
}

func TestConnectSaysWhyNothingAnswers(t *testing.T) {
	var reported []string
	_, err := Connect(short(t, time.Second), Store{Endpoints: []string{"127.0.0.1:1"}},
		func(err error) { reported = append(reported, err.Error()) })
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	if len(reported) != 1 {
		t.Errorf("got %q, want the one reason once", reported)
	}
}

func TestConnectSaysThatSomethingElseListens(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for _, at := range []string{web.URL, web.Listener.Addr().String()} {
		_, err := Connect(short(t, time.Second), Store{Endpoints: []string{at}}, nil)
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "but an HTTP server answers at 127.0.0.1:") {
			t.Errorf("%s: got %v", at, err)
		}
	}
}

// TestConnectTellsEachReasonOnce: what hangs up, as a proxy in front of a dead
// etcd does, is met from another port at each try.
func TestConnectTellsEachReasonOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tries := make(chan int, 1)
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				tries <- n
				return
			}
			n++
			_ = c.(*net.TCPConn).SetLinger(0) // a reset
			c.Close()
		}
	}()
	reported := map[string]int{}
	_, err = Connect(short(t, 2*time.Second), Store{Endpoints: []string{"https://" + l.Addr().String()}},
		func(err error) { reported[err.Error()]++ })
	l.Close()
	if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "->") {
		t.Errorf("got %v", err)
	}
	for why, n := range reported {
		if n > 1 || strings.Contains(why, "->") {
			t.Errorf("got %d times: %s", n, why)
		}
	}
	if n := <-tries; n < 3 || len(reported) == 0 {
		t.Errorf("%d tries, reported %v: nothing is shown", n, reported)
	}
}

func TestServeSaysThatThePortIsTaken(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	_, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort(srv.Endpoints()[0])}, nil)
	if !errors.Is(err, ErrPortTaken) {
		t.Errorf("got %v", err)
	}
	left, _ := os.ReadDir(os.Getenv("TMPDIR"))
	if len(left) != 1 {
		t.Errorf("%d store folders, want the one of the running store", len(left))
	}
}

// TestStoreSpeaksNothingButGRPC: etcd's own pages (metrics, health, debug) are
// for no process on the network.
func TestStoreSpeaksNothingButGRPC(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	if got := srv.Endpoints(); len(got) != 1 || !strings.HasPrefix(got[0], "127.0.0.1:") {
		t.Fatalf("the store is at %q, want its one address", got)
	}
	r, err := http.Get("http://" + srv.Endpoints()[0] + "/metrics")
	if err == nil {
		r.Body.Close()
		t.Errorf("/metrics is answered: %s", r.Status)
	}
}

// TestStoreServesNothingThatNoNodeNeeds: members, users and snapshots of the store's etcd are
// for no process on the network.
func TestStoreServesNothingThatNoNodeNeeds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, err := Connect(short(t, 5*time.Second), Store{Endpoints: serveHere(t).Endpoints(), Job: "j"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := short(t, 5*time.Second)
	for name, call := range map[string]func() error{
		"members": func() error { _, err := c.MemberList(ctx); return err },
		"users":   func() error { _, err := c.AuthEnable(ctx); return err },
		"defrag":  func() error { _, err := c.Defragment(ctx, c.Endpoints()[0]); return err },
		"snapshot": func() error {
			r, err := c.Snapshot(ctx)
			if err == nil {
				_, err = r.Read(make([]byte, 1))
			}
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// keysOfToken are two different secrets, by internal/secret's rules; here any
// certificate would do.
func keysOfToken(t *testing.T, token string) *TLS {
	t.Helper()
	k := secret.Token(token).Keys("j")
	return &TLS{Client: k.Client(), Server: k.Server()}
}

func TestStoreLetsInWhoSharesItsSecretAndTellsTheOthers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ours, other := keysOfToken(t, "0123456789abcdef"), keysOfToken(t, "fedcba9876543210")
	serve := func(k *TLS) *Server {
		s, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, k)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	locked, open := serve(ours), serve(nil)
	for _, tc := range []struct {
		name string
		srv  *Server
		keys *TLS
		want string
	}{
		{"the same", locked, ours, ""},
		{"another", locked, other, "not the one of the store"},
		{"none here", locked, nil, "this node has none"},
		{"none there", open, ours, "the store has none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Connect(short(t, 15*time.Second), Store{Endpoints: tc.srv.Endpoints(), Job: "j", TLS: tc.keys}, nil)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				return
			}
			if !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// etcd panics where it cannot write its files: ulimit -f is lifted, or an error names it.
func TestTheLimitOfAFilesSizeIsLifted(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if before.Max < storeRoom {
		t.Skipf("ulimit -f is %d bytes here", before.Max)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) })
	for _, c := range []struct{ soft, want uint64 }{{storeRoom / 2, storeRoom}, {storeRoom * 2, storeRoom * 2}} {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: c.soft, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		var now unix.Rlimit
		if err := errors.Join(largeFiles(), unix.Getrlimit(unix.RLIMIT_FSIZE, &now)); err != nil || now.Cur != c.want {
			t.Errorf("of %d bytes: %d, %v; want %d", c.soft, now.Cur, err, c.want)
		}
	}
}

func TestStoresThatStartAtOnceDoNotSweepEachOther(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				dir, lock, err := storeDir()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
					t.Errorf("its folder was swept away: %v", err)
				}
				_ = os.RemoveAll(dir)
				_ = lock.Close()
			}
		})
	}
	wg.Wait()
}
