package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// arguments finds ranks that wait in the same collective and have called it with other arguments: each of two in
// another group although both are members of both, or with another rank that sends or receives. All ranks of the job
// must be in a collective, and in no other one: two calls of a loop look alike while a rank is late.
func (v *view) arguments() []claim {
	if v.busy() {
		return nil
	}
	ranks := map[int]bool{}
	for _, s := range v.seats {
		if s.rank < 0 || s.phase != collective || s.op.kind != ofAll || s.op.sure != verdict.Certain ||
			s.op.stack != mainStack(s.proc) || works(s.proc.Moved, s.node.scene.Span) || executing(s.proc) > 1 {
			return nil
		}
		ranks[s.rank] = true
	}
	if len(ranks) < v.world {
		return nil
	}
	var open []claim // said where no two differ for certain
	for i, a := range v.seats {
		for _, b := range v.seats[i+1:] {
			switch c, ok := v.differ(a, b); {
			case ok && v.together(a) && v.together(b):
				return []claim{c}
			case ok && open == nil:
				open = []claim{v.orders(a.op.name)}
			}
		}
	}
	return open
}

// together reports whether no rank can have left the call of a rank that waits in it: all members leave a collective
// without a root only when all have joined it, and one of two members cannot be ahead of the other.
func (v *view) together(s *seat) bool {
	if !s.op.rooted() {
		return true
	}
	g, least, members := v.groupOf(s), 0, 0
	for _, b := range v.board.Blobs {
		if b.Group == g {
			least++
			members = max(members, b.World, least)
		}
	}
	return members == 2
}

// orders says that ranks wait for each other in calls of one collective of which some ranks may be ahead of others.
func (v *view) orders(name string) claim {
	how, at, seeds := map[string][]int{}, map[string][]int{}, map[string][]int{}
	c := claimed("collective.arguments", verdict.Likely, "")
	for _, s := range v.seats {
		if s.op.name == name {
			c = c.of(append(c.Ranks, s.rank), s.node)
			call := "with " + cmp.Or(s.op.root(), "a source that is not seen")
			if g := v.groupOf(s); g > 0 {
				call += fmt.Sprintf(" in the group that it has made as number %d", g)
			}
			where := "at " + line(s.op.stack)
			how[call], at[where] = append(how[call], s.rank), append(at[where], s.rank)
			seed := "with no PYTHONHASHSEED"
			if value, set := s.proc.Env["PYTHONHASHSEED"]; set {
				seed = "with PYTHONHASHSEED=" + value
			}
			seeds[seed] = append(seeds[seed], s.rank)
		}
	}
	each := func(of map[string][]int) (out []string) {
		for _, what := range slices.Sorted(maps.Keys(of)) {
			out = append(out, rankWords(of[what])+" "+what)
		}
		return out
	}
	c.Says = fmt.Sprintf("the ranks wait for each other in calls of %s, in another order or with other arguments: %s%s; "+
		"a rank leaves one before all others join it, so that some may only be further on", name,
		strings.Join(each(how), ", "), v.quietWords())
	c.Do = "compare the order of these calls on all ranks: look for a loop over a set or a dict, and at how the line " +
		"computes src or dst"
	if len(seeds) > 1 {
		c.Do = "export PYTHONHASHSEED=0   # on all nodes, before launch: it decides the order of a set; or sort what the " +
			"loop goes through"
		for _, text := range each(seeds) {
			c = c.see("environ", text)
		}
	}
	for _, text := range each(at) {
		c = c.see("py-spy", text)
	}
	c.Seen = c.Seen[:min(len(c.Seen), maxSeen)]
	return c
}

