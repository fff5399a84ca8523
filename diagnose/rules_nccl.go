package diagnose

import (
	"fmt"
	"slices"
	"strconv"
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
		return v.firstComm()
	}
	out = append(v.unanswered(r), v.firstComm()...)
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
	if n != nil {
		parts = append(parts, n.name)
	}
	if m.Addr.IsValid() && (n == nil || n.scene == nil && n.name != m.Addr.String()) {
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
	less, more, most := false, false, ""
	for _, op := range c.Ops {
		if len(op.Shares) == 0 || len(op.Shares[0].Who) > 0 {
			return nil // no majority: nobody is behind
		}
		usual := op.Shares[0]
		for _, s := range op.Shares[1:] {
			if len(s.Who) == 0 {
				continue
			}
			less, more = less || s.Launched < usual.Launched, more || s.Launched > usual.Launched
			who, _, _ := v.members([]ncclras.Comm{*c}, s.Who)
			parts = append(parts, fmt.Sprintf("%s: %d %s, most: %d", who, s.Launched, op.Name, usual.Launched))
			most = op.Name
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
	see := func(c claim) claim {
		for _, p := range parts[:min(len(parts), maxSeen)] {
			c = c.see(rasAt(r), p)
		}
		return c
	}
	if !more && unevenComms(r) == 1 {
		if out := v.behind(all, most); out != nil {
			out[0] = see(out[0])
			return out
		}
	}
	who, ranks, nodes := v.members([]ncclras.Comm{*c}, all)
	id := "nccl.behind"
	says := " " + verb(make([]int, len(all)), "is", "are") + " behind the other ranks in a collective of NCCL"
	if less && more {
		id, says = "collective.mismatch", ": other collectives than most ranks have launched"
	} else if more {
		id, says = "collective.mismatch", ": more collectives than the other ranks have launched"
	}
	says = fmt.Sprintf("%s%s (communicator %s)", who, says, c.ID)
	out := claimed(id, verdict.Certain, says).of(ranks, nodes...)
	if len(all) == 1 && all[0].PID > 0 {
		out.Do = strings.ReplaceAll(out.Do, "PID", strconv.Itoa(all[0].PID))
	}
	return []claim{see(out)}
}

// unevenComms counts the communicators in which ranks differ: where there are two, ranks wait for each other.
func unevenComms(r *scene.RAS) (n int) {
	for _, c := range r.Report.Comms {
		if slices.ContainsFunc(c.Ops, func(op ncclras.Op) bool { return len(op.Shares) > 1 }) {
			n++
		}
	}
	return n
}

// behind says what ranks do that have not launched the collective of most, if that is seen of all of them.
func (v *view) behind(all []ncclras.Member, most string) (out []claim) {
	for _, m := range all {
		s := v.seatOf(m)
		switch {
		case s == nil:
			return nil
		case s.phase == inside:
			out = append(out, v.elsewhere(s))
		case s.phase == collective && s.op.kind != noOp && !sameOp(s.op.name, most):
			out = append(out, about("collective.mismatch", verdict.Certain, s, fmt.Sprintf(
				"waits in %s, and most ranks in %s", s.op, most)).see("py-spy", seatName(s)+" at "+line(s.op.stack)))
		default:
			return nil
		}
	}
	return out
}

// sameOp reports whether torch's name of a collective and NCCL's are of the same: all_reduce, AllReduce.
func sameOp(torch, nccl string) bool {
	return strings.HasPrefix(strings.ReplaceAll(torch, "_", ""), strings.ToLower(nccl))
}

// spins reports whether a rank waits in NCCL: its main thread then asks the GPU, or its sockets, all the time.
func (v *view) spins(s *seat) bool { return s.phase == collective && thread(s.proc, "pt_nccl_") }

// firstComm finds ranks that wait for NCCL's first communicator, where none of those that are seen is to blame.
func (v *view) firstComm() []claim {
	r, _ := v.ras()
	if r != nil && len(r.Report.Comms) > 0 || v.world <= len(v.seats) || len(v.goneOfNCCL()) > 0 ||
		slices.ContainsFunc(v.seats, func(s *seat) bool { return !v.spins(s) }) {
		return nil
	}
	var ranks []int
	at := ""
	for _, s := range v.seats {
		if main := mainStack(s.proc); s.rank >= 0 && v.spins(s) && main != nil {
			ranks, at = append(ranks, s.rank), seatName(s)+" at "+line(main)
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	c := claimed("nccl.join", verdict.Likely, fmt.Sprintf(
		"%s %s in NCCL's first communicator for ranks of nodes that were not asked", rankWords(ranks),
		verb(ranks, "waits", "wait")))
	for n := range v.world {
		if v.seat(n) == nil && (v.nodeOf(n) == nil || v.nodeOf(n).scene == nil) {
			if r != nil {
				c = c.see(rasAt(r), "no communicator yet")
			}
			return []claim{c.see("py-spy", at).do("ask the other nodes: launch doctor")}
		}
	}
	return nil
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
