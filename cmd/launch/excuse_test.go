package main

import (
	"strings"
	"testing"

	"launch/internal/exit"
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
