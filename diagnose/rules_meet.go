package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/internal/tcpstore"
)

// worlds compares the world sizes that ranks believe in. A rank whose number was read may be of another world on the
// same store, and so may addresses under several prefixes.
func (v *view) worlds() (out []claim) {
	believed := map[int]map[int]bool{} // world size to ranks
	add := func(world, rank int) {
		if world > 0 {
			if believed[world] == nil {
				believed[world] = map[int]bool{}
			}
			believed[world][rank] = true
		}
	}
	seen := map[int]bool{}
	for _, s := range v.seats {
		if s.world > 0 && s.rank >= 0 && !s.read {
			add(s.world, s.rank)
			seen[s.rank] = true
		}
	}
	if v.board != nil && v.prefixes() < 2 {
		for _, b := range v.board.Blobs {
			if b.Group == 0 && !seen[b.Index] {
				add(b.World, b.Index)
			}
		}
	}
	if len(believed) < 2 || len(v.unlike()) > 0 {
		return nil
	}
	sizes := slices.SortedFunc(maps.Keys(believed), func(a, b int) int {
		if d := len(believed[b]) - len(believed[a]); d != 0 {
			return d
		}
		return a - b
	})
	var odd []int
	var parts []string
	for _, w := range sizes[1:] {
		ranks := slices.Sorted(maps.Keys(believed[w]))
		odd = append(odd, ranks...)
		parts = append(parts, fmt.Sprintf("%s %s WORLD_SIZE %d", rankWords(ranks), verb(ranks, "believes", "believe"), w))
	}
	majority := slices.Sorted(maps.Keys(believed[sizes[0]]))
	c := claimed("world.differs", verdict.Certain, fmt.Sprintf("%s; %s %s %d", strings.Join(parts, ", "),
		rankWords(majority), verb(majority, "believes", "believe"), sizes[0]))
	return []claim{c.of(odd, v.nodesOf(odd)...).see("store", "lengths of /default_pg/0//cpu//0/*")}
}

func verb(all []int, one, many string) string {
	if len(all) == 1 {
		return one
	}
	return many
}

// barred finds ranks that wait at the end of init_process_group for all others, of which some never do.
func (v *view) barred() (out []claim) {
	const name = "TORCH_DIST_INIT_BARRIER"
	var passed []int
	for _, s := range v.seats {
		if s.rank >= 0 && s.proc.Env != nil && s.proc.Env[name] != "1" && v.initDone(s) {
			passed = append(passed, s.rank)
		}
	}
	for _, s := range v.seats {
		if len(passed) == 0 || s.proc.Env[name] != "1" || !v.initDone(s) || s.phase != keys && s.phase != group {
			continue
		}
		out = append(out, about("init.barrier", verdict.Certain, s, fmt.Sprintf("waits at the end of init_process_group for "+
			"all ranks, and %s %s left it", rankWords(passed), verb(passed, "has", "have"))).
			see(procPath(s.proc, "environ"), name+"=1"))
	}
	return out
}

// twins looks for two processes with one RANK, or two torchruns with one node rank.
func (v *view) twins() (out []claim) {
	first := map[int]*seat{}
	for _, s := range v.seats {
		if s.rank < 0 || s.read {
			continue // one that was read may be of another world on the same store
		}
		f := first[s.rank]
		if f == nil {
			first[s.rank] = s
			continue
		}
		if f.proc.PID == s.proc.PID && f.node == s.node || v.restarted(f, s) {
			continue
		}
		sure := verdict.Certain
		if f.phase == before || s.phase == before {
			sure = verdict.Likely // a program that a rank has started and that went on without it has its RANK, too
		}
		out = append(out, claimed("rank.duplicate", sure, fmt.Sprintf("two processes have RANK %d: %s and %s",
			s.rank, at(f.node, f.proc.PID), at(s.node, s.proc.PID))).of([]int{s.rank}, f.node, s.node))
	}
	indexes := map[int]*agent{}
	for _, a := range v.agents {
		i, err := strconv.Atoi(a.line.NodeRank.Value)
		if !a.line.NodeRank.Set {
			i, err = 0, nil
		}
		if err != nil || elastic(a.line) {
			continue
		}
		if f := indexes[i]; f != nil && f.node != a.node {
			out = append(out, claimed("node.duplicate", verdict.Certain, fmt.Sprintf("%s and %s both have --node-rank %d",
				f.node.name, a.node.name, i)).of(nil, f.node, a.node))
		}
		indexes[i] = a
	}
	return append(out, v.twinByStore(len(out) > 0)...)
}

