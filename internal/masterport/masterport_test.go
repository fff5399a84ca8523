package masterport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

var proc = os.DirFS("/proc")

// free is a port that nothing uses.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func hold(t *testing.T, port int) *Held {
	t.Helper()
	h, err := Hold(port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// listen binds and listens; with reuse as torch does, without as most others.
func listen(network, host string, port int, reuse bool) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		v := 0
		if reuse {
			v = 1
		}
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, v)
		}), err)
	}}
	return lc.Listen(context.Background(), network, net.JoinHostPort(host, fmt.Sprint(port)))
}

var addresses = []struct{ network, host string }{
	{"tcp4", "0.0.0.0"}, {"tcp4", "127.0.0.1"}, {"tcp", "::"}, {"tcp6", "::1"},
}

func TestHeldPortRefusesConnections(t *testing.T) {
	h := hold(t, free(t))
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(h.Port)))
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: got %v, want connection refused", host, err)
		}
	}
	if on, err := process.Listening(h.Port); on || err != nil {
		t.Errorf("a held port looks like a store that listens: %v, %v", on, err)
	}
}

func TestStoreListensWithTheHolder(t *testing.T) {
	for _, a := range addresses {
		t.Run(a.host, func(t *testing.T) {
			h := hold(t, free(t))
			l, err := listen(a.network, a.host, h.Port, true)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			c, err := net.Dial(a.network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if on, err := process.Listening(h.Port); !on || err != nil {
				t.Errorf("the store is not seen to listen: %v, %v", on, err)
			}
		})
	}
}

func TestOrdinaryBindFindsHeldPortInUse(t *testing.T) {
	for _, a := range addresses {
		t.Run(a.host, func(t *testing.T) {
			h := hold(t, free(t))
			l, err := listen(a.network, a.host, h.Port, false)
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("got %v, want address in use", err)
			}
		})
	}
}

func TestHoldFindsListenerAndNamesIt(t *testing.T) {
	for _, a := range addresses {
		t.Run(a.host, func(t *testing.T) {
			l, err := listen(a.network, a.host, 0, true)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			checkTaken(t, l.Addr().(*net.TCPAddr).Port)
		})
	}
}

func TestSecondLaunchIsRefusedUntilTheFirstReleasesThePort(t *testing.T) {
	h := hold(t, free(t))
	checkTaken(t, h.Port)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	hold(t, h.Port)
	if by := look(t, Everywhere(free(t))); by != (Use{}) {
		t.Errorf("a free port is held by %+v", by)
	}
}

// checkTaken wants port taken, by this process.
func checkTaken(t *testing.T, port int) {
	t.Helper()
	h, err := Hold(port)
	if err == nil {
		h.Close()
	}
	if !errors.Is(err, ErrTaken) {
		t.Errorf("got %v, want ErrTaken", err)
	}
	by, want := look(t, Everywhere(port)), fmt.Sprintf("(pid %d)", os.Getpid())
	if !by.Taken || !strings.HasSuffix(by.By, want) {
		t.Errorf("held by %+v, want %q", by, want)
	}
}

func look(t *testing.T, at netip.AddrPort) Use {
	t.Helper()
	u, err := Look(proc, at)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestLookDistinguishesALaunch(t *testing.T) {
	h := hold(t, free(t))
	if u := look(t, Everywhere(h.Port)); !u.Taken || !u.Launch {
		t.Errorf("a port that a launch holds: %+v", u)
	}
	l, err := listen("tcp4", "127.0.0.1", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if u := look(t, Everywhere(port)); !u.Taken || u.Launch || u.By == "" {
		t.Errorf("a port that this test listens on: %+v", u)
	}
	other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), uint16(port))
	if u := look(t, other); u.Taken {
		t.Errorf("another address with the same port: %+v", u)
	}
}

func TestLookLeavesThePortAlone(t *testing.T) {
	p := free(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			_, _ = Look(fstest.MapFS{}, Everywhere(p))
		}
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		h, err := Hold(p)
		if err != nil {
			t.Fatal(err)
		}
		h.Close()
	}
}

