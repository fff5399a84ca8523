package diagnose

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/internal/launcher"
	"launch/internal/tcpstore"
)

// view is what all scenes together show of one job.
type view struct {
	nodes   []*node
	hosts   []*node // all that have a scene, also of other jobs
	seats   []*seat // the processes of ranks
	agents  []*agent
	parts   []part // of MPI's start
	world   int    // WORLD_SIZE as most ranks believe; 0: unknown
	want    int    // nodes, as most agents' lines say; 0: unknown
	run     string
	elastic bool
	board   *tcpstore.Board // of the store that the ranks use
	home    reached         // that store
	meet    *tcpstore.Board // of c10d's endpoint
	stores  []reached

	byRank map[int]*seat
	blobs  map[int]*tcpstore.Blob // of the default group, by rank
	starts []tcpstore.Share       // by their first rank

	still *time.Duration // what longest returned; nil: it was not asked
}

// node is one host of the job: with a scene, or known from the store alone (scene is nil).
type node struct {
	name  string
	index int // node rank; -1: unknown
	scene *scene.Scene
}

// seat is one process that is a rank.
type seat struct {
	rank  int // -1: not known
	world int // WORLD_SIZE as it believes; 0: not known
	node  *node
	proc  *scene.Proc
	phase phase
	op    op   // of torch.distributed, that it waits in
	read  bool // the number was read in a call or an address, not in the environment
}

// agent is one torchrun.
type agent struct {
	node *node
	proc *scene.Proc
	line launcher.Line
}

// reached is a store as one node reached it.
type reached struct {
	from *node
	scene.Store
}

// key of a job's store: the address that was asked, so that names for one address are one job.
func storeKey(s *scene.Scene, host, port string) string {
	addr := net.JoinHostPort(strings.Trim(host, "[]"), port)
	for _, st := range s.Stores {
		if st.Addr == addr && st.At.IsValid() {
			a := st.At
			if a.Addr().IsLoopback() && len(s.Addrs) > 0 {
				return netip.AddrPortFrom(s.Addrs[0], a.Port()).String()
			}
			return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
		}
	}
	return addr
}

// storeKeys returns the keys of a store: by its address, and by its name, since a node may not resolve it.
func storeKeys(s *scene.Scene, host, port string) []string {
	keys := []string{storeKey(s, host, port)}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" || host == "localhost" {
		return keys
	}
	for _, st := range s.Stores {
		if st.Addr == host+":"+port && st.At.IsValid() && st.At.Addr().IsLoopback() {
			return keys // its own name on a loopback address may be that of another host elsewhere
		}
	}
	return append(keys, "name "+host+":"+port)
}

// parsed is a process of a job with what its line or environment says.
type parsed struct {
	node *node
	proc *scene.Proc
	line launcher.Line
	keys []string // of the jobs that it belongs to
}

// views divides what the scenes show into jobs.
func views(scenes []scene.Scene) []*view {
	nodes := hosts(scenes)
	var all []*parsed
	for _, n := range nodes {
		all = append(all, members(n)...)
	}
	groups := map[string][]*parsed{}
	union := newUnion()
	for _, p := range all {
		for _, k := range p.keys {
			union.join(p.keys[0], k)
		}
	}
	for _, p := range all {
		root := union.find(p.keys[0])
		groups[root] = append(groups[root], p)
	}
	var out []*view
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if v := assemble(nodes, groups[key], union, key); !v.onlyStore() {
			out = append(out, v)
		}
	}
	return out
}

// members returns the agents and ranks of a node without those that an earlier run has left there, which its scene does
// not show any more.
func members(n *node) []*parsed {
	found, left := processes(n), map[int]bool{}
	for _, p := range found {
		if leftover(p) {
			left[p.proc.PID] = true
		}
	}
	if len(left) == 0 {
		return found
	}
	s := *n.scene
	s.Procs = slices.DeleteFunc(slices.Clone(s.Procs), func(p scene.Proc) bool { return left[p.PID] || left[p.Parent] })
	s.Sockets = slices.DeleteFunc(slices.Clone(s.Sockets), func(k scene.Socket) bool { return left[k.PID] })
	n.scene = &s
	return processes(n)
}

