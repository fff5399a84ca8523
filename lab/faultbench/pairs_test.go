package faultbench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pair is two faults at once, the first on the last host and the second on the
// one before it. Each is "group/name" of the table.
type pair struct {
	a, b string
	ci   bool
}

func pairs() []pair {
	return []pair{
		{a: "gpu/a GPU is lost", b: "system/a full TMPDIR", ci: true},
		{a: "gpu/an old process holds memory", b: "rdma/a port is down", ci: true},
		{a: "gpu/seven GPUs of eight", b: "env/NCCL_SOCKET_IFNAME of another machine"},
		{a: "rdma/firmware of one node", b: "gpu/another driver"},
		{a: "rdma/a card has half its lanes", b: "system/64 open files"},
		{a: "system/another launch", b: "gpu/a GPU is too hot"},
		{a: "env/GLOO_SOCKET_IFNAME of another machine", b: "system/a check of the user's fails"},
		{a: "system/torch before and after its store changed", b: "system/64 open files"},
		{a: "rdma/a rail has no address", b: "system/64 KiB of shared memory"},
	}
}

// Two faults on two hosts are both named.
func TestPairsOfFaults(t *testing.T) {
	all := map[string]fault{}
	for _, f := range faults() {
		all[f.group+"/"+f.name] = f
	}
	for _, p := range pairs() {
		a, b := all[p.a], all[p.b]
		if a.inject == nil || b.inject == nil {
			t.Fatalf("no such faults: %q, %q", p.a, p.b)
		}
		sizes := []int{3, 5}
		if !full {
			sizes = sizes[:1]
		}
		for _, n := range sizes {
			if !full && !p.ci {
				continue
			}
			t.Run(fmt.Sprintf("%s+%s/%d", strings.ReplaceAll(p.a, "/", ":"), strings.ReplaceAll(p.b, "/", ":"), n),
				func(t *testing.T) {
					t.Parallel()
					tr := newTrial(t, n)
					one, two := tr.hosts[n-1], tr.hosts[n-2]
					a.inject(tr)
					tr.sick = two
					b.inject(tr)
					tr.run()
					s := both(tr, a, b, one, two)
					keep(s)
					if s.bad != "" {
						t.Errorf("%s: %s\n%s", s.name, s.bad, tr.printed())
					}
				})
		}
	}
}

// both scores one trial with two faults. Its time is that of the fault that is named
// later.
func both(tr *trial, a, b fault, one, two *host) score {
	a.runs = a.runs && b.runs
	b.runs = a.runs
	tr.sick = one
	first := a.judge(tr)
	tr.sick = two
	s := b.judge(tr)
	s.group, s.name = "pair", a.name+" + "+b.name
	s.others = s.others || first.others
	s.after = max(s.after, first.after)
	if first.bad != "" {
		s.bad = strings.Join(slices.Compact([]string{first.bad, s.bad}), "; ")
	}
	s.real = strings.Join(slices.Compact([]string{a.real, b.real}), "; ")
	return s
}
