package companion

import (
	"maps"
	"slices"
	"sync"
	"time"

	"launch/diagnose/scene"
)

// pasts remembers what the main threads of the processes of this node's command have done lately: of a slow file
// server two looks, 3 s apart, may see nothing.
type pasts struct {
	mu   sync.Mutex
	of   map[int]*past
	held map[int]holds
}

// holds is a thread of a process that has the GIL and sleeps, and since when.
type holds struct {
	place string
	since time.Time
}

// holding notes which threads have the GIL and sleep, and for how long each has been in the same call.
func (p *pasts) holding(procs []scene.Proc, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.held
	p.held = map[int]holds{}
	for _, r := range procs {
		if r.GIL == nil {
			continue
		}
		h := holds{r.GIL.Place, now}
		if was, known := before[r.PID]; known && was.place == h.place {
			h = was
		}
		p.held[r.PID], r.GIL.Over = h, now.Sub(h.since)
	}
}

// past is one process.
type past struct {
	since       time.Time
	read, wakes int64 // so far
	acts        []act
}

type act struct {
	at time.Time
	scene.Act
}

// saw takes in what the processes have done until now.
func (p *pasts) saw(pids []int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[int]*past{}
	}
	there := make(map[int]bool, len(pids))
	for _, pid := range pids {
		there[pid] = true
	}
	maps.DeleteFunc(p.of, func(pid int, _ *past) bool { return !there[pid] })
	for _, pid := range pids {
		if read, wakes, ok := scene.MainThread(pid); ok {
			p.add(pid, now, read, wakes)
		}
	}
}

// add takes in one process. Where the counts of a PID are smaller, it is another process.
func (p *pasts) add(pid int, now time.Time, read, wakes int64) {
	was := p.of[pid]
	if was == nil || read < was.read || wakes < was.wakes {
		p.of[pid] = &past{since: now, read: read, wakes: wakes}
		return
	}
	if did := (scene.Act{Read: read - was.read, Wakes: wakes - was.wakes}); did != (scene.Act{}) {
		was.acts = append(was.acts, act{now, did})
	}
	was.acts = slices.DeleteFunc(was.acts, func(a act) bool { return now.Sub(a.at) > scene.MaxPast })
	was.read, was.wakes = read, wakes
}

// until returns the past of ranks until now.
func (p *pasts) until(now time.Time, procs []scene.Proc) (out []scene.Past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range procs {
		was := p.of[r.PID]
		if was == nil || r.Role != scene.Rank {
			continue
		}
		one := scene.Past{PID: r.PID, Over: min(now.Sub(was.since), scene.MaxPast)}
		for _, a := range was.acts {
			a.Ago = now.Sub(a.at)
			one.Acts = append(one.Acts, a.Act)
		}
		out = append(out, one)
	}
	return out
}
