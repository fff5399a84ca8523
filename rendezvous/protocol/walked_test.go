package protocol

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
	if ep, _ := w.store.get(w.keys.Epoch()).Value.(Epoch); a.Name == "go" {
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
	w.tell(p, "joins %s as rank %d", world.RunID, world.Rank)
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

// trouble lets something go wrong, rarely.
func (w *walk) trouble() {
	if w.faults == 0 || w.dice.IntN(12) > 0 {
		return
	}
	w.faults--
	p := w.procs[w.dice.IntN(len(w.procs))]
	if p.ended {
		return
	}
	kind := w.dice.IntN(7)
	w.tell(p, "fault %d", kind)
	switch kind {
	case 0: // it dies, and its lease runs out some time
		w.dies(p)
	case 1: // it is started again while it still runs
		w.launch(p.slot)
	case 2: // its lease runs out
		w.store.expire(p.n.Lease())
	case 3: // a request is carried out, and its answer is lost
		if p.answer != nil {
			p.lost = true
		} else {
			w.end(p, errLost)
		}
	case 4: // its time runs out
		if p.waits && p.look.Kind == Result {
			w.user(p, Event{Kind: GiveUp, Name: "go"})
		} else if p.waits && p.look.Kind == Look {
			w.user(p, Event{Kind: Expire})
		} else {
			return
		}
	case 5: // it leaves
		w.voids[p.id] = true
		w.leave(p, "interrupted")
		w.launch(p.slot)
	case 6: // its command ends
		if p.started && w.plan.restarts > 0 {
			w.session(p, Event{Kind: Exit, Status: w.dice.IntN(2)})
		}
	}
}

func (w *walk) dies(p *proc) {
	p.ended, p.ask, p.want, p.answer, p.reply, p.waits = true, nil, nil, nil, nil, false
	w.launch(p.slot)
}

// expires ends the leases of processes that are dead.
func (w *walk) expires() {
	for _, p := range w.procs {
		if p.ended && w.dice.IntN(8) == 0 {
			for _, lease := range p.n.Leases() {
				w.store.expire(lease)
			}
		}
	}
}

// history runs one walk of at most so many steps.
func history(seed uint64, table *Table, without Guard, tells bool) *walk {
	w := &walk{dice: rand.New(rand.NewPCG(seed, 1)), table: table, keys: KeysOf("j"), now: time.Unix(0, 0), tells: tells,
		store: &simStore{leases: map[int64]bool{}, without: without}, seats: map[string]*proc{}, goes: map[string]string{},
		voids: map[string]bool{}, posts: map[string]int{}}
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
	}
	w.plan.vouch = []Vouch{ByArrival, Scheduled, Scheduled, Typed}[w.dice.IntN(4)]
	if w.faults = w.dice.IntN(4); w.plan.size < w.plan.nodes && w.plan.spares == 0 {
		w.plan.vouch = ByArrival
	}
	for slot := range w.plan.nodes {
		w.launch(slot)
	}
	for range 400 {
		w.trouble()
		if w.expires(); !w.step() || w.wrong != "" || w.done() {
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
	return w.faults == 0 || w.plan.restarts == 0
}

// Whatever happens, and in whatever order: the worlds hold.
func TestTheMachineHoldsInRandomHistories(t *testing.T) {
	n, table := 40_000, TableOf(Rules())
	if testing.Short() {
		n = 10_000
	}
	began, started, steps := time.Now(), map[int]int{}, 0
	first := rand.Uint64()
	for seed := first; seed < first+uint64(n); seed++ {
		w := history(seed, table, "", false)
		if w.wrong != "" {
			w = history(seed, table, "", true)
			t.Fatalf("seed %d: %s\n%s", seed, w.wrong, strings.Join(w.story, "\n"))
		}
		started[len(w.goes)]++
		steps += len(w.store.log)
	}
	t.Logf("%d histories in %s; worlds started, and in how many of them: %v; %d changes", n, time.Since(began), started, steps)
	_ = slices.Collect(maps.Keys(started))
}
