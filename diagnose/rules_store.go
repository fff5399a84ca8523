package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// onPort returns the processes of a node that listen on a port, and the listener.
func onPort(n *node, port uint16) (procs []*scene.Proc, queue uint32, found bool) {
	for _, k := range n.scene.Sockets {
		if k.State != "listen" || k.Local.Port() != port || n.scene.Net != 0 && k.Net != 0 && k.Net != n.scene.Net {
			continue
		}
		queue, found = max(queue, k.RecvQ), true
		for i, p := range n.scene.Procs {
			if p.PID == k.PID {
				procs = append(procs, &n.scene.Procs[i])
			}
		}
	}
	return procs, queue, found
}

// isHere reports whether a store's address is the node's own.
func (n *node) isHere(st scene.Store) bool {
	a := st.At.Addr().Unmap()
	return n.scene != nil && (a.IsLoopback() || slices.Contains(n.scene.Addrs, a))
}

// hostsStore reports whether a torchrun listens on the port of a store of the job.
func (v *view) hostsStore(a *agent) bool {
	for _, st := range v.stores {
		if st.from != a.node || !st.from.isHere(st.Store) {
			continue
		}
		procs, _, _ := onPort(st.from, st.At.Port())
		if slices.Contains(procs, a.proc) {
			return true
		}
	}
	return false
}

// storeHolders judges the process that listens on a store's port, on the store's own host.
func (v *view) storeHolders() (out []claim) {
	done := map[string]bool{}
	for _, st := range v.stores {
		host := find(v.hosts, func(n *node) bool {
			return n == st.from && n.isHere(st.Store) || n.isAt(st.At.Addr().Unmap())
		})
		if !st.At.IsValid() || host == nil || done[host.name+st.At.String()] {
			continue
		}
		procs, queue, found := onPort(host, st.At.Port())
		if !found {
			continue
		}
		if c, ok := v.holder(st, host, procs, queue); ok {
			done[host.name+st.At.String()] = true
			out = append(out, c)
		}
	}
	return out
}

// ownPort reports whether a store's port is seen to be that of a rank without torch, which need not speak as a store.
func (v *view) ownPort(st reached) bool {
	host := v.atAddr(st.At.Addr().Unmap())
	if host == nil || host.scene == nil {
		return false
	}
	procs, _, _ := onPort(host, st.At.Port())
	return slices.ContainsFunc(procs, func(p *scene.Proc) bool { return v.ours(p) && withoutTorch(p) })
}

// withoutTorch reports whether a process is seen to have no torch.
func withoutTorch(p *scene.Proc) bool { return p.Env != nil && p.Libs["torch"] == "" }

// ours reports whether a process is one of this job.
func (v *view) ours(p *scene.Proc) bool {
	return slices.ContainsFunc(v.seats, func(s *seat) bool { return s.proc == p }) ||
		slices.ContainsFunc(v.agents, func(a *agent) bool { return a.proc == p }) ||
		p.Role == scene.Companion || p.Role == scene.Launch
}

func (v *view) holder(st reached, host *node, procs []*scene.Proc, queue uint32) (claim, bool) {
	for _, p := range procs {
		who := fmt.Sprintf("%s (pid %d on %s)", command(p), p.PID, host.name)
		switch {
		case p.State == "T" || p.State == "t":
			if p.Role == scene.Agent {
				continue // processes names it
			}
			return claimed(
					"store.stopped",
					verdict.Certain,
					fmt.Sprintf("the store of the job at %s is stopped: %s has state %s",
						st.Addr, who, p.State),
				).of(v.rankOfProc(p), host).to(host, p).
					see(procPath(p, "status"), "State "+p.State),
				true
		case st.Outcome == scene.Answered && !v.ours(p):
			return claimed("store.foreign", verdict.Certain, fmt.Sprintf("another job's store holds %s: %s",
				st.Addr, who)).of(nil, host).do(fmt.Sprintf("end pid %d, or choose another MASTER_PORT", p.PID)), true
		case (st.Outcome == scene.Silent || st.Outcome == scene.Garbage) && !v.ours(p):
			return claimed("store.silent", verdict.Certain, fmt.Sprintf("%s listens on %s and is no torch store",
				who, st.Addr)).of(nil, host).do(fmt.Sprintf("end pid %d, or choose another MASTER_PORT", p.PID)), true
		case st.Outcome == scene.Silent && withoutTorch(p):
			continue // a program's own port, which need not speak as a store
		case st.Outcome == scene.Silent:
			return claimed("store.stopped", verdict.Likely, fmt.Sprintf(
				"the store of the job at %s does not answer: %s, state %s, %s not accepted", st.Addr, who, p.State,
				finding.Count(int(queue), "connection"))).of(v.rankOfProc(p), host).to(host, p), true
		}
	}
	if len(procs) == 0 && (st.Outcome == scene.Silent || st.Outcome == scene.Garbage) {
		return claimed("store.silent", verdict.Certain, fmt.Sprintf(
			"a process of another user listens on %s and does not answer as a torch store", st.Addr)).of(nil, host), true
	}
	return claim{}, false
}

