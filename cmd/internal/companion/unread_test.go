package companion

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/finding"
	"launch/rendezvous"
)

// A pipe that no process reads is found by its file in /proc; a socket, a file and a pipe that is read do not count.
func TestAPipeWithoutAReader(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	at := func(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
	for name, f := range map[string]*os.File{"a file": file, "a pipe that is read": out, "a socket": socket} {
		if withoutReader(at(f)) {
			t.Errorf("%s has no reader", name)
		}
	}
	in.Close()
	if !withoutReader(at(out)) {
		t.Error("a pipe without a reader has one")
	}
	if withoutReader("/proc/self/fd/none") {
		t.Error("what is not there has no reader")
	}
}

// The lines of a node whose output is not read any more are lost: its reason is not to be found there.
func TestANodeWhoseOutputIsNotReadIsNamed(t *testing.T) {
	for _, unread := range []bool{false, true} {
		text := ""
		p := &companion{ctx: t.Context(), spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{ID: "own"}},
			print: func(_ finding.From, f finding.Finding, _ string) { text = f.What + "\n" + f.Fix }}
		p.doctor = &doctor{p: p, known: []rendezvous.Partner{{Name: "host1", Rank: 1, ID: "other"}}}
		p.doctor.world.Store(p.world)
		p.ended.Store(true)
		p.ends = &ends{p: p}
		p.ends.failed.heard, p.ends.left.heard = make(chan none), make(chan none)
		p.ends.crashed.heard = make(chan none)
		p.ends.failed.end, p.ends.failed.at = rankEnd{Rank: 1, Node: "host1", ID: "other", Status: 1, Unread: unread},
			time.Now()
		close(p.ends.failed.heard)
		p.ends.blame("a rank of this node")
		for _, said := range []string{text, p.endOf("node rank 1, host1, failed: its command ended with 1")} {
			if strings.Contains(said, "the program that read its output had ended") != unread {
				t.Errorf("unread %v: %q", unread, said)
			}
		}
		if strings.Contains(text, "first look at what host1 printed") == unread {
			t.Errorf("unread %v: %q", unread, text)
		}
	}
}

// The lines of a node whose output has no space left are lost, too.
func TestANodeWhoseOutputHasNoSpaceIsNamed(t *testing.T) {
	e := rankEnd{Rank: 1, Node: "host1", Status: 1, Full: "/var/log/out.log"}
	if !strings.Contains(e.String(), "(no space is left for its output, /var/log/out.log)") ||
		!strings.Contains(e.fix(), "df -h /var/log/out.log   # on host1") {
		t.Errorf("%s\n%s", e, e.fix())
	}
	if e.Full = ""; strings.Contains(e.String(), "space") || e.fix() != "" {
		t.Errorf("with space: %s\n%s", e, e.fix())
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "out.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if path, full := withoutSpace(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); full {
		t.Errorf("%s has space", path)
	}
	if path, full := withoutSpace("/dev/full"); full {
		t.Errorf("%s is no regular file", path)
	}
}

// Blocks that are reserved for root are space for root alone, and a file system without a size is not full.
func TestAFileSystemWithoutSpace(t *testing.T) {
	for _, tt := range []struct {
		name       string
		of         unix.Statfs_t
		user, root bool
	}{
		{"full", unix.Statfs_t{Blocks: 9}, true, true},
		{"reserved blocks", unix.Statfs_t{Blocks: 9, Bfree: 1}, true, false},
		{"space", unix.Statfs_t{Blocks: 9, Bfree: 2, Bavail: 1}, false, false},
		{"no size", unix.Statfs_t{}, false, false},
	} {
		if user, root := spaceless(tt.of, false), spaceless(tt.of, true); user != tt.user || root != tt.root {
			t.Errorf("%s: %t for a user, %t for root", tt.name, user, root)
		}
	}
}

// A file system that does not answer does not keep a failure from the other nodes.
func TestAQuestionAboutFilesEnds(t *testing.T) {
	never := make(chan none)
	defer close(never)
	if got := inTime(func() string { <-never; return "full" }); got != "" {
		t.Errorf("an answer that is late: %q", got)
	}
	if got := inTime(func() string { return "full" }); got != "full" {
		t.Errorf("an answer: %q", got)
	}
}