func at(n *node, pid int) string { return fmt.Sprintf("%s pid %d", n.name, pid) }

// restarted reports whether two processes are of different attempts of torchrun.
func (v *view) restarted(a, b *seat) bool {
	const count = "TORCHELASTIC_RESTART_COUNT"
	return a.proc.Env[count] != b.proc.Env[count]
}

// twinByStore recognises doubles by a store alone: all have come, and one is missing.
func (v *view) twinByStore(known bool) []claim {
	b := v.board
	if known || b == nil {
		return nil
	}
	if v.want > 1 && len(b.Shares) == 0 && b.Clients >= v.want && len(b.Agents) > 0 && len(b.Agents) < v.want &&
		v.agentAt(0) {
		return []claim{claimed("node.duplicate", verdict.Likely, fmt.Sprintf(
			"%d torchruns have joined, and node rank %s is missing: two have the same --node-rank, or one has ended since",
			b.Clients,
			verdict.Spans(v.absentAgents()),
		)).see("store", fmt.Sprintf("init/ %d, role_info of %d", b.Clients, len(b.Agents)))}
	}
	if len(v.agents) > 0 || len(b.Agents) > 0 || v.world == 0 || b.Clients < v.world || v.blob(0) == nil {
		return nil
	}
	missing := v.absentKeys()
	if len(missing) != 1 || v.seat(missing[0]) != nil || v.nameless() {
		return nil
	}
	return []claim{claimed("rank.duplicate", verdict.Likely, fmt.Sprintf(
		"%d processes have joined, and none of them is rank %d: two have the same RANK, or rank %d has ended since",
		b.Clients, missing[0], missing[0])).of(missing).see("store", fmt.Sprintf("init/ %d", b.Clients))}
}

func (v *view) agentAt(i int) bool {
	for _, a := range v.board.Agents {
		if a.Node == i {
			return true
		}
	}
	return false
}

// absentAgents returns the node ranks that have written nothing to the store.
func (v *view) absentAgents() (out []int) {
	for i := range v.want {
		if !v.agentAt(i) {
			out = append(out, i)
		}
	}
	return out
}

// absentKeys returns the ranks without an address in the default group, if others have theirs.
func (v *view) absentKeys() (out []int) {
	for r := range v.world {
		if v.blob(r) == nil {
			out = append(out, r)
		}
	}
	return out
}

// lines compares the lines of the torchruns.
func (v *view) lines() (out []claim) {
	if v.board != nil && len(v.board.Shares) > 0 {
		return nil // they have agreed
	}
	sizes := map[string][]*node{}
	ids := map[string][]*node{}
	for _, a := range v.agents {
		size := a.line.NNodes.Value
		sizes[size] = append(sizes[size], a.node)
		if elastic(a.line) {
			ids[a.line.RdzvID.Value] = append(ids[a.line.RdzvID.Value], a.node)
		}
	}
	if len(sizes) > 1 {
		out = append(out, claimed("nnodes.differ", verdict.Certain, "the nodes expect different numbers of nodes: "+
			byValue(sizes, "--nnodes ")).of(nil, odd(sizes)...))
	}
	incomplete := map[string][]*node{}
	if v.meet != nil {
		for _, r := range v.meet.Rendezvous {
			if !r.Complete && !r.Closed {
				incomplete[r.ID] = nil
				for _, p := range r.Participants {
					n := v.byName(p.Host)
					if n == nil {
						n = &node{name: p.Host}
					}
					incomplete[r.ID] = append(incomplete[r.ID], n)
				}
			}
		}
	}
	switch {
	case len(ids) > 1 && (v.meet == nil || len(incomplete) > 0):
		out = append(out, claimed("rdzv.ids-differ", verdict.Certain, "the nodes use different rendezvous ids: "+
			byValue(ids, "--rdzv-id ")).of(nil, odd(ids)...))
	case len(incomplete) > 1:
		out = append(out, claimed("rdzv.ids-differ", verdict.Certain, "the nodes wait in different rendezvous: "+
			byValue(incomplete, "--rdzv-id ")).of(nil, odd(incomplete)...).see("store", "torch.rendezvous.*"))
	}
	return out
}

