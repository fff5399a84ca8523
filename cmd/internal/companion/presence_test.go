package companion

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// A call without an answer says little of a path: many calls at once, and what open connections exchange, say more.
func TestAPathThatLosesPacketsIsNoNodeThatIsStopped(t *testing.T) {
	open := func(late, never int) sidechannel.Flows { return sidechannel.Flows{Tried: 12, Late: late, Never: never} }
	lost, arrives := scene.Exchanged{Unheard: true}, scene.Exchanged{Segments: 5}
	for _, tt := range []struct {
		name  string
		call  presence
		heard bool
		flows sidechannel.Flows
		moved scene.Exchanged
		alive bool
		want  presence
	}{
		{"a third is lost", isStopped, false, open(7, 2), lost, false, isLossy},
		{"the call had luck", isBack, false, open(7, 2), scene.Exchanged{Again: 3}, false, isLossy},
		{"no call had luck", isAbsent, true, open(11, 10), lost, false, isLossy},
		{"launch has no other connection", isStopped, false, open(7, 2), scene.Exchanged{}, false, isLossy},
		{"a deep queue", isAbsent, false, open(12, 12), arrives, false, isSlow},
		{"a deep queue, the greeting waits", isStopped, true, open(0, 0), lost, false, isSlow},
		{"data of ranks", isAbsent, true, open(12, 12), scene.Exchanged{}, false, isSlow},

		{"it is stopped", isStopped, false, open(0, 0), scene.Exchanged{}, false, isStopped},
		{"it is stopped, and its window is shut", isStopped, false, open(0, 0), arrives, false, isStopped},
		{"many callers fill its queue", isStopped, false, open(6, 6), arrives, false, isStopped},
		{"it goes on meanwhile", isStopped, false, open(12, 0), scene.Exchanged{}, false, isStopped},
		{"its queue is full", isAbsent, false, open(6, 6), scene.Exchanged{}, false, isStopped},
		{"launch alone is stopped", isStopped, true, open(0, 0), arrives, false, isHelper},
		{"launch alone has ended", hasEnded, true, sidechannel.Flows{}, scene.Exchanged{}, false, isHelper},
		{"it has ended", hasEnded, false, sidechannel.Flows{}, scene.Exchanged{}, false, hasEnded},
		{"it is back", isBack, false, open(0, 0), scene.Exchanged{Again: 2}, false, isBack},
		{"a dead path", isAbsent, false, open(12, 12), lost, false, isAbsent},

		{"many callers have filled its queue", isAbsent, false, open(12, 12), arrives, true, isStopped},
		{"launch alone is stopped, and its queue is full", isAbsent, true, open(12, 12), arrives, true, isHelper},
		{"the last place in its queue was taken meanwhile", isStopped, true, open(12, 12), scene.Exchanged{Again: 2}, true,
			isHelper},
		{"a third is lost, and its machine answers", isAbsent, true, open(7, 2), lost, true, isLossy},
	} {
		if got := weigh(tt.call, tt.heard, further{flows: tt.flows, alive: tt.alive}, tt.moved); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Third nodes show on whose side a bad path is.
func TestThirdNodesShowOnWhoseSideAPathIsBad(t *testing.T) {
	for _, tt := range []struct {
		sound, bad []string
		want       string
	}{
		{nil, nil, ""},
		{[]string{"c", "d"}, nil, "; c, d are reached without a loss: the fault is on the side of b"},
		{nil, []string{"c"}, "; so it is to c: the fault is on the side of this node"},
		{[]string{"d"}, []string{"c"}, "; so it is to c, and d is reached without a loss"},
	} {
		if got := compared("b", tt.sound, tt.bad); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// With --fail-fast a node that is stopped has time to go on, and what is said then is true.
func TestANodeThatIsStoppedAndGoesOnEndsNoJob(t *testing.T) {
	_, there := nodeOf(t, "", lo)
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes calls, and no process does
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	printed := make(chan [2]string, 4)
	running, end := context.WithCancel(t.Context())
	defer end()
	n := rendezvous.Partner{Name: "host1 (127.0.0.1)", Rank: 1, Addr: lo, ID: "id",
		Peer: frozen.Addr().(*net.TCPAddr).Port}
	p := &companion{ctx: t.Context(), running: running, launch: noProcess, spec: &Spec{FailFast: true},
		world: &rendezvous.World{Size: 2, Self: rendezvous.Member{Addr: lo}},
		print: func(_ finding.From, f finding.Finding, note string) { printed <- [2]string{f.What, note} }}
	p.spec.Self.PID = noProcess // what --fail-fast ends
	p.doctor = &doctor{p: p, known: []rendezvous.Partner{n}}
	p.doctor.world.Store(p.world)
	done := make(chan none)
	go func() {
		p.gone("node rank 1, host1 (127.0.0.1), was lost", "10:00:00")
		close(done)
	}()
	next := func(what, note string) {
		t.Helper()
		select {
		case got := <-printed:
			if !strings.Contains(got[0], what) || got[1] != note {
				t.Errorf("%q, want %q", got, [2]string{what, note})
			}
		case <-time.After(3 * backPause):
			t.Fatalf("%q is not printed", what)
		}
	}
	next("launch does not answer there: stopped, frozen", "waiting up to 1m0s for it to go on: --fail-fast")
	go relayed(frozen, there.Peer)
	next("s after it was lost: it or the network stopped for a while, and goes on", "")
	end()
	<-done
	if len(printed) > 0 {
		t.Errorf("then it printed %q", <-printed)
	}
}

// A node that hears of its own loss is back, and no reason to end its command.
func TestANodeThatHearsOfItsOwnLossGoesOn(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"node rank 1, host1 (127.0.0.1), was lost", "the others counted this node as lost (seen at 10:00:00): it or"},
		{"node rank 10, host10 (127.0.0.1), was lost", "node rank 10, host10 (127.0.0.1), was lost (seen at 10:00:00): r"},
	} {
		got := ""
		p := &companion{ctx: t.Context(), running: t.Context(), spec: &Spec{},
			world: &rendezvous.World{Rank: 1, Self: rendezvous.Member{Host: "host1", Addr: lo}},
			print: func(_ finding.From, f finding.Finding, _ string) { got = f.What }}
		p.doctor = &doctor{p: p}
		p.gone(tt.text, "10:00:00")
		if !strings.HasPrefix(got, tt.want) || p.blamed.Load() != strings.Contains(tt.text, "host10") {
			t.Errorf("%s: %q", tt.text, got)
		}
	}
}

// A process that is stopped takes no connection from its queue: looks leave it places, and what a full one shows is
// that the machine is there.
func TestLooksDoNotFillTheQueueOfAProcessThatIsStopped(t *testing.T) {
	const places, nodes, rounds = 40, 3, 4
	fd, port := deaf(t, places)
	n := rendezvous.Partner{Name: "host1 (127.0.0.1)", Rank: 1, Addr: lo, Peer: port, ID: "id"}
	world := &rendezvous.World{Size: 8, Self: rendezvous.Member{Addr: lo}}
	var all sync.WaitGroup
	for range nodes {
		all.Go(func() {
			p := &companion{ctx: t.Context(), running: t.Context(), launch: noProcess, spec: &Spec{}, world: world,
				machine: machineAnswers}
			p.doctor = &doctor{p: p, known: []rendezvous.Partner{n}}
			p.doctor.world.Store(world)
			now := sight{}
			for i := range rounds {
				if now = p.presenceOf(n, now); now.is != isStopped {
					t.Errorf("look %d: %q", i, now.is)
				}
			}
		})
	}
	all.Wait()
	i, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		t.Fatal(err)
	}
	if i.Unacked > nodes*rounds { // of a listener: connections that wait in its queue
		t.Errorf("%d connections wait, after %d looks", i.Unacked, nodes*rounds)
	}
}

// A queue that is full drops calls, as a network path without an answer does. The machine makes the difference.
func TestAFullQueueIsNoNodeThatIsAbsent(t *testing.T) {
	for name, tt := range map[string]struct {
		heard, answers bool
		was, want      presence
	}{
		"its machine answers":                 {false, true, notCalled, isStopped},
		"it was stopped before":               {false, true, isStopped, isStopped},
		"its ranks go on":                     {true, true, isHelper, isHelper},
		"its machine does not":                {false, false, notCalled, isAbsent},
		"its machine does not any more":       {false, false, isStopped, isAbsent},
		"data arrives, its machine is silent": {true, false, notCalled, isSlow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := rendezvous.Partner{Rank: 1, Addr: netip.MustParseAddr("127.77.77.77"), Peer: silentPort(t)}
			p := &companion{ctx: t.Context(), launch: noProcess, spec: &Spec{}, machine: machineAnswers}
			if !tt.answers {
				p.machine = nil
			}
			if tt.heard {
				n.Addr, p.launch = lo, os.Getpid()
				chat(t)
			}
			p.doctor = &doctor{p: p}
			if got := p.presenceOf(n, sight{is: tt.was}); got.is != tt.want {
				t.Errorf("%q, want %q", got.is, tt.want)
			}
		})
	}
}

// chat has data arrive from lo.
func chat(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
}

// relayed passes connections on to a port.
func relayed(l net.Listener, port int) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", netip.AddrPortFrom(lo, uint16(port)).String())
		if err != nil {
			near.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
			}()
		}
	}
}
