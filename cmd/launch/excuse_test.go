package main

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"launch/internal/exit"
	"launch/internal/pty"
)

// three returns the arguments of one of three nodes with a node rank and a store.
func three(store, rank string, command ...string) []string {
	return append([]string{"--store", store, "--job", "j", "--nnodes", "3", "--node-rank", rank, "--join-timeout", "25s"},
		command...)
}

// hosted starts a store, and waits until it is up.
func hosted(t *testing.T) string {
	t.Helper()
	at := "127.0.0.1:" + freePort(t)
	begin(t, "store", "--store", at).line(t, "the store is up")
	return "http://" + at
}

const notFit = `is unfit: command.found: `

func TestNodesThatWaitReportWhyANodeIsUnfit(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"an external store": hosted,
		"node 0 hosts it":   func(t *testing.T) string { return "127.0.0.1:" + freePort(t) },
	} {
		t.Run(name, func(t *testing.T) {
			at := store(t)
			a := begin(t, three(at, "0", "true")...)
			a.line(t, "1 of 3 nodes joined")
			b := begin(t, three(at, "1", "true")...)
			a.line(t, "2 of 3 nodes joined")
			bad := begin(t, three(at, "2", "no-such-program")...)
			if got := bad.end(t); got != exit.NotFound {
				t.Errorf("the unfit node ended with %d", got)
			}
			for _, n := range []*node{a, b} {
				n.line(t, "node 2 ")
				if last := n.seen[len(n.seen)-1]; !strings.Contains(last, notFit) ||
					!strings.Contains(last, "; waiting for a fix or a replacement") {
					t.Errorf("reported %q", last)
				}
			}
			c := begin(t, three(at, "2", "true")...)
			for _, n := range []*node{a, b, c} {
				n.line(t, "all 3 nodes joined")
				if got := n.end(t); got != 0 {
					t.Errorf("ended with %d", got)
				}
			}
		})
	}
}

func TestFailFastEndsAllNodesForAnUnfitNode(t *testing.T) {
	at := hosted(t)
	nodes := []*node{begin(t, append([]string{"--fail-fast"}, three(at, "0", "true")...)...)}
	nodes[0].line(t, "1 of 3 nodes joined")
	nodes = append(nodes, begin(t, append([]string{"--fail-fast"}, three(at, "1", "true")...)...))
	nodes[0].line(t, "2 of 3 nodes joined")
	begin(t, append([]string{"--fail-fast"}, three(at, "2", "no-such-program")...)...).end(t)
	for _, n := range nodes {
		n.line(t, "launch: error: node 2 ")
		if last := n.seen[len(n.seen)-1]; !strings.Contains(last, notFit) {
			t.Errorf("ended with %q", last)
		}
		if got := n.end(t); got != exit.PeerUnfit {
			t.Errorf("ended with %d, want %d", got, exit.PeerUnfit)
		}
	}
}

// An unfit store host hosts the store for a while, to report that it is unfit.
func TestFailFastEndsAllNodesForAnUnfitStoreHost(t *testing.T) {
	at := "127.0.0.1:" + freePort(t)
	line := func(rank string, command string) []string {
		return append([]string{"--fail-fast", "--store-host", map[bool]string{true: "yes", false: "no"}[rank == "0"]},
			three(at, rank, command)...)
	}
	first := begin(t, line("1", "true")...)
	first.line(t, "waiting for 3 nodes")
	host := begin(t, line("0", "no-such-program")...)
	host.line(t, "hosting the store")
	nodes := []*node{first, begin(t, line("2", "true")...)}
	for _, n := range nodes {
		n.line(t, "launch: error: node 0 ")
		if last := n.seen[len(n.seen)-1]; !strings.Contains(last, notFit) {
			t.Errorf("ended with %q", last)
		}
		if got := n.end(t); got != exit.PeerUnfit {
			t.Errorf("ended with %d, want %d", got, exit.PeerUnfit)
		}
	}
	if got := host.end(t); got != exit.NotFound {
		t.Errorf("the host ended with %d, want %d", got, exit.NotFound)
	}
}

// Without --fail-fast the others wait on, and know for what.
func TestNodesThatWaitReportWhyTheStoreHostIsUnfit(t *testing.T) {
	at := "127.0.0.1:" + freePort(t)
	line := func(rank string, command string) []string {
		return append([]string{"--store-host", map[bool]string{true: "yes", false: "no"}[rank == "0"]},
			three(at, rank, command)...)
	}
	a := begin(t, line("1", "true")...)
	b := begin(t, line("2", "true")...)
	a.line(t, "waiting for 3 nodes")
	host := begin(t, line("0", "no-such-program")...)
	host.line(t, "hosting the store")
	for _, n := range []*node{a, b} {
		n.line(t, "node 0 ")
		if last := n.seen[len(n.seen)-1]; !strings.Contains(last, "which hosts the store, "+notFit) {
			t.Errorf("reported %q", last)
		}
	}
	if got := host.end(t); got != exit.NotFound {
		t.Errorf("the host ended with %d, want %d", got, exit.NotFound)
	}
	for _, n := range []*node{a, b} { // the store is gone
		n.line(t, "only 2 of 3 nodes joined within 25s; missing: node 0; node 0 ")
		if last := n.seen[len(n.seen)-1]; !strings.Contains(last, "which hosts the store, "+notFit) {
			t.Errorf("ended with %q", last)
		}
		if got := n.end(t); got != exit.Missing {
			t.Errorf("ended with %d, want %d", got, exit.Missing)
		}
	}
}