// leftover reports whether a process is of a run before this one, and has no connection to this one's store.
func leftover(p *parsed) bool {
	return p.proc.Earlier && !slices.ContainsFunc(p.node.scene.Sockets, func(k scene.Socket) bool {
		port := ":" + strconv.Itoa(int(k.Remote.Port()))
		return k.PID == p.proc.PID && k.State == "established" &&
			slices.ContainsFunc(p.keys, func(key string) bool { return strings.HasSuffix(key, port) })
	})
}

// processes returns the agents and ranks of a node, each with the keys of its job.
func processes(n *node) (out []*parsed) {
	s := n.scene
	byPID := map[int]*parsed{}
	for i := range s.Procs {
		p := &s.Procs[i]
		x := &parsed{node: n, proc: p}
		switch p.Role {
		case scene.Agent:
			x.line, _ = launcher.Parse(agentArgv(p.Argv), "")
			x.keys = agentKeys(s, x)
		case scene.Rank:
			x.keys = rankKeys(s, p)
		default:
			continue
		}
		byPID[p.PID] = x
		out = append(out, x)
	}
	launchers := mpiKeys(n, byPID)
	parents := map[int]int{}
	for _, p := range s.Procs {
		parents[p.PID] = p.Parent
	}
	for _, x := range out {
		if x.proc.Role != scene.Rank {
			continue
		}
		for pid, hops := parents[x.proc.PID], 0; pid > 0 && hops < 16; pid, hops = parents[pid], hops+1 {
			if a := byPID[pid]; a != nil && a.proc.Role == scene.Agent {
				x.keys = append(x.keys, a.keys...)
				break
			}
		}
		if len(x.keys) == 0 {
			x.keys = []string{s.Host + "/" + strconv.Itoa(x.proc.PID)}
		}
	}
	return append(out, launchers...)
}

// agentArgv returns torchrun's line without the interpreter before its script, which a shebang adds.
func agentArgv(argv []string) []string {
	for i, a := range argv {
		if base := a[strings.LastIndex(a, "/")+1:]; base == "torchrun" {
			return argv[i:]
		}
	}
	return argv
}

func agentKeys(s *scene.Scene, x *parsed) []string {
	l := x.line
	port := cmp.Or(l.MasterPort.Value, "29500")
	if elastic(l) {
		host, p, ok := strings.Cut(l.Endpoint.Value, ":")
		if !ok {
			p = "29400"
		}
		return storeKeys(s, host, p)
	}
	if l.Endpoint.Set && !l.MasterAddr.Set {
		host, p, _ := strings.Cut(l.Endpoint.Value, ":")
		return storeKeys(s, host, cmp.Or(p, port))
	}
	if !l.MasterAddr.Set && cmp.Or(l.NNodes.Value, "1") == "1" {
		return []string{s.Host + "/" + strconv.Itoa(x.proc.PID)}
	}
	return storeKeys(s, cmp.Or(l.MasterAddr.Value, "127.0.0.1"), port)
}

// elastic reports whether torchrun's line asks for c10d's rendezvous.
func elastic(l launcher.Line) bool { return l.Backend.Set && l.Backend.Value != "static" }

func rankKeys(s *scene.Scene, p *scene.Proc) (keys []string) {
	if host, port := p.Env["MASTER_ADDR"], p.Env["MASTER_PORT"]; host != "" && port != "" {
		keys = storeKeys(s, host, port)
	}
	if host, port, ok := cutPort(p.Store); ok {
		keys = append(keys, storeKeys(s, host, port)...)
	}
	return keys
}