// differ compares the calls of two ranks.
func (v *view) differ(a, b *seat) (claim, bool) {
	ga, gb := v.groupOf(a), v.groupOf(b)
	if a.op.name != b.op.name || ga < 0 || gb < 0 {
		return claim{}, false
	}
	c := claimed("collective.arguments", verdict.Certain, "").of([]int{a.rank, b.rank}, a.node, b.node)
	for _, s := range []*seat{a, b} {
		c = c.see("py-spy", fmt.Sprintf("%s at %s", seatName(s), line(s.op.stack)))
	}
	ra, rb := a.op.root(), b.op.root()
	switch {
	case ga != gb && v.member(a, gb) && v.member(b, ga):
		c.Says = fmt.Sprintf("ranks %d and %d wait in %s of different groups, each of which has both: rank %d in %s, "+
			"rank %d in %s", a.rank, b.rank, a.op, a.rank, groupWords(ga), b.rank, groupWords(gb)) + v.quietWords()
		return c.see("tcp_info", "on which connection each has sent last").do("all ranks must make the same groups in the " +
			"same order, and call their collectives in the same order: look for a loop over a set or a dict"), true
	case ga == gb && ra != "" && rb != "" && ra != rb && keyOf(ra) == keyOf(rb):
		c.Says = fmt.Sprintf("the ranks call %s with other arguments: rank %d with %s, rank %d with %s%s", a.op, a.rank, ra,
			b.rank, rb, v.quietWords())
		return c.do("all ranks of a group must name the same rank as src or dst: look at how the line computes it"), true
	}
	return claim{}, false
}

// groupWords names a group by when it was made.
func groupWords(g int) string {
	if g == 0 {
		return "the group of all ranks"
	}
	return fmt.Sprintf("the one that it has made as number %d", g)
}

// member reports whether a rank has published an address for a group.
func (v *view) member(s *seat, g int) bool {
	return slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.PID == s.proc.PID && k.State == "established" && v.groupAt(k) == g
	})
}

// calls finds ranks that wait for each other by torch.distributed.rpc: all threads that answer calls of others are
// themselves in a call. It is never certain: a function in C++, and one that answers later (async_execution), has no
// thread of Python, and the names of the ranks that are called do not say which ranks these are.
func (v *view) calls() []claim {
	if v.world < 2 || len(v.seats) < v.world || v.busy() {
		return nil
	}
	c := claimed("rpc.crossed", verdict.Likely, "")
	for _, s := range v.seats {
		if s.phase != calling || s.proc.Moved.Switches > 0 || works(s.proc.Moved, s.node.scene.Span) {
			return nil
		}
		for i := range s.proc.Stacks {
			t := &s.proc.Stacks[i]
			o := namedOp(t)
			switch answers := hasFrame(t, "_run_function"); {
			case o.kind == ofCall && answers:
				c = c.of(append(c.Ranks, s.rank), s.node)
				c = c.see("py-spy", fmt.Sprintf("a thread of %s that answers a call in %s at %s", seatName(s), o.whole(true),
					line(t)))
			case answers:
				return nil // it works, or waits for something else
			case t == s.op.stack:
				c = c.see("py-spy", fmt.Sprintf("%s in %s at %s", seatName(s), s.op.whole(true), line(t)))
			}
		}
	}
	if len(c.Ranks) == 0 {
		return nil
	}
	c = c.of(append(c.Ranks, v.in(calling)...), v.nodes...)
	c.Says = fmt.Sprintf("%s wait for each other in remote procedure calls: each thread that answers calls is itself "+
		"in one", rankWords(c.Ranks))
	if len(c.Seen) > maxSeen {
		c.Seen = c.Seen[:maxSeen]
	}
	return []claim{c}
}

// inWorker says that a rank waits for its DataLoader, whose worker is in a collective: in a process that was forked
// Gloo has no threads, and no other rank is in that call.
func (v *view) inWorker(s *seat) (claim, bool) {
	for i := range s.node.scene.Procs {
		p := &s.node.scene.Procs[i]
		m := mainStack(p)
		if p.Role != scene.Child || p.Parent != s.proc.PID || p.Comm != scene.Worker || m == nil || !waitsOnFutex(p) ||
			thread(p, "gloo_tcp_loop") || thread(p, "pt_nccl_") || works(p.Moved, s.node.scene.Span) {
			continue
		}
		if o := namedOp(m); o.kind == ofAll || o.kind == ofPair {
			c := about("collective.worker", verdict.Certain, s, fmt.Sprintf(
				"waits for a worker of a DataLoader, which is in %s: that never ends in a process that was forked", o))
			return c.see("py-spy", fmt.Sprintf("the worker (pid %d) at %s", p.PID, line(m))), true
		}
	}
	return claim{}, false
}