// command names a process in a few words.
func command(p *scene.Proc) string {
	text := p.Comm
	if len(p.Argv) > 0 {
		text = strings.Join(p.Argv, " ")
	}
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return text
}

func (v *view) rankOfProc(p *scene.Proc) []int {
	for _, s := range v.seats {
		if s.proc == p {
			return v.known(s)
		}
	}
	return nil
}

// storeReach judges how each node reaches the stores of the job.
func (v *view) storeReach() (out []claim) {
	refused := map[string][]*node{}
	answered := map[string]bool{}
	for _, st := range v.stores {
		answered[st.Addr] = answered[st.Addr] || st.Outcome == scene.Answered
	}
	for _, st := range v.stores {
		if !v.dependsOn(st) {
			continue
		}
		ranks := v.ranksOf(st.from)
		switch st.Outcome {
		case scene.NoName:
			host, _, _ := cutPort(st.Addr)
			out = append(out, claimed("store.name", verdict.Certain, fmt.Sprintf("%s cannot resolve %s, the store's host",
				st.from.name, host)).of(ranks, st.from).see("getaddrinfo "+host, st.Err))
		case scene.Unreachable:
			out = append(out, v.dropped(st, ranks))
		case scene.Refused:
			refused[st.Addr] = append(refused[st.Addr], st.from)
		case scene.Silent, scene.Garbage:
			if !st.from.isHere(st.Store) && !v.ownPort(st) {
				out = append(out, claimed("store.silent", verdict.Certain, fmt.Sprintf(
					"%s accepts connections from %s and does not answer: a stopped store, or another program", st.Addr, st.from.name)).
					do("look on that host at which process listens there: launch doctor, or ss -ltnp"))
			}
		}
	}
	out = append(out, v.synSent()...)
	for addr, nodes := range refused {
		if s := v.seat(0); len(v.agents) == 0 && s != nil && s.phase == before {
			continue // rank 0 is to open the store, and is on its way: what it does is judged instead
		}
		if answered[addr] {
			out = append(out, claimed("store.dropped", verdict.Likely, fmt.Sprintf("%s refuses %s, and answers other nodes: "+
				"a firewall rejects it", addr, finding.Some(names(nodes)))).of(nil, nodes...))
			continue
		}
		if !v.spawned() { // a script that starts its ranks itself gives them another address than MASTER_ADDR, as a rule
			out = append(out, v.refused(addr, nodes)...)
		}
	}
	return append(out, v.foreign()...)
}

func names(nodes []*node) []string {
	return finding.Map(nodes, func(n *node) string { return n.name })
}

// dependsOn reports whether processes of the node still wait for this store: after init a rank needs none.
func (v *view) dependsOn(st reached) bool {
	for _, s := range v.seats {
		if s.node == st.from && s.phase != inside && s.phase != collective {
			return true
		}
	}
	for _, a := range v.agents {
		if a.node == st.from && !slices.ContainsFunc(v.seats, func(s *seat) bool { return s.node == a.node }) {
			return true
		}
	}
	return false
}

