package protocol

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// posted checks a post: its incarnation still has its key, so that one that was
// replaced never says that it starts.
func (w *walk) posted(p *proc, a *Action) {
	m, _ := w.store.get(w.keys.Member(p.n.Self())).Value.(Member)
	if a.Name == AckRound && m.ID != p.id {
		w.fault("%s starts, and %q has its key", p.id, m.ID)
	}
	if ep, _ := w.store.get(w.keys.Epoch).Value.(Epoch); a.Name == "go" {
		w.posts[ep.Nonce+p.id]++
	}
}

// moved checks a change of the epoch.
func (w *walk) moved(v any) {
	ep, _ := v.(Epoch)
	places := map[int]Place{}
	for _, k := range w.store.keys {
		if p, ok := k.Value.(Place); ok && strings.HasPrefix(k.Key, w.keys.World(ep.Nonce)) {
			places[p.Rank] = p
		}
	}
	switch ep.State {
	case Sealed:
		if ep.N <= w.sealed {
			w.fault("number %d is sealed after %d", ep.N, w.sealed)
		}
		w.sealed = ep.N
		w.whole(ep, places)
		w.oneRun(ep, places)
	case Started:
		w.whole(ep, places)
		for rank, place := range places {
			switch {
			case w.voids[place.ID]:
				w.fault("%d starts with rank %d, %s, which gave up", ep.N, rank, place.ID)
			case w.posts[ep.Nonce+place.ID] == 0:
				w.fault("%d starts before rank %d, %s, has posted", ep.N, rank, place.ID)
			}
			for _, p := range w.procs {
				if p.id == place.ID {
					m, here := w.store.get(w.keys.Member(p.n.Self())).Value.(Member)
					if here && (m.ID != p.id || m.Left != "") {
						w.fault("%d starts with rank %d, %s, whose key is %s's, leaving: %q", ep.N, rank, p.id, m.ID, m.Left)
					}
				}
			}
		}
		w.goes[ep.Nonce] = ""
		for _, p := range w.procs {
			if p.run != ep.Run {
				w.over[p.run] = true
			}
		}
	case Over:
		w.over[ep.Run] = true
	}
}

// turnedAway checks that the run of a node that is turned away has ended, or that the store
// does not know it.
func (w *walk) turnedAway(p *proc) {
	ep, _ := w.store.get(w.keys.Epoch).Value.(Epoch)
	if p.run == ep.Run && ep.State != Over && p.n.Epoch().Run == ep.Run {
		w.fault("%s is turned away from its run %s, which goes on", p.id, p.run)
	}
}

// oneRun checks that no node of a run that started has a place in another one, or in one that has ended.
func (w *walk) oneRun(ep Epoch, places map[int]Place) {
	for rank, place := range places {
		for _, p := range w.procs {
			if p.id == place.ID && p.run != "" && p.run != ep.Run {
				w.fault("%d is of run %s, and rank %d, %s, of run %s", ep.N, ep.Run, rank, p.id, p.run)
			}
		}
	}
	if w.over[ep.Run] {
		w.fault("%d is of run %s, which is over", ep.N, ep.Run)
	}
}

// whole checks that a world has each of its ranks once.
func (w *walk) whole(ep Epoch, places map[int]Place) {
	ids := map[string]bool{}
	for rank := range ep.Size {
		ids[places[rank].ID] = places[rank].ID != ""
	}
	if len(places) != ep.Size || len(ids) != ep.Size || ids[""] {
		w.fault("%d is %s with the places %v of %d", ep.N, ep.State, places, ep.Size)
	}
}

// joins checks that no two processes have one rank of one world.
func (w *walk) joins(p *proc, world *World) {
	w.log(p, "joins %s as rank %d", world.RunID, world.Rank)
	seat := fmt.Sprint(world.RunID, " ", world.Rank)
	if other := w.seats[seat]; other != nil && other != p {
		w.fault("%s and %s are both rank %s", other.id, p.id, seat)
	}
	w.seats[seat], p.world = p, world
}

// starts checks that a process starts in a world that the store has started, and
// that all of it start with one result.
func (w *walk) starts(p *proc, result string) {
	nonce := p.n.Joined().Nonce
	was, went := w.goes[nonce]
	switch {
	case !went:
		w.fault("%s starts in %s, which has not started", p.id, p.world.RunID)
	case was != "" && was != result:
		w.fault("%s starts with %q, another with %q", p.id, result, was)
	case w.voids[p.id]:
		w.fault("%s starts, and gave up before", p.id)
	}
	w.goes[nonce] = result
}

// acks ends the wait of a start for its acknowledgement, whose time is bounded.
func (w *walk) acks() bool {
	for _, p := range w.procs {
		if p.waits && p.look.Kind == Acked {
			w.replied(p, Action{})
			return true
		}
	}
	return false
}

