package companion

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/rendezvous"
)

// A rank fails first, and the other end of its connection is still open: only what is between can have ended this one.
// Where the kernel knows both ends, nothing is said.
func TestWhoHasOpenWhatHasEndedHere(t *testing.T) {
	d, n := nodeOf(t, "", lo)
	d.p.launch = os.Getpid() // its connections are those of a command
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	links := d.linksOf(t.Context(), n)
	open := scene.Link{Local: near.LocalAddr().(*net.TCPAddr).AddrPort(), Remote: l.Addr().(*net.TCPAddr).AddrPort()}
	found := false
	for _, k := range links {
		found = found || k == open
	}
	if !found {
		t.Errorf("%v lacks %v", links, open)
	}
	got := ""
	p := &companion{ctx: t.Context(), spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{Addr: lo, ID: "me"}},
		print: func(_ finding.From, f finding.Finding, _ string) { got = f.What }}
	p.doctor = &doctor{p: p, known: []rendezvous.Partner{n}}
	p.doctor.world.Store(p.world)
	e := &ends{p: p}
	e.failed.heard = make(chan none)
	e.failed.end = rankEnd{Rank: 1, Node: "host1", ID: "me", Status: 1, At: time.Now()}
	close(e.failed.heard)
	e.failed.own.Store(1)
	if e.reset(t.Context()); got != "" || p.blamed.Load() {
		t.Errorf("both ends are open, and it says %q", got)
	}
}

func TestTheWordsForSeveredConnections(t *testing.T) {
	s := severed{nodes: []string{"host0 (10.0.0.1)"}, links: make([]scene.Link, 3)}
	f := severedFinding(rankEnd{Rank: 1, Node: "host1 (10.0.0.2)", Status: 1}, s)
	const want = "the first of all ranks, and host0 (10.0.0.1) still has 3 connections to this node open that ended here"
	if !strings.Contains(f.What, want) || f.ID != "node.failed" || len(f.Seen) != 2 {
		t.Errorf("%+v", f)
	}
}