// assemble makes the view of one job.
func assemble(nodes []*node, members []*parsed, union *unions, root string) *view {
	v := &view{}
	for _, p := range members {
		switch p.proc.Role {
		case scene.Agent:
			v.agents = append(v.agents, &agent{node: p.node, proc: p.proc, line: p.line})
			v.elastic = v.elastic || elastic(p.line)
		case scene.MPIRun:
			v.parts = append(v.parts, part{p.node, p.proc})
		default:
			rank := mpiNumber(p.proc.Env, "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
			v.seats = append(v.seats, &seat{rank: rank, node: p.node, proc: p.proc,
				world: max(number(p.proc.Env, "WORLD_SIZE"), 0)})
		}
	}
	for _, n := range nodes {
		v.nodes = append(v.nodes, &node{name: n.name, index: -1, scene: n.scene})
	}
	v.hosts = slices.Clone(v.nodes)
	v.rebind()
	v.numbers()
	for _, n := range v.nodes {
		for _, st := range n.scene.Stores {
			host, port, _ := cutPort(st.Addr)
			if union.find(storeKey(n.scene, host, port)) == root {
				v.stores = append(v.stores, reached{n, st})
			}
		}
	}
	v.boards()
	v.unnumbered()
	v.index()
	v.name()
	for _, s := range v.seats {
		s.op = v.opOf(s)
		s.phase = v.phaseOf(s)
	}
	v.eliminate()
	return v
}

// onlyStore reports whether all that is seen is a process with a store of torch, and no number: a program that hosts
// a store is no job.
func (v *view) onlyStore() bool {
	return len(v.agents)+len(v.parts) == 0 && !slices.ContainsFunc(v.seats, func(s *seat) bool {
		return s.rank >= 0 || s.phase != counting || s.proc.Env["MASTER_ADDR"] != ""
	})
}

// rebind points seats and agents at this view's nodes, and removes nodes without a part in the job whose scene
// shows another one.
func (v *view) rebind() {
	own := map[*scene.Scene]*node{}
	for _, n := range v.nodes {
		own[n.scene] = n
		if n.scene.Node != nil && !v.elastic {
			n.index = *n.scene.Node
		}
	}
	busy := map[*node]bool{}
	for _, s := range v.seats {
		s.node = own[s.node.scene]
		busy[s.node] = true
		if i := number(s.proc.Env, "GROUP_RANK"); i >= 0 {
			s.node.index = i
		}
	}
	for _, a := range v.agents {
		a.node = own[a.node.scene]
		busy[a.node] = true
		if i, err := strconv.Atoi(a.line.NodeRank.Value); err == nil && !elastic(a.line) {
			a.node.index = i
		}
	}
	for i, p := range v.parts {
		v.parts[i].node = own[p.node.scene]
		busy[v.parts[i].node] = true
	}
	v.nodes = slices.DeleteFunc(v.nodes, func(n *node) bool {
		other := slices.ContainsFunc(n.scene.Procs, func(p scene.Proc) bool {
			return p.Role == scene.Rank || p.Role == scene.Agent || p.MPI != nil && p.MPI.Part == scene.MPIHead
		})
		return other && !busy[n]
	})
}

// numbers finds the sizes that most believe.
func (v *view) numbers() {
	worlds, wants := map[int]int{}, map[int]int{}
	for _, s := range v.seats {
		if w := mpiNumber(s.proc.Env, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"); w > 0 {
			worlds[w]++
		}
		v.run = cmp.Or(v.run, s.proc.Env["TORCHELASTIC_RUN_ID"])
	}
	for _, a := range v.agents {
		if low, _, err := launcher.ParseNNodes(cmp.Or(a.line.NNodes.Value, "1")); err == nil {
			wants[low]++
		}
		v.run = cmp.Or(v.run, a.line.RdzvID.Value)
	}
	v.world, v.want = min(most(worlds), maxListed), min(most(wants), maxListed)
}
