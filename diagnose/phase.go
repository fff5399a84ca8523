package diagnose

import (
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/internal/tcpstore"
)

// phase is how far a rank has come.
type phase string

const (
	unseen     phase = ""           // its process cannot be read far enough
	before     phase = "before"     // not in init_process_group, as far as can be seen
	dialing    phase = "dialing"    // SYN to the store without an answer
	unanswered phase = "unanswered" // connected to the store, which does not answer
	counting   phase = "counting"   // rank 0 of env:// waits for the others
	keys       phase = "keys"       // waits for the addresses of other ranks
	mesh       phase = "mesh"       // connects to the other ranks
	inside     phase = "inside"     // init has returned; in the script
	collective phase = "collective" // init has returned; in a collective
	group      phase = "group"      // init has returned; makes another group
	calling    phase = "calling"    // waits for another rank by torch.distributed.rpc
	program    phase = "program"    // a program of MPI, without torch: what it waits for is not seen
)

// phaseOf returns how far a rank has come, by its threads, its sockets and its stack.
func (v *view) phaseOf(s *seat) phase {
	p := s.proc
	if v.ofMPI(s) {
		return program
	}
	main := mainStack(p)
	in := func(name string) bool { return main != nil && hasFrame(main, name) }
	starts := in("init_process_group") || in("init_rpc")
	switch {
	case s.op.kind == ofCall:
		return calling
	case hasRPC(p) && !starts && !v.inInit(s):
		return inside
	}
	if !v.inInit(s) {
		switch {
		case v.toStore(s, func(k scene.Socket) bool { return k.State == "syn-sent" }):
			return dialing
		case starts || v.serves(s):
			if v.storeSilentTo(s) {
				return unanswered
			}
			if v.serves(s) {
				return counting
			}
			return dialing
		case v.storeSilentTo(s):
			return unanswered
		case main == nil && v.refusedTo(s.node) && !works(p.Moved, s.node.scene.Span):
			return dialing // between two tries it sleeps, without a socket
		}
		return before
	}
	if v.initDone(s) {
		switch {
		case in("init_process_group"):
			return keys // at its end, where it waits for all ranks (TORCH_DIST_INIT_BARRIER)
		case s.op.kind == ofMaker || main == nil && v.waitsForKeys(p) && !v.pollsOther(s):
			return group // with a stack of the script's own it waits for a key that the script asks for
		case s.op.kind != noOp:
			return collective
		case main == nil && waitsOnFutex(p):
			return collective
		}
		return inside
	}
	if v.waitsForKeys(p) {
		return keys
	}
	return mesh
}

// refusedTo reports whether a store of the job refuses connections from a node.
func (v *view) refusedTo(n *node) bool {
	return slices.ContainsFunc(v.stores, func(st reached) bool { return st.from == n && st.Outcome == scene.Refused })
}

// waitsForKeys reports whether the main thread polls one descriptor with torch's time limit, as a wait for a key does.
func (v *view) waitsForKeys(p *scene.Proc) bool {
	if !strings.HasPrefix(p.Wchan, "poll_schedule_timeout") && p.Wchan != "do_sys_poll" && p.Wchan != "do_poll" {
		return p.Wchan == "" && p.Syscall != nil && p.Syscall.Name == "poll" && p.Syscall.Limit > time.Second
	}
	return p.Syscall == nil || p.Syscall.Limit == 0 || p.Syscall.Limit > 6*time.Second
}

// pollsOther reports whether the main thread of a rank waits for data of a connection that does not lead to a store.
func (v *view) pollsOther(s *seat) bool {
	return s.proc.Syscall != nil && slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.Inode != 0 && k.Inode == s.proc.Syscall.Socket && !v.isStore(s.node, k)
	})
}

