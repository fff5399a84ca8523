package diagnose

import (
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// trail is the processes of one job on a node that a rank waits for, followed from one to the next.
type trail struct {
	v      *view
	rank   *seat
	procs  map[int]*scene.Proc
	from   map[int]*scene.Proc // the process that waits for it; nil of the rank
	all    []*scene.Proc       // those that it waits for, itself first
	open   bool                // one of them may go on without help of the others
	waited bool                // the rank's other threads count, too
	back   bool                // another one waits for the rank
}

// follow follows what a rank waits for through its own processes.
func (v *view) follow(s *seat) *trail {
	t := &trail{v: v, rank: s, procs: map[int]*scene.Proc{}, from: map[int]*scene.Proc{s.proc.PID: nil}}
	for i := range s.node.scene.Procs {
		t.procs[s.node.scene.Procs[i].PID] = &s.node.scene.Procs[i]
	}
	next := []int{s.proc.PID}
	add := func(by *scene.Proc, pids []int) {
		for _, pid := range pids {
			if _, known := t.from[pid]; !known {
				t.from[pid], next = by, append(next, pid)
			}
		}
	}
	for ; len(next) > 0; next = next[1:] {
		p := t.procs[next[0]]
		if p == nil {
			t.open = true
			continue
		}
		if t.all = append(t.all, p); p.State == "Z" {
			continue
		}
		main, known := mainWait(p)
		t.open = t.open || !known || p.Moved.Switches > 1 || works(p.Moved, s.node.scene.Span)
		all := p != s.proc || main.Own
		ends := t.ends(p, all)
		add(p, ends)
		t.back = t.back || p != s.proc && slices.Contains(ends, s.proc.PID)
		if t.waited = t.waited || p == s.proc && all; !t.waited && slices.Contains(ends, s.proc.PID) {
			t.waited = true // any of its threads may do what the other one waits for
			add(s.proc, t.ends(s.proc, true))
		}
	}
	return t
}

// ends returns the processes that can end the waits of a process, of all its threads or the main one, and notes if
// something else may.
func (t *trail) ends(p *scene.Proc, all bool) (out []int) {
	timed := 0
	for _, w := range p.Waits {
		library := ofLibrary(scene.Thread{Name: w.Thread}) && (p == t.rank.proc || w.On == scene.OnLock)
		if !w.Main && (!all || library) {
			// A runloop of Gloo with a time limit is in a collective.
			t.open = t.open || all && w.Timed && w.Thread == "pt_gloo_runloop"
			continue
		}
		switch {
		case w.On == "", w.On == scene.OnSignal:
			t.open = true
		case w.On == scene.OnSemaphore:
			out = append(out, t.family(p)...)
		}
		out = append(out, w.Ends...)
		if w.Timed && !retries(p, w) {
			timed += w.Count
		}
	}
	t.open = t.open || timed > monitors(p)
	return out
}

// mainWait returns what the main thread of a process waits for.
func mainWait(p *scene.Proc) (scene.Wait, bool) {
	if len(p.Waits) == 0 || !p.Waits[0].Main {
		return scene.Wait{}, false
	}
	return p.Waits[0], true
}

// retries reports whether a wait with a time limit is of a loop of a DataLoader or of its worker, which goes on waiting
// after each one: of a worker it is the one for the next index, by a pipe. A data set may wait for a time by a lock.
func retries(p *scene.Proc, w scene.Wait) bool {
	if p.Comm == scene.Worker {
		return w.On == scene.OnData
	}
	main := mainStack(p)
	return (w.Main || w.On == scene.OnData) && main != nil && slices.ContainsFunc(main.Frames, func(f string) bool {
		return strings.Contains(f, "_try_get_data (torch/utils/data/dataloader.py")
	})
}

// monitors counts the threads of a process that do no more than look at the time, as a progress bar's.
func monitors(p *scene.Proc) (n int) {
	for _, s := range p.Stacks {
		if s.Thread != "MainThread" && slices.ContainsFunc(s.Frames, func(f string) bool {
			return strings.Contains(f, "tqdm/_monitor.py")
		}) {
			n++
		}
	}
	return n
}

// family returns the processes that may share a semaphore with one: those below what torchrun, or another program that
// starts ranks, has started, and other ranks of the node, which open one by its name, but not those that wait for this
// one in torch. The server that forks processes releases no semaphore.
func (t *trail) family(p *scene.Proc) (out []int) {
	root := t.root(p)
	for pid, o := range t.procs {
		server := strings.Contains(strings.Join(o.Argv, " "), "multiprocessing.forkserver")
		if o != p && o.State != "Z" && !server && (t.root(o) == root || t.free(o)) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// free reports whether a process is another rank of the node that may let something go before this one goes on: it is
// in no start of a group, and in no collective.
func (t *trail) free(p *scene.Proc) bool {
	return slices.ContainsFunc(t.v.seats, func(s *seat) bool {
		return s.proc == p && s != t.rank && slices.Contains([]phase{unseen, before, inside}, s.phase)
	})
}

// sure returns how sure the cause of a trail that is closed is: who has a semaphore is not seen, so that without a
// process that has ended it may be one that has opened it by its name.
func (t *trail) sure() verdict.Sure {
	if main, _ := mainWait(t.rank.proc); main.On == scene.OnSemaphore && t.dead() == nil {
		return verdict.Likely
	}
	return verdict.Certain
}

// root returns the first process above one that no program that starts ranks is.
func (t *trail) root(p *scene.Proc) *scene.Proc {
	for range len(t.procs) {
		parent := t.procs[p.Parent]
		if parent == nil || !slices.Contains([]scene.Role{scene.Rank, scene.Child, scene.Wrapper}, parent.Role) {
			break
		}
		p = parent
	}
	return p
}

// closed reports whether all of them wait for each other alone.
func (t *trail) closed() bool { return !t.open && len(t.all) > 0 }
