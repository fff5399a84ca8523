package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/internal/ncclras"
)

// ras returns the answer of NCCL's RAS about this job, and the node that asked. The service is that of a rank, and all
// that listen on its port are ranks of this job.
func (v *view) ras() (*scene.RAS, *node) {
	var best *scene.RAS
	var from *node
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		for i, r := range n.scene.RAS {
			if r.Report != nil && v.listenersAreOurs(n, r) && (best == nil || r.Still || r.Moved) {
				best, from = &n.scene.RAS[i], n
			}
		}
	}
	return best, from
}

func (v *view) listenersAreOurs(n *node, r scene.RAS) bool {
	ours := func(pid int) bool {
		return slices.ContainsFunc(v.seats, func(s *seat) bool { return s.node == n && s.proc.PID == pid })
	}
	return ours(r.PID) && !slices.ContainsFunc(n.scene.Sockets, func(k scene.Socket) bool {
		return k.State == "listen" && k.Net == r.Net && k.Local.Port() == r.At.Port() && !ours(k.PID)
	})
}

// nccl judges what NCCL's RAS says.
func (v *view) nccl() (out []claim) {
	r, _ := v.ras()
	if r == nil {
		return nil
	}
	out = append(out, v.unanswered(r)...)
	for i := range r.Report.Comms {
		c := &r.Report.Comms[i]
		out = append(out, v.ncclErrors(r, c)...)
		if r.Still {
			out = append(out, v.uneven(r, c)...)
			out = append(out, v.joining(r, c)...)
		}
	}
	return out
}

// unanswered names processes that NCCL itself does not reach.
func (v *view) unanswered(r *scene.RAS) (out []claim) {
	for _, x := range []struct {
		id   string
		all  []ncclras.Member
		sure verdict.Sure
		says string
	}{
		{"nccl.dead", r.Report.Dead, verdict.Certain, "NCCL has not reached %s for a minute and has given up"},
		{"nccl.silent", r.Report.Silent, verdict.Likely, "%s %s not answer NCCL: stopped, or the host is not reached"},
	} {
		if len(x.all) == 0 {
			continue
		}
		who, ranks, nodes := v.members(r.Report.Comms, x.all)
		words := []any{who}
		if x.id == "nccl.silent" {
			words = append(words, map[bool]string{true: "does", false: "do"}[len(x.all) == 1])
		}
		out = append(out, claimed(x.id, x.sure, fmt.Sprintf(x.says, words...)).of(ranks, nodes...).see(rasAt(r), who))
	}
	return out
}

func rasAt(r *scene.RAS) string { return "NCCL's RAS at " + r.At.String() }

// members names ranks or processes, with the ranks of the job that they are and their nodes, as far as known.
func (v *view) members(comms []ncclras.Comm, all []ncclras.Member) (words string, ranks []int, nodes []*node) {
	var names []string
	for _, m := range all {
		s := v.seatOf(m)
		rank := v.rankOf(comms, m)
		var n *node
		switch {
		case s != nil:
			rank, n = s.rank, s.node
			names = append(names, s.who())
		case rank >= 0:
			if n = v.nodeOf(rank); n == nil {
				n = v.atAddr(m.Addr)
			}
			names = append(names, strings.TrimSpace(fmt.Sprintf("rank %d %s", rank, place(n, m))))
		default:
			n = v.atAddr(m.Addr)
			names = append(names, strings.TrimSpace("a process "+place(n, m)))
		}
		if rank >= 0 {
			ranks = append(ranks, rank)
		}
		if n != nil {
			nodes = append(nodes, n)
		} else if m.Addr.IsValid() {
			nodes = append(nodes, &node{name: m.Addr.String(), index: -1})
		}
	}
	return finding.Some(names), ranks, nodes
}