// A node whose line is wrong tells the others, as far as it knows them.
func TestNodesThatWaitReportWhyALineIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		env   []string
		flags []string
		line  []string
		want  int
		says  string
	}{
		"an unknown flag": {flags: []string{"--no-such-flag"}, want: exit.Usage, says: "unknown flag --no-such-flag"},
		"a bad value":     {flags: []string{"--restarts", "two"}, want: exit.Usage, says: `--restarts: "two" is not`},
		"a bad variable":  {env: []string{"LAUNCH_RESTARTS=two"}, want: exit.Usage, says: `LAUNCH_RESTARTS: "two" is not`},
		"settings that contradict": {flags: []string{"--on-hang=end", "--hang-after=0"}, want: exit.Config,
			says: "exclude each other"},
		"no command": {line: []string{}, want: exit.Usage, says: "no command"},
		"a line that contradicts": {line: []string{"torchrun", "--master-port", "x", "train.py"}, want: exit.Usage,
			says: "--master-port=x"},
	} {
		t.Run(name, func(t *testing.T) {
			at := hosted(t)
			a := begin(t, three(at, "0", "true")...)
			a.line(t, "1 of 3 nodes joined")
			command := c.line
			if command == nil {
				command = []string{"true"}
			}
			bad := startIn(t, c.env, append(c.flags, three(at, "2", command...)...)...)
			if got := bad.end(t); got != c.want {
				t.Errorf("it ended with %d, want %d", got, c.want)
			}
			a.line(t, "node 2 ")
			if last := a.seen[len(a.seen)-1]; !strings.Contains(last, "is unfit: ") || !strings.Contains(last, c.says) {
				t.Errorf("reported %q, want %q", last, c.says)
			}
		})
	}
}

// Nodes whose time runs out one after the other are not called nodes that left.
func TestAllNodesNameTheSameMissingOnes(t *testing.T) {
	for name, ranks := range map[string]bool{"node ranks": true, "by arrival": false} {
		t.Run(name, func(t *testing.T) {
			at := hosted(t)
			var nodes []*node
			for i, wait := range []string{"4s", "6s", "8s"} {
				line := []string{"--store", at, "--job", "j", "--nnodes", "4", "--join-timeout", wait}
				if ranks {
					line = append(line, "--node-rank", string(rune('0'+i)))
				}
				nodes = append(nodes, begin(t, append(line, "true")...))
				nodes[0].line(t, string(rune('1'+i))+" of 4 nodes joined")
			}
			want := "missing: node 3"
			if !ranks {
				want = "missing: 1 more (joined: "
			}
			var said string
			for _, n := range nodes {
				n.line(t, "launch: error: ")
				_, list, _ := strings.Cut(n.seen[len(n.seen)-1], "; ")
				if said == "" {
					said = list
				}
				if !strings.HasPrefix(n.seen[len(n.seen)-1], "launch: error: only 3 of 4 nodes joined within ") ||
					!strings.HasPrefix(list, want) || list != said {
					t.Errorf("said %q, want %q and the same on all nodes: %q", n.seen[len(n.seen)-1], want, said)
				}
				if got := n.end(t); got != exit.Missing {
					t.Errorf("ended with %d", got)
				}
			}
		})
	}
}

// At a terminal somebody reads what is wrong, and types the line again: nothing is hosted for the others.
func TestAMistakeAtATerminalEndsAtOnce(t *testing.T) {
	for mistake, want := range map[string]int{"--bogus": exit.Usage, "--job=j2": exit.NotFound} {
		_, screen, c := onTerminal(t, append([]string{mistake}, pair(t, "no-such-program")...)...)
		shows(t, screen, "error: ")
		for screen.Scan() {
			if strings.Contains(screen.Text(), "hosting the store") {
				t.Errorf("%s: it printed %q", mistake, screen.Text())
			}
		}
		if _ = c.Wait(); c.ProcessState.ExitCode() != want {
			t.Errorf("%s: ended with %d, want %d", mistake, c.ProcessState.ExitCode(), want)
		}
	}
}

// onTerminal starts launch at a terminal, and returns its other end and what it shows.
func onTerminal(t *testing.T, args ...string) (*os.File, *bufio.Scanner, *exec.Cmd) {
	t.Helper()
	person, programs := pty.Open(t)
	c := launched(t, args...)
	c.Stdin, c.Stdout, c.Stderr = programs, programs, programs
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	programs.Close()
	return person, bufio.NewScanner(person), c
}

// shows reads a terminal up to a line with a text.
func shows(t *testing.T, s *bufio.Scanner, text string) {
	t.Helper()
	var seen []string
	for s.Scan() {
		seen = append(seen, s.Text())
		if strings.Contains(ansi.ReplaceAllString(s.Text(), ""), text) {
			return
		}
	}
	t.Fatalf("never showed %q, but:\n%s", text, strings.Join(seen, "\n"))
}

// ansi is what colours a line.
var ansi = regexp.MustCompile("\x1b\\[[0-9;]*[mK]")