// inInit reports whether a rank has called init_process_group and got through to the store.
func (v *view) inInit(s *seat) bool {
	if thread(s.proc, "gloo_tcp_loop") || thread(s.proc, "pt_gloo_runloop") || thread(s.proc, "pt_nccl_") {
		return true
	}
	b := v.blob(s.rank)
	return b != nil && (v.unnamed() || v.listens(s, b.Addr.Port()) || len(v.peersOf(s)) > 0)
}

// unnamed reports whether the torch of the job is so old that its threads have no names and its listeners close once
// connected: its store cannot list keys.
func (v *view) unnamed() bool { return v.board != nil && v.board.Unlisted }

// hasPort reports whether a rank has published a port.
func hasPort(b tcpstore.Blob, port uint16) bool {
	return b.Addr.Port() == port || slices.Contains(b.Ports, port)
}

// outOfInit reports whether a rank has published its address, and has nothing of init_process_group any more: the
// call has failed, and the process remains.
func (v *view) outOfInit(s *seat) bool {
	b := v.blob(s.rank)
	return b != nil && s.phase == before && b.Addr.IsValid() && s.proc.State != "Z" &&
		(b.Host == "" || b.Host == s.node.name || s.node.isAt(b.Addr.Addr().Unmap()))
}

// initDone reports whether init_process_group has returned.
func (v *view) initDone(s *seat) bool {
	if thread(s.proc, "pt_gloo_runloop") || thread(s.proc, "pt_nccl_") {
		return true
	}
	if thread(s.proc, "gloo_tcp_loop") || v.world < 2 {
		return false
	}
	return len(v.peersOf(s)) >= v.world-1 // torch 1.13 names no threads
}

// serves reports whether the rank has the store of the job in its process. An old torch has no name for its thread.
func (v *view) serves(s *seat) bool {
	return thread(s.proc, "pt_tcpstore") ||
		slices.ContainsFunc(v.stores, func(st reached) bool { return st.from == s.node && v.listens(s, st.At.Port()) })
}

// listens reports whether the rank has a listener on the port.
func (v *view) listens(s *seat, port uint16) bool {
	for _, k := range s.node.scene.Sockets {
		if k.PID == s.proc.PID && k.State == "listen" && k.Local.Port() == port {
			return true
		}
	}
	return false
}

// toStore reports whether f is true for a connection of the rank to a store of the job.
func (v *view) toStore(s *seat, f func(scene.Socket) bool) bool {
	for _, k := range s.node.scene.Sockets {
		if k.PID == s.proc.PID && k.State != "listen" && v.isStore(s.node, k) && f(k) {
			return true
		}
	}
	return false
}