// place says where a member is: "(host1, pid 7)".
func place(n *node, m ncclras.Member) string {
	var parts []string
	switch {
	case n != nil:
		parts = append(parts, n.name)
	case m.Addr.IsValid():
		parts = append(parts, m.Addr.String())
	}
	if m.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", m.PID))
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// seatOf returns the rank's process that a member is, by its address and process id.
func (v *view) seatOf(m ncclras.Member) *seat {
	return find(v.seats, func(s *seat) bool { return m.PID > 0 && s.proc.PID == m.PID && s.node.isAt(m.Addr) })
}

// rankOf returns the rank of a member by the communicator of all ranks, whose numbers are those of the job; -1: none.
func (v *view) rankOf(comms []ncclras.Comm, m ncclras.Member) int {
	for _, c := range comms {
		if v.world == 0 || c.Size != v.world {
			continue
		}
		if m.Rank >= 0 && len(comms) == 1 {
			return m.Rank
		}
		for _, o := range slices.Concat(c.Missing, c.Outside) {
			if m.PID > 0 && o.PID == m.PID && o.Addr == m.Addr {
				return o.Rank
			}
		}
	}
	return -1
}

// ncclErrors names the ranks that report an error of a communicator.
func (v *view) ncclErrors(r *scene.RAS, c *ncclras.Comm) (out []claim) {
	for _, e := range c.Errors {
		who, ranks, nodes := v.members([]ncclras.Comm{*c}, e.Who)
		if len(e.Who) == 0 {
			who = finding.Count(e.Count, "rank")
		}
		out = append(out, claimed("nccl.error", verdict.Certain, fmt.Sprintf(
			"%s report%s an error of NCCL, and does not end: %s", who, map[bool]string{true: "s"}[e.Count == 1], e.State)).
			of(ranks, nodes...).see(rasAt(r), "communicator "+c.ID+": "+e.State))
	}
	return out
}

// uneven finds ranks that have launched fewer, or more, collectives than most.
func (v *view) uneven(r *scene.RAS, c *ncclras.Comm) []claim {
	var all []ncclras.Member
	var parts []string
	less, more := false, false
	for _, op := range c.Ops {
		if len(op.Shares) == 0 || len(op.Shares[0].Who) > 0 {
			return nil // no majority: nobody is behind
		}
		most := op.Shares[0]
		for _, s := range op.Shares[1:] {
			if len(s.Who) == 0 {
				continue
			}
			less, more = less || s.Launched < most.Launched, more || s.Launched > most.Launched
			who, _, _ := v.members([]ncclras.Comm{*c}, s.Who)
			parts = append(parts, fmt.Sprintf("%s: %d %s, most: %d", who, s.Launched, op.Name, most.Launched))
			for _, m := range s.Who {
				if !slices.Contains(all, m) {
					all = append(all, m)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	who, ranks, nodes := v.members([]ncclras.Comm{*c}, all)
	id := "nccl.behind"
	says := " " + verb(make([]int, len(all)), "is", "are") + " behind the other ranks in a collective of NCCL"
	if less && more {
		id, says = "collective.mismatch", ": other collectives than most ranks have launched"
	} else if more {
		id, says = "collective.mismatch", ": more collectives than the other ranks have launched"
	}
	out := claimed(id, verdict.Certain, fmt.Sprintf("%s%s (communicator %s)", who, says, c.ID)).of(ranks, nodes...)
	for _, p := range parts[:min(len(parts), maxSeen)] {
		out = out.see(rasAt(r), p)
	}
	return []claim{out}
}

// joining finds ranks that have not joined a communicator which others initialise.
func (v *view) joining(r *scene.RAS, c *ncclras.Comm) []claim {
	begun := slices.ContainsFunc(c.States, func(s ncclras.Share) bool { return s.State == "INIT" })
	if !begun || len(c.Outside) == 0 {
		return nil
	}
	who, ranks, nodes := v.members([]ncclras.Comm{*c}, c.Outside)
	return []claim{claimed("nccl.join", verdict.Certain, fmt.Sprintf(
		"%s %s not in NCCL's communicator %s, which the other ranks initialise", who,
		verb(make([]int, len(c.Outside)), "is", "are"), c.ID)).of(ranks, nodes...).see(rasAt(r), "NOCOMM, others INIT")}
}
