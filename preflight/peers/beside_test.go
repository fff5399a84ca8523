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

func TestCallsBesideTheNodesAddress(t *testing.T) {
	nodes := func(typed bool, sick func(*calls.Call)) []Post {
		all := calling(3, func(int, int, *calls.Call) {})
		for i := range all {
			all[i].Listens = []Listen{{Library: "NCCL", Addr: netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", i)), Typed: typed}}
			for _, c := range slices.Clone(all[i].Calls) {
				c.Also, c.Addr = true, fmt.Sprintf("10.1.0.%d:4000", c.To)
				if c.To == 2 {
					sick(&c)
				}
				all[i].Calls = append(all[i].Calls, c)
			}
		}
		return all
	}
	if d := Decide(nodes(false, func(*calls.Call) {}), nil); d.Home {
		t.Error("all calls arrive, and NCCL's data stays at home")
	}
	for typed, want := range map[bool]finding.Status{true: finding.Fail, false: finding.Warn} {
		if d := Decide(nodes(typed, drop), nil); d.Home == typed {
			t.Errorf("typed %v: NCCL's data stays at home: %v", typed, d.Home)
		}
		got := compareCalls(nodes(typed, drop))
		if len(got) != 1 || got[0].ID != "peer.beside" || got[0].Status != want ||
			typed != slices.Equal(got[0].unfit, []int{2}) ||
			!strings.Contains(got[0].What, "calls to the address where NCCL waits (10.1.0.2) to host2 do not get through") {
			t.Errorf("typed %v: got %+v", typed, got)
		}
		got = compareCalls(nodes(typed, func(c *calls.Call) { c.Stall, c.Hole, c.MTU, c.IfMTU = "there", true, 1400, 9000 }))
		if len(got) != 1 || got[0].ID != "peer.large" || got[0].Status != want ||
			typed != slices.Equal(got[0].unfit, []int{2}) || !strings.Contains(got[0].What, "long messages to host2") ||
			!strings.Contains(got[0].What, "where NCCL waits (10.1.0.2), not at the node's own") {
			t.Errorf("long messages, typed %v: got %+v", typed, got)
		}
	}
}

// The others have no such address: that node alone is to blame.
func TestOneNodeAloneWaitsAtAnotherAddress(t *testing.T) {
	all := calling(3, func(int, int, *calls.Call) {})
	all[1].Listens = []Listen{{Library: "Gloo", Addr: netip.MustParseAddr("10.1.0.1"), Typed: true}}
	for _, i := range []int{0, 2} {
		c := calls.Call{To: 1, Also: true, Addr: "10.1.0.1:4000"}
		drop(&c)
		all[i].Calls = append(all[i].Calls, c)
	}
	got := compareCalls(all)
	if len(got) != 1 || got[0].ID != "peer.beside" || !slices.Equal(got[0].unfit, []int{1}) ||
		!strings.Contains(got[0].What, "to host1 do not get through (2 of 2 tried): ") {
		t.Errorf("got %+v", got)
	}
}

// Where Gloo waits at another address, and the calls there get through, the job runs.
func TestNoRankWaitsAtTheNodesOwnAddress(t *testing.T) {
	nodes := func(closed int, gpu, beside bool) []Post {
		all := calling(3, func(_, to int, c *calls.Call) {
			if to == closed {
				drop(c)
			}
		})
		for i := range all {
			all[i].Loads.GPU = gpu
			all[i].Listens = []Listen{{Library: "Gloo", Addr: netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", i))}}
			for _, c := range slices.Clone(all[i].Calls) {
				c.Also, c.Addr, c.Cause = true, fmt.Sprintf("10.1.0.%d:4000", c.To), ""
				if !beside {
					drop(&c)
				}
				all[i].Calls = append(all[i].Calls, c)
			}
		}
		return all
	}
	for _, tt := range []struct {
		name        string
		closed      int
		gpu, beside bool
		want        finding.Status
		id          string
	}{
		{"of one node", 2, false, true, finding.Warn, "peer.beside"},
		{"of node rank 0, where the job's store waits", 0, false, true, finding.Fail, "peer.reach"},
		{"with GPUs NCCL waits there", 2, true, true, finding.Fail, "peer.reach"},
		{"the other one is closed, too", 2, false, false, finding.Fail, "peer.reach"},
	} {
		got := compareCalls(nodes(tt.closed, tt.gpu, tt.beside))
		if len(got) != 1 || got[0].ID != tt.id || got[0].Status != tt.want ||
			tt.want == finding.Warn && len(got[0].unfit) > 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if d := Decide(nodes(-1, false, false), nil); !d.Home {
		t.Error("nothing gets through where Gloo waits, and it is not left out")
	}
}

func TestAnAddressOfTwoMachinesBesideTheNodesIsNamed(t *testing.T) {
	all := calling(3, func(int, int, *calls.Call) {})
	for i := range all {
		all[i].ID, all[i].Traits.Machine = fmt.Sprintf("id%d", i), fmt.Sprintf("m%d", i)
		at := fmt.Sprintf("10.1.0.%d", max(i, 1)) // 0 and 1 have one
		all[i].Listens = []Listen{{Library: "Gloo", Addr: netip.MustParseAddr(at), Typed: true}}
	}
	for i := range all {
		for _, c := range slices.Clone(all[i].Calls) {
			c.Also, c.Addr = true, all[c.To].Listens[0].Addr.String()+":4000"
			if i < 2 && c.To < 2 { // each calls itself
				c.Other = all[i].ID
			}
			all[i].Calls = append(all[i].Calls, c)
		}
	}
	got := compareCalls(all)
	if len(got) != 1 || got[0].ID != "peer.beside" || got[0].Status != finding.Fail ||
		got[0].What != "2 machines have the address 10.1.0.1: host0, host1, where Gloo waits" {
		t.Errorf("got %+v", got)
	}
}