// isStore reports whether the other end of a socket is a store of the job.
func (v *view) isStore(n *node, k scene.Socket) bool {
	for _, st := range v.stores {
		if st.At.IsValid() && st.At.Port() == k.Remote.Port() &&
			(st.from == n || st.At.Addr().Unmap() == k.Remote.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// storeSilentTo reports whether the rank is connected to a store that has sent it nothing.
func (v *view) storeSilentTo(s *seat) bool {
	return v.toStore(s, func(k scene.Socket) bool {
		return k.State == "established" && k.Info != nil && k.Info.Received == 0 && k.Info.Sent > 0 &&
			k.Info.LastSent > time.Second
	})
}

// peersOf returns the ranks that a rank has a connection with, by the ports that they have published.
func (v *view) peersOf(s *seat) map[int]bool {
	out := map[int]bool{}
	own := v.blob(s.rank)
	anonymous := 0
	for _, k := range s.node.scene.Sockets {
		if k.PID != s.proc.PID || k.State != "established" {
			continue
		}
		if r := v.rankAt(k.Remote.Addr().Unmap().String(), k.Remote.Port()); r >= 0 && r != s.rank {
			out[r] = true
		} else if own != nil && hasPort(*own, k.Local.Port()) {
			anonymous--
			out[anonymous] = true // a rank that has dialed: which one, its port does not say
		}
	}
	return out
}

// rankAt returns the rank that has published an address; -1: none.
func (v *view) rankAt(addr string, port uint16) int {
	if v.board == nil {
		return -1
	}
	for _, b := range v.board.Blobs {
		if b.Group == 0 && hasPort(b, port) && b.Addr.Addr().Unmap().String() == addr {
			return b.Index
		}
	}
	return -1
}

func thread(p *scene.Proc, prefix string) bool {
	for _, t := range p.Threads {
		if strings.HasPrefix(t.Name, prefix) {
			return true
		}
	}
	return false
}

func waitsOnFutex(p *scene.Proc) bool {
	return strings.HasPrefix(p.Wchan, "futex") || p.Wchan == "" && p.Syscall != nil && p.Syscall.Name == "futex"
}

// works reports whether a process moves by itself: it computes, reads, grows or starts children.
func works(m scene.Moved, span time.Duration) bool {
	return m.CPU > span/25 || m.Read > 256<<10 || m.Children || m.Files || m.Memory > 4<<20 || m.Faults > 1000
}

// stirs reports whether a process that has no thread of torch's c10d yet does a little: it takes an item from a slow
// queue, or touches pages. Of the hung ones in lab/hangs none used 10 ms in 3 s, or had a page fault.
func stirs(m scene.Moved, span time.Duration) bool { return m.CPU > span/100 || m.Faults > 200 }

// mainStack returns the stack of Python's main thread; nil: it could not be had.
func mainStack(p *scene.Proc) *scene.Stack {
	for i, s := range p.Stacks {
		if s.Thread == "MainThread" {
			return &p.Stacks[i]
		}
	}
	return nil
}

func hasFrame(s *scene.Stack, name string) bool {
	for _, f := range s.Frames {
		if strings.HasPrefix(f, name+" ") {
			return true
		}
	}
	return false
}

// line returns where in the script a stack is: the innermost frame outside of torch, and the script's own line.
func line(s *scene.Stack) string {
	inner, script := "", ""
	for _, f := range s.Frames {
		if inner == "" && !strings.Contains(f, "torch/") && !strings.Contains(f, "site-packages") {
			inner = f
		}
		if strings.HasPrefix(f, "<module> (") {
			script = f
		}
	}
	switch {
	case inner == "" && len(s.Frames) > 0:
		return s.Frames[0]
	case script == "" || inner == script:
		return inner
	}
	return inner + " of " + strings.TrimPrefix(script, "<module> ")
}

// beforeInit says that a rank is before torch's init_process_group; yet: while it works.
func (v *view) beforeInit(s *seat) (is, yet string) {
	without := ""
	switch {
	case v.withoutTorch():
		is = "is in a program of MPI without torch (its calls are not seen)"
		return is, is
	case !hasTorch(s) && s.proc.Env != nil:
		without = " (torch is not loaded)"
	}
	return "has not called init_process_group" + without, "has not called init_process_group yet" + without
}

func hasTorch(s *seat) bool {
	_, loaded := s.proc.Libs["torch"]
	return loaded
}

// withoutTorch reports whether MPI has started the job, and no rank has torch loaded.
func (v *view) withoutTorch() bool {
	return !slices.ContainsFunc(v.seats, func(s *seat) bool {
		env := s.proc.Env
		return hasTorch(s) || env["RANK"] != "" || env["OMPI_COMM_WORLD_RANK"] == "" && env["PMI_RANK"] == ""
	})
}

// receivers returns the ranks that wait for data of a connection, if all others sleep; nil: no rank does, or all do.
func receivers(all []*seat) (out []*seat) {
	for _, s := range all {
		switch c := s.proc.Syscall; {
		case c != nil && c.Socket != 0:
			out = append(out, s)
		case c == nil || c.Name != "clock_nanosleep":
			return nil
		}
	}
	if len(out) == len(all) {
		return nil
	}
	return out
}