// rests checks, where nothing can happen any more, that a world has started, and
// all of it that lives.
func (w *walk) rests() {
	ep, _ := w.store.get(w.keys.Epoch).Value.(Epoch)
	if w.plan.runs {
		w.restsBetweenRuns(ep)
		return
	}
	if !ep.runs() {
		if len(w.goes) == 0 { // else another run waits for nodes that still belong to that one
			w.fault("nothing can happen, and the epoch is %q", ep.State)
		}
		return
	}
	for _, p := range w.procs {
		if !p.ended && !p.started && (p.world != nil && p.n.Joined().Nonce == ep.Nonce) {
			w.fault("nothing can happen, and %s has not started", p.id)
		}
	}
}

// restsBetweenRuns checks that enough nodes do not wait in vain.
func (w *walk) restsBetweenRuns(ep Epoch) {
	wait, old := 0, 0
	for _, p := range w.procs {
		switch {
		case p.ended:
		case p.cut:
			return
		case p.run != "" && p.run != ep.Run:
			old++
		case !p.started:
			wait++
		}
	}
	if !ep.runs() && wait >= w.plan.size || old > 0 {
		w.fault("nothing can happen: epoch %d is %q, %d nodes wait, and %d believe in an earlier run",
			ep.N, ep.State, wait, old)
	}
}

// history runs one walk of at most so many steps.
func history(seed uint64, table *Table, without Guard, logs bool) *walk {
	w := &walk{dice: rand.New(rand.NewPCG(seed, 1)), table: table, keys: KeysOf("j"), now: time.Unix(0, 0), logs: logs,
		store: &simStore{leases: map[int64]bool{}, without: without}, seats: map[string]*proc{}, goes: map[string]string{},
		voids: map[string]bool{}, posts: map[string]int{}, over: map[string]bool{}}
	w.plan = plan{nodes: 2, size: 2}
	switch kind := w.dice.IntN(16); {
	case kind == 0:
		w.plan = plan{nodes: 3, size: 3}
	case kind == 1:
		w.plan = plan{nodes: 3, size: 2}
	case kind == 2:
		w.plan = plan{nodes: 3, size: 2, spares: 1, restarts: 1}
	case kind == 3:
		w.plan = plan{nodes: 3, size: 3, min: 2}
	case kind == 4:
		w.plan.restarts = 1
	case kind < 8:
		w.plan.restarts, w.plan.runs = 1+w.dice.IntN(2), true
		if kind == 5 {
			w.plan.nodes, w.plan.spares = 3, 1
		}
	}
	w.plan.vouch = []Vouch{ByArrival, Scheduled, Scheduled, Typed}[w.dice.IntN(4)]
	if w.faults = w.dice.IntN(4); w.plan.size < w.plan.nodes && w.plan.spares == 0 {
		w.plan.vouch = ByArrival
	}
	if w.plan.runs {
		w.faults += 5
	}
	for slot := range w.plan.nodes {
		w.launch(slot)
	}
	for range 400 {
		w.trouble()
		if w.dice.IntN(12) == 0 {
			w.runs()
		}
		if w.dice.IntN(16) == 0 {
			w.expires()
		}
		if w.wrong != "" || w.done() {
			break
		}
		if w.steps++; !w.step() && !w.expires() && !w.acks() && !w.goesOn() {
			w.rests()
			break
		}
	}
	return w
}

// done returns whether all living processes have started.
func (w *walk) done() bool {
	for _, p := range w.procs {
		if !p.ended && !p.started {
			return false
		}
	}
	return !w.plan.runs && (w.faults == 0 || w.plan.restarts == 0)
}

// explore runs histories until an invariant does not hold, and returns that one;
// nil: they all hold.
func explore(n int, table *Table, without Guard) (found *walk, worlds map[int]int, steps int) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	worlds = map[int]int{}
	first := rand.Uint64()
	for seed := first; seed < first+uint64(n); seed++ {
		w := history(seed, table, without, false)
		if w.wrong != "" {
			w = history(seed, table, without, true)
			w.story = append(w.story, fmt.Sprintf("seed %d", seed))
			return w, worlds, steps
		}
		worlds[len(w.goes)]++
		steps += w.steps
	}
	return nil, worlds, steps
}

// Whatever happens, and in whatever order: the worlds hold, and all start in the
// end. LAUNCH_TEST_HISTORIES sets how many histories it runs.
func TestTheMachineHoldsInRandomHistories(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 10_000
	}
	if many, err := strconv.Atoi(os.Getenv("LAUNCH_TEST_HISTORIES")); err == nil {
		n = many
	}
	began := time.Now()
	found, worlds, steps := explore(n, TableOf(Rules()), "")
	if found != nil {
		t.Fatalf("%s\n%s", found.wrong, strings.Join(found.story, "\n"))
	}
	t.Logf("%d histories, %d steps, in %s; started worlds in each: %v", n, steps, time.Since(began), worlds)
}
