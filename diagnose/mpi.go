package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/scene"
)

// part is a process that starts ranks by MPI.
type part struct {
	node *node
	proc *scene.Proc
}

// mpiKeys gives the processes of MPI on a node the keys of their jobs, and the ranks below them.
func mpiKeys(n *node, byPID map[int]*parsed) (out []*parsed) {
	s := n.scene
	mine := map[int]*parsed{}
	for i := range s.Procs {
		if p := &s.Procs[i]; p.MPI != nil && p.MPI.Part != "" {
			mine[p.PID] = &parsed{node: n, proc: p}
			if p.MPI.Back != "" {
				mine[p.PID].keys = []string{"mpi " + p.MPI.Back}
			}
		}
	}
	for i := range s.Procs { // mpirun has the keys of what it starts
		p := &s.Procs[i]
		head := mine[p.Parent]
		if head == nil || head.proc.MPI.Part != scene.MPIHead || p.Role == scene.MPIRun && mine[p.PID] == nil {
			continue
		}
		own := s.Host + "/" + strconv.Itoa(p.Parent)
		if !slices.Contains(head.keys, own) {
			head.keys = append(head.keys, own)
		}
		if x := mine[p.PID]; x != nil {
			head.keys = append(head.keys, x.keys...)
		}
	}
	parents := map[int]int{}
	for _, p := range s.Procs {
		parents[p.PID] = p.Parent
	}
	for _, x := range byPID {
		for pid, hops := parents[x.proc.PID], 0; pid > 1 && hops < 16; pid, hops = parents[pid], hops+1 {
			if m := mine[pid]; m != nil && len(m.keys) > 0 {
				x.keys = append(x.keys, m.keys...)
				break
			}
		}
	}
	for _, x := range mine {
		if len(x.keys) > 0 {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *parsed) int { return a.proc.PID - b.proc.PID })
	return out
}

// mpiNumber returns the rank that MPI has given to a process; -1: none.
func mpiNumber(env map[string]string, names ...string) int {
	for _, name := range names {
		if n := number(env, name); n >= 0 {
			return n
		}
	}
	return -1
}

// partsOf returns the processes with a part in the start of the job.
func (v *view) partsOf(which scene.MPIPart) (out []part) {
	for _, p := range v.parts {
		if p.proc.MPI.Part == which {
			out = append(out, p)
		}
	}
	return out
}

// ofMPI reports whether a rank is a program of MPI, and none of torch: what it waits for is not seen.
func (v *view) ofMPI(s *seat) bool {
	_, torch := s.proc.Libs["torch"]
	return len(v.parts) > 0 && !torch && s.proc.Env["MASTER_ADDR"] == ""
}

// unstarted are the starters of daemons that have not called back, as mpirun's own connections say. exact is false
// where daemons have called from addresses that no starter is known by: which ones are missing is then not certain.
func (v *view) unstarted(head part) (missing []part, back int, exact bool) {
	s := head.node.scene
	ports := map[uint16]bool{}
	var starters []part
	for _, p := range v.partsOf(scene.MPIStarter) {
		if p.node == head.node && p.proc.Parent == head.proc.PID {
			starters = append(starters, p)
			ports[portOf(p.proc.MPI.Back)] = true
		}
	}
	var callers []netip.Addr
	for _, k := range s.Sockets {
		if k.PID == head.proc.PID && k.State == "established" && ports[k.Local.Port()] {
			callers = append(callers, k.Remote.Addr().Unmap())
		}
	}
	back = len(callers)
	if back >= len(starters) {
		return nil, back, true
	}
	for _, p := range starters {
		if v.connected(p) {
			continue
		}
		at := slices.IndexFunc(callers, func(a netip.Addr) bool { return slices.Contains(v.addrsOf(p), a) })
		if at < 0 {
			missing = append(missing, p)
			continue
		}
		callers = slices.Delete(callers, at, at+1)
	}
	return missing, back, len(callers) == 0
}

// connected reports whether the host of a starter was seen, and its daemon has a connection to mpirun: it may come
// from another address than the one that ssh reaches.
func (v *view) connected(p part) bool {
	host := v.seenHost(p)
	return host != nil && slices.ContainsFunc(v.partsOf(scene.MPIDaemon), func(d part) bool {
		return d.node == host && slices.ContainsFunc(d.node.scene.Sockets, func(k scene.Socket) bool {
			return k.PID == d.proc.PID && k.State == "established" && k.Remote.Port() == portOf(d.proc.MPI.Back)
		})
	})
}

// addrsOf returns the addresses of the host that a starter starts a daemon on: of its own connection, by its name,
// and of the host's scene.
func (v *view) addrsOf(p part) (out []netip.Addr) {
	for _, a := range p.proc.MPI.Addrs {
		out = append(out, a.Unmap())
	}
	for _, k := range p.node.scene.Sockets {
		if k.PID == p.proc.PID && k.State != "listen" {
			out = append(out, k.Remote.Addr().Unmap())
		}
	}
	if a, err := netip.ParseAddr(p.proc.MPI.Host); err == nil {
		out = append(out, a.Unmap())
	}
	if n := v.byName(p.proc.MPI.Host); n != nil && n.scene != nil {
		out = append(out, n.scene.Addrs...)
	}
	return out
}

// seenHost returns the node on which a starter starts a daemon; nil: it is not among those that are known.
func (v *view) seenHost(p part) *node {
	if n := v.byName(p.proc.MPI.Host); n != nil {
		return n
	}
	for _, a := range v.addrsOf(p) {
		if n := find(v.nodes, func(n *node) bool { return n.isAt(a) }); n != nil {
			return n
		}
	}
	return nil
}

// hostOf returns the node on which a starter starts a daemon, also one that is known by its name alone.
func (v *view) hostOf(p part) *node {
	if n := v.seenHost(p); n != nil {
		return n
	}
	name := p.proc.MPI.Host
	if name == "" {
		name = "an unknown host"
	}
	n := &node{name: name, index: -1}
	v.nodes = append(v.nodes, n)
	return n
}

// portOf returns the port of "ADDR,ADDR:PORT"; 0: there is none.
func portOf(back string) uint16 {
	n, _ := strconv.ParseUint(back[strings.LastIndexByte(back, ':')+1:], 10, 16)
	return uint16(n)
}

// mpiTitle names a job of MPI.
func (v *view) mpiTitle() string {
	for _, h := range v.partsOf(scene.MPIHead) {
		return fmt.Sprintf("%s, pid %d on %s", h.proc.Comm, h.proc.PID, h.node.name)
	}
	for _, p := range v.parts {
		return "mpirun at " + p.proc.MPI.Back
	}
	return ""
}