// dropped says that a node gets no answer from the store's host.
func (v *view) dropped(st reached, ranks []int) claim {
	if st.Here != "" {
		says, do := refusedHere(st.Here, st.from, st.At.Addr(), st.At.Port())
		return claimed("path.here", verdict.Certain, says).do(do).of(ranks, st.from).see("connect "+st.Addr, st.Err)
	}
	return claimed("store.dropped", verdict.Certain, fmt.Sprintf(
		"%s gets no answer from the store at %s: its SYN packets are dropped, or that host is down", st.from.name, st.Addr)).
		of(ranks, st.from).see("connect "+st.Addr, st.Err)
}

// synSent finds processes whose SYN to the store stays without an answer although a later try succeeded.
func (v *view) synSent() (out []claim) {
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		for _, k := range n.scene.Sockets {
			if k.State != "syn-sent" || k.Info == nil || k.Info.Retrans+uint32(k.Info.Backoff) < 2 || !v.isStore(n, k) {
				continue
			}
			out = append(out, claimed("store.dropped", verdict.Certain, fmt.Sprintf(
				"%s has sent SYN to the store at %s %d times without an answer", n.name, k.Remote, k.Info.Retrans+1)).
				of(v.ranksOf(n), n).see("tcp_info", fmt.Sprintf("syn-sent, %d retransmissions", k.Info.Retrans)))
			break
		}
	}
	return out
}

// refused says that no process listens at the store's address.
func (v *view) refused(addr string, nodes []*node) []claim {
	c := claimed("store.refused", verdict.Certain, fmt.Sprintf("no process listens at %s, the store of the job", addr))
	first := v.byIndex(0)
	if a := find(v.agents, func(a *agent) bool { return a.node == first }); a != nil {
		switch active := works(a.proc.Moved, first.scene.Span); {
		case active && a.proc.Comm == scene.Elastic:
			return nil // it has begun long ago, and ends
		case active:
			c = claimed("rank.working", verdict.Certain, fmt.Sprintf(
				"torchrun of %s, which is to open the store at %s, still starts", first.name, addr))
			return []claim{c.of(nil, first)}
		}
		return []claim{c.of(nil, first).see("connect "+addr, "refused")}
	}
	here := v.storeHost(addr)
	if v.elastic {
		if c.Says += "; no torchrun believes that this is its own host"; here == nil {
			c = v.mayStart(c)
		}
		return []claim{c.see("connect "+addr, "refused")}
	}
	if s := v.seat(0); s != nil && here != nil && s.node == here {
		return []claim{v.hostsNone(addr, s)}
	}
	host, _, _ := cutPort(addr)
	seen := "refused on " + finding.Some(names(nodes))
	ended := len(v.in(keys, mesh, group, inside, collective)) > 0
	if ended {
		c = claimed("node.ended", verdict.Certain, fmt.Sprintf(
			"torchrun of node rank 0 (%s) has ended, and its store with it; other ranks wait for its ranks", host))
	} else {
		c.Says += ": node rank 0 (" + host + ") has not started, or has ended"
	}
	switch {
	case here != nil:
		c = c.of(nil, here)
	case ended:
		c.Nodes = []string{"node 0"}
	default:
		c = v.mayStart(c)
		c.Nodes = []string{"node 0"}
	}
	return []claim{c.see("connect "+addr, seen)}
}

// hostsNone says that rank 0 runs, and hosts no store at the address of its environment. That the script sends the
// others to the place where rank 0 listens shows once one of them is in init_process_group: it has a connection there.
func (v *view) hostsNone(addr string, s *seat) claim {
	c := claimed("store.elsewhere", verdict.Likely, fmt.Sprintf("%s runs, and opens no store at %s, which MASTER_ADDR "+
		"and MASTER_PORT name: does its script give init_process_group another address, or a file?", s.who(), addr)).
		of([]int{0}, s.node).see("connect "+addr, "refused")
	var ports []uint16
	for _, k := range s.node.scene.Sockets {
		if k.PID == s.proc.PID && k.State == "listen" {
			ports = append(ports, k.Local.Port())
			c = c.see(procPath(s.proc, "net/tcp"), "rank 0 listens at "+k.Local.String())
		}
	}
	lost := func(o *seat) bool {
		m := mainStack(o.proc)
		return o.rank > 0 && o.phase == dialing && m != nil && hasFrame(m, "init_process_group") &&
			!works(o.proc.Moved, o.node.scene.Span) && !callsOneOf(o, ports)
	}
	switch o := find(v.seats, lost); {
	case v.strangers():
		c.Sure = verdict.Certain
		c = c.see("sockets", "all ranks are in init_process_group, and none has a connection to another one or to a store").
			do(c.Do + "; a file of init_method must be one that all nodes share")
	case o != nil:
		if c = c.see("py-spy", o.who()+" is in init_process_group, and has no connection to rank 0"); len(ports) > 0 {
			c.Sure = verdict.Certain
		}
	case slices.ContainsFunc(v.seats, func(o *seat) bool { return o.phase == before }):
		c.Sure = verdict.Possible // it may find rank 0 there once it calls
	}
	return c
}

