package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/preflight/calls"
)

// named is n nodes that call each other. Name servers know each name, but for
// what edit says.
func named(n int, edit func(rank int, names *calls.Found)) []Post {
	return posts(n, func(rank int, p *Post) {
		p.Name, p.Names.Host = fmt.Sprintf("host%d (10.0.0.%d)", rank, 1+rank), fmt.Sprintf("host%d", rank)
		for to := range n {
			if to != rank {
				p.Calls = append(p.Calls, calls.Call{To: to, Addr: fmt.Sprintf("10.0.0.%d:4000", 1+to)})
				p.Names.Known = append(p.Names.Known, to)
			}
		}
		edit(rank, &p.Names)
	})
}

// deny has the name servers of a node not know these.
func deny(n *calls.Found, ranks ...int) {
	n.Known = slices.DeleteFunc(n.Known, func(r int) bool { return slices.Contains(ranks, r) })
	n.Unknown = append(n.Unknown, ranks...)
}

func TestNamesOfNodes(t *testing.T) {
	at := netip.MustParseAddr
	for name, tc := range map[string]struct {
		nodes  int
		edit   func(rank int, n *calls.Found)
		status finding.Status
		says   string // "": nothing is said
	}{
		"all known":         {4, func(int, *calls.Found) {}, "", ""},
		"all in /etc/hosts": {4, func(_ int, n *calls.Found) { n.Known = nil }, "", ""},
		"no node knows another": {4, func(rank int, n *calls.Found) { n.Unknown, n.Known = n.Known, nil }, finding.Skip,
			"0 of 12 names"},
		"only the first is in the DNS": {4, func(rank int, n *calls.Found) { deny(n, without(4, rank, 0)...) }, finding.Skip,
			"3 of 12"},
		"only one of two is in the DNS": {2, func(rank int, n *calls.Found) {
			if rank == 0 {
				deny(n, 1)
			}
		}, finding.Skip, "1 of 2"},
		"no name server answers": {3, func(_ int, n *calls.Found) { n.Known, n.Mute = nil, "10.9.9.9 says no answer" }, "",
			""},
		"one is in no DNS": {4, func(rank int, n *calls.Found) {
			if rank != 2 {
				deny(n, 2)
			}
		}, finding.Warn, "the name of host2 (10.0.0.3) is unknown (asked on host0 (10.0.0.1), host1 (10.0.0.2), host3 " +
			"(10.0.0.4))"},
		"one has a name server that knows no other node": {4, func(rank int, n *calls.Found) {
			if rank == 3 {
				deny(n, 0, 1, 2)
			}
		}, finding.Warn, "the servers of host3 (10.0.0.4) do not know the other nodes"},
		"one name is unknown on one node": {4, func(rank int, n *calls.Found) {
			if rank == 3 {
				deny(n, 1)
			}
		}, finding.Warn, "the name of host1 (10.0.0.2) is unknown on host3 (10.0.0.4)"},
		"one has a name server that is mute": {2, func(rank int, n *calls.Found) {
			if rank == 1 {
				n.Known, n.Mute = nil, "10.9.9.9 says no answer"
			}
		}, finding.Warn, "no name server answers on host1 (10.0.0.2), while those"},
		"a name is another node's": {3, func(rank int, n *calls.Found) {
			if rank == 0 {
				n.Strays = []calls.Stray{{To: 1, Addr: at("10.0.0.3"), Hosts: true}}
			}
		}, finding.Warn, "the name of host1 (10.0.0.2) leads to 10.0.0.3 on host0 (10.0.0.1), which is host2 (10.0.0.3)"},
		"a name is loopback": {2, func(rank int, n *calls.Found) {
			if rank == 0 {
				n.Strays = []calls.Stray{{To: 1, Addr: at("127.0.1.1"), Hosts: true}}
			}
		}, finding.Warn, "leads to 127.0.1.1 on host0 (10.0.0.1), which is loopback"},
		"an old address": {3, func(rank int, n *calls.Found) {
			if rank != 1 {
				n.Strays = []calls.Stray{{To: 1, Addr: at("10.0.0.99"), Near: true}}
			}
		}, finding.Warn, "leads to 10.0.0.99 on host0 (10.0.0.1), host2 (10.0.0.3), which no node of the job has"},
		"an address outside of a NAT": {2, func(rank int,
			n *calls.Found) {
			n.Strays = []calls.Stray{{To: 1 - rank, Addr: at("203.0.113.7")}}
		}, "", ""},
		"two nodes have one name": {3, func(rank int, n *calls.Found) {
			if rank == 2 {
				n.Host, n.Alike = "host1", []int{1}
			} else {
				n.Strays = []calls.Stray{{To: 2, Addr: at("10.0.0.2"), Near: true}}
			}
		}, finding.Warn, "2 nodes have the host name host1: host1 (10.0.0.2), host2 (10.0.0.3)"},
		"all nodes have one name": {3, func(rank int, n *calls.Found) {
			n.Host, n.Alike, n.Known = "image", without(3, rank), nil
		}, "", ""},
		"two launches on one of three machines": {3, func(_ int, n *calls.Found) {
			if n.Host == "host2" {
				n.Host = "host1"
			}
		}, "", ""},
		"an address that the node is called at": {2, func(rank int, n *calls.Found) {
			n.Strays = []calls.Stray{{To: 1 - rank, Addr: at(fmt.Sprintf("10.0.0.%d", 2-rank))}}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(named(tc.nodes, tc.edit), nil)
			if !d.Go {
				t.Error("a name stopped the job")
			}
			if tc.says == "" {
				if len(d.Findings) > 0 {
					t.Errorf("said: %v", d.Findings)
				}
				return
			}
			if len(d.Findings) != 1 || d.Findings[0].ID != "peer.name" || d.Findings[0].Status != tc.status ||
				!strings.Contains(d.Findings[0].What, tc.says) {
				t.Errorf("want one %s with %q, got %+v", tc.status, tc.says, d.Findings)
			}
		})
	}
}

// without are the ranks of n nodes but these.
func without(n int, but ...int) []int {
	var out []int
	for r := range n {
		if !slices.Contains(but, r) {
			out = append(out, r)
		}
	}
	return out
}
