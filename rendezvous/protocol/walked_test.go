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
	kind := w.dice.IntN(8)
	w.log(p, "fault %d", kind)
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
	case 7: // the store returns empty
		if len(w.goes) == 0 {
			w.wipe()
		}
	case 6: // its command ends
		if p.started && w.plan.restarts > 0 {
			w.session(p, Event{Kind: Exit, Status: w.dice.IntN(2)})
		}
	}
}

// wipe empties the store, which ends all lives.
func (w *walk) wipe() {
	w.store.keys, w.store.log, w.store.rev, w.sealed = nil, nil, 0, 0
	clear(w.store.leases)
	for _, p := range w.procs {
		if !p.ended {
			w.end(p, errLost)
		}
	}
}

func (w *walk) dies(p *proc) {
	p.ended, p.ask, p.want, p.answer, p.reply, p.waits = true, nil, nil, nil, nil, false
	w.launch(p.slot)
}

// expires ends the leases of processes that are dead, and of earlier lives. It
// returns whether there were any.
func (w *walk) expires() (any bool) {
	for _, p := range w.procs {
		for _, lease := range p.leases {
			if (p.ended || lease != p.leases[len(p.leases)-1]) && w.store.leases[lease] {
				any = true
				w.store.expire(lease)
			}
		}
	}
	return any
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

// history runs one walk of at most so many steps.
func history(seed uint64, table *Table, without Guard, logs bool) *walk {
	w := &walk{dice: rand.New(rand.NewPCG(seed, 1)), table: table, keys: KeysOf("j"), now: time.Unix(0, 0), logs: logs,
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
		if w.dice.IntN(16) == 0 {
			w.expires()
		}
		if w.wrong != "" || w.done() {
			break
		}
		if w.steps++; !w.step() && !w.expires() && !w.acks() {
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
	return w.faults == 0 || w.plan.restarts == 0
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

// mutated returns the table with another function for an event.
func mutated(on Kind, do func(*Node, Event)) *Table {
	rules := Rules()
	for i := range rules {
		if rules[i].On == on {
			rules[i].Do = do
		}
	}
	return TableOf(rules)
}

// The model also finds that the guard SameEpoch or LeadLease is missing; random
// histories rarely do.
func TestEachMutationOfTheMachineIsFound(t *testing.T) {
	whole := TableOf(Rules())
	for name, m := range map[string]struct {
		table   *Table
		without Guard
	}{
		"no new member": {whole, NoNewMember},
		"no quit":       {whole, NoQuit},
		"no result":     {whole, NoResult},
		"a place of another incarnation": {mutated(ReadPlace, func(n *Node, e Event) {
			for i, kv := range e.KVs {
				p, _ := kv.Value.(Place)
				p.ID = n.self.ID
				e.KVs[i].Value = p
			}
			n.placed(e)
		}), ""},
		"a post counts for all": {mutated(Job, func(n *Node, e Event) {
			if n.hearJob(e); n.lead == nil { // it has just lost the lead
				return
			}
			for _, got := range n.lead.posts {
				for rank := range n.ep.Size {
					got[rank] = []byte("x")
				}
			}
		}), ""},
		"a start without a result": {mutated(Result, func(n *Node, e Event) { n.reply(Action{Value: []byte("x")}) }), ""},
		"no turn after an answer":  {mutated(Survey, func(n *Node, e Event) { n.phase = Leading }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, n := explore(60_000, m.table, m.without)
			if found == nil {
				t.Fatal("no history finds it")
			}
			t.Log(found.wrong, n)
		})
	}
}