// byValue lists which nodes have which value.
func byValue(values map[string][]*node, option string) string {
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(values)) {
		names := finding.Map(values[value], func(n *node) string { return n.name })
		parts = append(parts, option+value+" on "+finding.Some(names))
	}
	return strings.Join(parts, ", ")
}

// odd returns the nodes that have not the value of most.
func odd(values map[string][]*node) (out []*node) {
	best := ""
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if best == "" || len(values[k]) > len(values[best]) {
			best = k
		}
	}
	tie := 0
	for _, nodes := range values {
		if len(nodes) == len(values[best]) {
			tie++
		}
	}
	for k, nodes := range values {
		if k != best || tie > 1 {
			out = append(out, nodes...)
		}
	}
	return out
}

// missingNodes names the nodes that have not joined.
func (v *view) missingNodes() []claim {
	if v.meet != nil {
		for _, r := range v.meet.Rendezvous {
			if !r.Complete && !r.Closed && len(r.Participants) < v.want && len(r.Participants) > 0 {
				return []claim{v.missingElastic(finding.Map(r.Participants, func(p tcpstore.Participant) string { return p.Host }))}
			}
		}
		return nil
	}
	b := v.board
	if b == nil {
		return v.idleNodes()
	}
	if v.want < 2 || len(b.Shares) > 0 || v.elastic || b.Clients >= v.want || b.Clients < 1 {
		return nil
	}
	missing := slices.DeleteFunc(v.absentAgents(), func(i int) bool { return i == 0 })
	if len(missing) == 0 {
		return nil
	}
	names := finding.Map(missing, func(i int) string { return v.indexName(i) })
	c := claimed("node.missing", verdict.Certain, fmt.Sprintf("%s of %d %s not joined: %s; torchrun waits for it",
		finding.Count(len(missing), "node"), v.want, verb(missing, "has", "have"), finding.Some(names)))
	c.Nodes = names
	return []claim{c.see("store", fmt.Sprintf("init/ %d, role_info without %s", b.Clients, verdict.Spans(missing)))}
}

// idleNodes names nodes on which launch has started the command, and neither a torchrun nor a rank runs. It is asked
// where the job's store says nothing.
func (v *view) idleNodes() (out []claim) {
	busy := 0
	for _, n := range v.hosts {
		switch {
		case n.scene.Node == nil || !v.readable(n):
		case slices.ContainsFunc(v.seats, func(s *seat) bool { return s.node == n }),
			slices.ContainsFunc(v.agents, func(a *agent) bool { return a.node == n }):
			busy++
		default:
			out = append(out, claimed("node.missing", verdict.Likely, n.name+" runs no torchrun and no rank: its command "+
				"hangs before it starts them, or is another program").of(nil, n).do("launch doctor   # on "+n.name))
		}
	}
	if busy == 0 {
		return nil
	}
	return out
}

// indexName names a node by its host, if it is known, else by its index.
func (v *view) indexName(i int) string {
	if n := v.byIndex(i); n != nil {
		return n.name
	}
	for _, e := range v.gone() {
		if e.Rank == i && !v.elastic {
			return e.Name + ", whose launch has left"
		}
	}
	return "node " + strconv.Itoa(i)
}

// missingElastic says who is there under c10d, whose state does not say who is missing.
func (v *view) missingElastic(here []string) claim {
	c := claimed("node.missing", verdict.Certain, fmt.Sprintf("%d of %d nodes have joined (%s), %d missing",
		len(here), v.want, finding.Some(here), v.want-len(here)))
	for _, a := range v.agents {
		if !slices.Contains(here, a.node.name) {
			c.Nodes = append(c.Nodes, a.node.name)
			c.Sure = verdict.Likely // its torchrun is there, and has not joined
		}
	}
	return c.see("store", "torch.rendezvous: participants "+finding.Some(here))
}
