package companion

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/finding"
	"launch/rendezvous"
)

// noProcess is above the greatest PID of Linux, 1 << 22: a command that has no connections.
const noProcess = 1 << 30

// A node that was lost is called: its machine may be there, or it may be back.
func TestWhatACallToALostNodeShows(t *testing.T) {
	_, there := nodeOf(t, "", lo)
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the call, and no process does
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	rank, err := net.Dial("tcp", frozen.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer rank.Close()
	far, err := frozen.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	at := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	for name, tt := range map[string]struct {
		peer, command int
		want          string
	}{
		"back":    {there.Peer, noProcess, ", and answers a call"},
		"stopped": {at(frozen), noProcess, "; its machine takes connections, and launch does not answer there"},
		"ended":   {at(closed), noProcess, "; its machine answers, and launch has ended there): ranks that exchange data"},
		"unknown": {0, noProcess, "was lost (seen at 10:00:00): ranks that exchange data with it fail now, or wait"},
		"helper":  {at(closed), os.Getpid(), ", and its ranks still send data: launch's own process there"},
		"absent":  {silentPort(t), noProcess, "; nothing answers at its address): ranks that exchange data"},
		"slow": {silentPort(t), os.Getpid(), "the network path between this node and node rank 1, host1 (127.0.0.1), is " +
			"slow or full, or loses packets (seen at 10:00:00): data from there arrives, and a call gets no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := far.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			printed := make(chan string, 2)
			running, end := context.WithCancel(t.Context())
			n := rendezvous.Partner{Name: "host1 (127.0.0.1)", Rank: 1, Addr: lo, Peer: tt.peer, ID: "id"}
			p := &companion{ctx: t.Context(), running: running, launch: tt.command, spec: &Spec{}, world: &rendezvous.World{
				Self: rendezvous.Member{Addr: netip.MustParseAddr("127.0.0.1")}},
				print: func(_ finding.From, f finding.Finding, _ string) { printed <- f.What }}
			if name == "absent" { // other processes exchange data with lo all the time
				n.Addr = netip.MustParseAddr("127.77.77.77")
			}
			p.doctor = &doctor{p: p, known: []rendezvous.Partner{n}}
			p.doctor.world.Store(p.world)
			done := make(chan none)
			go func() {
				p.gone("node rank 1, host1 (127.0.0.1), was lost", "10:00:00")
				close(done)
			}()
			select {
			case got := <-printed:
				if !strings.Contains(got, tt.want) {
					t.Errorf("%q, want %q", got, tt.want)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("nothing is printed")
			}
			end()
			<-done
			if len(printed) > 0 {
				t.Errorf("then it printed %q", <-printed)
			}
		})
	}
}

// A rank ended there before launch did: that is said, and whether its kernel's end of a connection has arrived here.
func TestANodeThatIsLostAfterItsRankFailed(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	rank, err := net.Dial("tcp", far.Addr().String()) // no byte is received on it
	if err != nil {
		t.Fatal(err)
	}
	defer rank.Close()
	for _, tt := range []struct {
		name    string
		launch  bool   // SIGTERM has ended launch there, and not a rank
		id      string // of the node of the rank that failed
		command int
		want    string
		not     string
	}{
		{"its connections have ended", false, "id", noProcess, "rank 3 on host1 ended with 1", "still open"},
		{"one is still open", false, "id", os.Getpid(), "and launch there has ended, too (seen at 10:00:00); connections " +
			"of this node's ranks to it are still open", "until their own"},
		{"SIGTERM ended launch there, and all else", true, "id", noProcess, "launch on host1 was ended by SIGTERM",
			"still open"},
		{"SIGTERM ended launch there alone", true, "id", os.Getpid(), "still open: processes there remain", "fail now"},
		{"a rank elsewhere failed first", false, "other", os.Getpid(), "was lost (seen at 10:00:00; its machine answers",
			"rank 3"},
	} {
		n := rendezvous.Partner{Name: "host1 (127.0.0.1)", Rank: 1, Addr: lo, Peer: port, ID: "id"}
		got := ""
		p := &companion{ctx: t.Context(), running: t.Context(), launch: tt.command, spec: &Spec{}, ends: &ends{},
			world: &rendezvous.World{Self: rendezvous.Member{Addr: lo}},
			print: func(_ finding.From, f finding.Finding, _ string) { got = f.What }}
		p.ends.failed.heard = make(chan none)
		p.ends.failed.end = rankEnd{Rank: 3, Node: "host1", ID: tt.id, Status: 1}
		if tt.launch {
			p.ends.failed.end = rankEnd{Rank: -1, Node: "host1", ID: tt.id, Status: 143, Launch: true}
		}
		close(p.ends.failed.heard)
		p.doctor = &doctor{p: p, known: []rendezvous.Partner{n}}
		p.doctor.world.Store(p.world)
		p.gone("node rank 1, host1 (127.0.0.1), was lost", "10:00:00")
		if !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// silentPort returns the port of a listener that takes no further connection: a call has no answer.
func silentPort(t *testing.T) (port int) {
	t.Helper()
	_, port = deaf(t, 0)
	for range 2 {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(lo, uint16(port)).String(), 100*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return port
}

// deaf returns a listener that never takes a connection from its queue of so many places and one, and its port.
func deaf(t *testing.T, places int) (fd, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	at := &unix.SockaddrInet4{} // all of the loopback network
	if err := errors.Join(unix.Bind(fd, at), unix.Listen(fd, places)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, sa.(*unix.SockaddrInet4).Port
}

// A device that answers for all addresses is no other machine with this node's.
func TestWhoTakesAnAddressAnswersForThatAlone(t *testing.T) {
	thief, other := net.HardwareAddr{2, 0, 0, 0, 0, 9}, net.HardwareAddr{2, 0, 0, 0, 0, 1}
	near := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.3")}
	for name, tc := range map[string]struct {
		near    []netip.Addr
		answers []net.HardwareAddr
		want    net.HardwareAddr
		at      netip.Addr
	}{
		"another machine":                 {near, []net.HardwareAddr{other, nil}, thief, netip.Addr{}},
		"another node":                    {near, []net.HardwareAddr{thief, other}, thief, near[0]},
		"another node, seen last":         {near, []net.HardwareAddr{other, thief}, thief, near[1]},
		"a device that answers for all":   {near, []net.HardwareAddr{thief, thief}, nil, netip.Addr{}},
		"no other node answers":           {near, []net.HardwareAddr{nil, nil}, nil, netip.Addr{}},
		"no other node is in the network": {nil, nil, nil, netip.Addr{}},
	} {
		i := -1
		got, at := usurper(thief, tc.near, func(netip.Addr) net.HardwareAddr { i++; return tc.answers[i] })
		if got.String() != tc.want.String() || at != tc.at {
			t.Errorf("%s: got %s %s, want %s %s", name, got, at, tc.want, tc.at)
		}
	}
}