// strangers reports whether all ranks listen in init_process_group, and no rank has a connection: each may have a file
// of its own.
func (v *view) strangers() bool {
	return v.world > 1 && len(v.seats) == v.world && !slices.ContainsFunc(v.seats, func(s *seat) bool {
		m, listens := mainStack(s.proc), false
		return m == nil || !hasFrame(m, "init_process_group") || works(s.proc.Moved, s.node.scene.Span) ||
			slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
				listens = listens || k.PID == s.proc.PID && k.State == "listen"
				return k.PID == s.proc.PID && k.State != "listen"
			}) || !listens
	})
}

// callsOneOf reports whether a process has a connection to one of some ports, or asks for one.
func callsOneOf(s *seat, ports []uint16) bool {
	return slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.PID == s.proc.PID && k.State != "listen" && slices.Contains(ports, k.Remote.Port())
	})
}

// mayStart says that a store may still open: its host was not seen, and torch takes long to import there.
func (v *view) mayStart(c claim) claim {
	c.Sure = verdict.Possible
	c.Says += ", or still starts: that is only seen there"
	return c
}

// storeHost returns the node that is seen and has a store's address; nil: none.
func (v *view) storeHost(addr string) *node {
	host, _, _ := cutPort(addr)
	return find(v.nodes, func(n *node) bool {
		return n.scene != nil && (n.name == host || slices.ContainsFunc(v.stores, func(st reached) bool {
			return st.from == n && st.Addr == addr && n.isHere(st.Store)
		}))
	})
}

// foreign recognises another job's store by what it says of agents that are here.
func (v *view) foreign() []claim {
	if v.board == nil || v.elastic {
		return nil
	}
	for _, a := range v.agents {
		n := v.indexOf(a)
		for _, b := range v.board.Agents {
			local := number(map[string]string{"n": a.line.NProc.Value}, "n")
			other := b.Run != "" && a.line.RdzvID.Set && b.Run != a.line.RdzvID.Value
			if other || n != b.Node && len(v.board.Shares) == 0 && b.Local > 0 && local > 0 && b.Local != local &&
				v.byIndexAgent(b.Node) == nil {
				return []claim{claimed("store.foreign", verdict.Likely, fmt.Sprintf(
					"the store that %s reaches seems to be another job's: its node %d has %s, and this job's nodes have %d",
					a.node.name, b.Node, finding.Count(b.Local, "rank"), local)).
					see("store", fmt.Sprintf("role_info/%d", b.Node))}
			}
		}
	}
	return nil
}

// asksStore reports whether the main thread of a rank waits for an answer of a store of the job.
func (v *view) asksStore(s *seat) bool {
	c := s.proc.Syscall
	return c != nil && c.Socket != 0 && slices.Contains([]string{"poll", "recvfrom", "recvmsg", "read"}, c.Name) &&
		slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
			return k.Inode == c.Socket && k.PID == s.proc.PID && k.State == "established" && v.isStore(s.node, k)
		})
}

// pollsStore reports whether the main thread of a rank sleeps and wakes, and one of its connections has sent to a store
// of the job meanwhile: of Gloo alone, since threads of NCCL's process group ask the store, too.
func (v *view) pollsStore(s *seat) bool {
	return s.proc.Retries() && !thread(s.proc, "pt_nccl_") && v.toStore(s, func(k scene.Socket) bool {
		return k.State == "established" && k.Info != nil && k.Info.Sent > 0 && k.Info.LastSent < s.node.scene.Span
	})
}