func TestHeldPortPassesToAnotherProcess(t *testing.T) {
	h := hold(t, free(t))
	keeper := exec.CommandContext(t.Context(), "sleep", "60")
	keeper.ExtraFiles = []*os.File{h.socket, h.mutex}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if _, err := Hold(h.Port); !errors.Is(err, ErrTaken) {
		t.Errorf("after handing over: got %v, want ErrTaken", err)
	}
	if u := look(t, Everywhere(h.Port)); !u.Launch || u.By != fmt.Sprintf("sleep (pid %d)", keeper.Process.Pid) {
		t.Errorf("held by %+v, want the keeper", u)
	}
	keeper.Process.Kill()
	keeper.Wait()
	hold(t, h.Port)
}

func TestPickKeepsItsOrder(t *testing.T) {
	lo := freeRange(t)
	for _, tc := range []struct {
		name            string
		first, last, hi int
		want            []int // one after the other
	}{
		{"the range", 0, 0, lo + 1, []int{lo, lo + 1}},
		{"one is preferred", lo + 2, 0, lo + 1, []int{lo + 2, lo, lo + 1}},
		{"one is left to others", 0, lo, lo + 2, []int{lo + 1, lo + 2, lo}},
		{"what is left to others is outside", 0, lo + 2, lo + 1, []int{lo, lo + 1}},
	} {
		var held []*Held
		for _, want := range tc.want {
			h, err := Pick(tc.first, tc.last, lo, tc.hi)
			if err != nil || h.Port != want {
				t.Fatalf("%s: got %v, %v, want %d", tc.name, h, err, want)
			}
			held = append(held, h)
		}
		if _, err := Pick(tc.first, tc.last, lo, tc.hi); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: got %v, want ErrTaken", tc.name, err)
		}
		for _, h := range held {
			h.Close()
		}
	}
}

// freeRange is the first of three free ports in a row.
func freeRange(t *testing.T) int {
	t.Helper()
search:
	for range 100 {
		lo := free(t)
		for p := lo; p < lo+3; p++ {
			h, err := Hold(p)
			if err != nil {
				continue search
			}
			h.Close()
		}
		return lo
	}
	t.Fatal("no three free ports in a row")
	return 0
}

func TestHoldRefusesWhatIsNoPort(t *testing.T) {
	for _, p := range []int{-1, 0, 65536} {
		if h, err := Hold(p); err == nil || errors.Is(err, ErrTaken) {
			t.Errorf("%d: got %v, %v", p, h, err)
		}
	}
}

// torchStores makes one store of each kind at the ports given.
const torchStores = `
import sys
from torch.distributed import TCPStore
for port, libuv in zip(sys.argv[1:], (True, False)):
    s = TCPStore("127.0.0.1", int(port), 1, True, wait_for_workers=False, use_libuv=libuv)
    s.set("key", "value")
    print(s.port)
`

func TestTorchStoreListensWithTheHolder(t *testing.T) {
	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		t.Skip("LAUNCH_TEST_PYTHON names no python that has torch")
	}
	libuv, legacy := hold(t, free(t)), hold(t, free(t))
	cmd := exec.CommandContext(t.Context(), python, "-c", torchStores, fmt.Sprint(libuv.Port), fmt.Sprint(legacy.Port))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if want := fmt.Sprintf("%d\n%d\n", libuv.Port, legacy.Port); err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// A held port answers between Listen and Quiet, and is held before, meanwhile and after: the store of torch can
// have it then, and no program that binds in the ordinary way.
func TestAHeldPortListensForAWhile(t *testing.T) {
	h := hold(t, free(t))
	for range 2 {
		l, err := h.Listen()
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"127.0.0.1", "::1"} {
			c, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(h.Port)))
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			s.Close()
		}
		if u, err := Look(proc, Everywhere(h.Port)); err != nil || !u.Taken {
			t.Errorf("use while it listens: %+v, %v", u, err)
		}
		if err := errors.Join(h.Quiet(), l.Close()); err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", h.Port)); !errors.Is(err, unix.ECONNREFUSED) {
			if err == nil {
				c.Close()
			}
			t.Errorf("after Quiet: got %v, want connection refused", err)
		}
		for _, a := range addresses {
			if l, err := listen(a.network, a.host, h.Port, false); !errors.Is(err, unix.EADDRINUSE) {
				if err == nil {
					l.Close()
				}
				t.Errorf("an ordinary program at %s: got %v, want address in use", a.host, err)
			}
			l, err := listen(a.network, a.host, h.Port, true)
			if err != nil {
				t.Errorf("torch's store at %s: %v", a.host, err)
				continue
			}
			l.Close()
		}
		if err := h.Quiet(); err != nil {
			t.Errorf("a second time: %v", err)
		}
	}
}
