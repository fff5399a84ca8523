package rendezvous

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"

	"launch/rendezvous/memstore"
	"launch/rendezvous/protocol"
)

// Whatever happens to nodes, links and the store: one world for each number,
// each rank once, no node starts with one that had left before; and
// once the trouble is over, all start.
//
// A seed that rapid prints draws the same troubles again; the order in which
// goroutines run at one instant it does not decide.
func TestWhateverHappensTheWorldsHoldAndAllStartInTheEnd(t *testing.T) {
	for round := range 4 { // of rapid.checks each
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g, plan := drawSaga(t)
				rapid.SyncTest(t, func(t *rapid.T) {
					g.store, g.began = memstore.New(), time.Now()
					g.run(plan)
					late := g.settle()
					wrong := append(g.check(), late...)
					g.end()
					if len(wrong) > 0 {
						t.Fatalf("%s\n%s", strings.Join(wrong, "\n"), strings.Join(g.story, "\n"))
					}
				})
			})
		})
	}
}

func (g *saga) run(plan []happening) {
	for _, h := range plan {
		time.Sleep(h.at - time.Since(g.began))
		g.happen(h)
	}
}

// settle ends the trouble, and brings one waiting launch into each slot; it
// returns the launches that have not started a minute later.
func (g *saga) settle() []string {
	const calm = 50 * time.Second // after the last cut, outage, lease and patience
	time.Sleep(calm - time.Since(g.began))
	g.calm = true
	for _, p := range g.procs {
		p.link.SetFaults(nil)
	}
	g.log("calm")
	time.Sleep(2 * retryMax)
	for slot := range g.slots { // one too many would start with some of the others
		for i, p := range g.of(slot, waiting) {
			if i > 0 {
				p.kill(true)
			}
		}
	}
	var running []*proc
	for slot := range g.slots {
		running = append(running, g.of(slot, started)...)
	}
	for _, p := range running {
		p.kill(true)
	}
	for slot := range g.slots {
		if len(g.of(slot, living)) == 0 {
			g.launch(slot, time.Hour)
		}
	}
	time.Sleep(time.Minute)
	var late []string
	for slot := range g.slots {
		for _, p := range g.of(slot, waiting) {
			late = append(late, fmt.Sprintf("%s has not started a minute after the trouble was over", p.name))
		}
	}
	return late
}

func (g *saga) end() {
	for slot := range g.slots {
		for _, p := range g.of(slot, living) {
			p.kill(false)
		}
	}
}

// sealed is a world as the store's history shows it.
type sealed struct {
	epoch   Epoch
	places  map[string]Place // by slot
	started int64            // revision; 0: never
	life    int
	lost    map[string]bool // incarnations whose key was gone for a while
}

// past is one life of the store, replayed.
type past struct {
	life    int
	wrong   []string
	epoch   Epoch
	last    int // the highest number sealed
	places  map[string]Place
	members map[string]Member // by slot
	leaving map[string]bool   // incarnations that said so in their key
	worlds  map[string]*sealed
	results map[string]string // by run id
	gone    map[string]*departure
}

func (p *past) fault(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("life %d: ", p.life)+fmt.Sprintf(format, args...))
}

func runID(e Epoch) string { return fmt.Sprintf("j-%d-%.8s", e.N, e.Nonce) }

// check replays the lives of the store and compares what the launches have read
// against them.
func (g *saga) check() []string {
	var wrong []string
	worlds, results := map[string]*sealed{}, map[string]string{}
	gone := map[string]*departure{}
	for _, p := range g.procs {
		gone[p.self.ID] = p.left
	}
	for life, evs := range append(g.lives, g.store.History()) {
		p := &past{life: life, places: map[string]Place{}, members: map[string]Member{}, leaving: map[string]bool{},
			worlds: worlds, results: results, gone: gone}
		for _, e := range evs {
			p.replay(e)
		}
		wrong = append(wrong, p.wrong...)
	}
	ranks := map[string]string{}
	for _, p := range g.procs {
		for _, w := range p.joined {
			truth := worlds[w.RunID]
			if truth == nil {
				wrong = append(wrong, fmt.Sprintf("%s joined %s, which was never sealed", p.name, w.RunID))
				continue
			}
			if place := truth.places[protocol.Slot(p.self)]; place.ID != p.self.ID || place.Rank != w.Rank ||
				w.Size != truth.epoch.Size || w.Master.ID != truth.epoch.Master.ID {
				wrong = append(wrong, fmt.Sprintf("%s joined %+v, which is sealed as %+v", p.name, w, truth))
			}
			seat := fmt.Sprint(w.RunID, " rank ", w.Rank)
			if other := ranks[seat]; other != "" && other != p.name {
				wrong = append(wrong, fmt.Sprintf("%s is both %s and %s", seat, other, p.name))
			}
			ranks[seat] = p.name
		}
		for _, id := range p.broken { // an empty store does not have what the last one had
			if w := worlds[id]; w != nil && w.started != 0 && !w.lost[p.self.ID] && w.life == len(g.lives) {
				wrong = append(wrong, fmt.Sprintf("%s was there all the time and did not start in %s", p.name, id))
			}
		}
		if p.started != "" && (worlds[p.started] == nil || worlds[p.started].started == 0 || results[p.started] != p.result) {
			wrong = append(wrong, fmt.Sprintf("%s started in %s with %q, which the store does not know", p.name, p.started,
				p.result))
		}
	}
	return wrong
}

// replay takes in one event of the store.
func (p *past) replay(e *mvccpb.Event) {
	key, put := string(e.Kv.Key), e.Type == mvccpb.Event_PUT
	k := protocol.KeysOf("j")
	switch {
	case strings.HasPrefix(key, k.Members):
		var m Member
		_ = json.Unmarshal(e.Kv.Value, &m)
		if key = strings.TrimPrefix(key, k.Members); !put {
			if w := p.worlds[runID(p.epoch)]; w != nil {
				w.lost[p.members[key].ID] = true
			}
			delete(p.members, key)
			return
		}
		p.members[key] = m
		if m.Left != "" {
			p.leaving[m.ID] = true
		}
	case strings.HasPrefix(key, k.Worlds):
		var place Place
		_ = json.Unmarshal(e.Kv.Value, &place)
		if key = strings.TrimPrefix(key, k.Worlds); !put {
			delete(p.places, key)
			return
		}
		p.places[key] = place
	case key == k.Epoch && put:
		var ep Epoch
		_ = json.Unmarshal(e.Kv.Value, &ep)
		p.moved(ep, e.Kv.ModRevision)
		p.epoch = ep
	case put && strings.HasPrefix(key, k.Results) && strings.HasSuffix(key, "/go"):
		id := runID(p.epoch)
		if old, ok := p.results[id]; ok {
			p.fault("%s has two results, %q and %q", id, old, e.Kv.Value)
		}
		p.results[id] = string(e.Kv.Value)
	}
}

// moved checks one step of the epoch.
func (p *past) moved(ep Epoch, rev int64) {
	was := p.epoch
	switch ep.State {
	case Open:
		if ep.N < was.N || ep.N == was.N && was.State != Open && was.State != "" {
			p.fault("epoch %d opened after %d %s", ep.N, was.N, was.State)
		}
	case Sealed:
		if was.State != Open || ep.N <= p.last {
			p.fault("epoch %d sealed after %d %s, and %d was sealed", ep.N, was.N, was.State, p.last)
		}
		p.last = ep.N
		p.seal(ep)
	case Started:
		if was.State != Sealed || was.Nonce != ep.Nonce {
			p.fault("%s started from %d %s %s", runID(ep), was.N, was.State, was.Nonce)
			return
		}
		w := p.worlds[runID(ep)]
		w.started = rev
		for slot, place := range w.places {
			m, here := p.members[slot]
			gone := p.gone[place.ID]
			switch {
			case here && (m.ID != place.ID || m.Left != ""):
				p.fault("%s started while %s is %q, leaving: %q", runID(ep), place.Name, m.Host, m.Left)
			case p.leaving[place.ID]:
				p.fault("%s started although %s had said that it leaves", runID(ep), place.Name)
			case gone != nil && gone.life == p.life && gone.rev < rev:
				p.fault("%s started at revision %d although %s had left by %d", runID(ep), rev, place.Name, gone.rev)
			}
		}
	}
}

func (p *past) seal(ep Epoch) {
	w := &sealed{epoch: ep, life: p.life, places: map[string]Place{}, lost: map[string]bool{}}
	ranks, ids := map[int]bool{}, map[string]bool{}
	for key, place := range p.places {
		nonce, slot, _ := strings.Cut(key, "/")
		if nonce != ep.Nonce {
			continue
		}
		w.places[slot] = place
		ranks[place.Rank], ids[place.ID] = true, true
		if m, here := p.members[slot]; here && (m.ID != place.ID || m.Left != "") {
			p.fault("%s sealed with %s, whose key is %q, leaving: %q", runID(ep), place.Name, m.Host, m.Left)
		}
		if place.Rank == 0 && place.ID != ep.Master.ID || place.Rank < 0 || place.Rank >= ep.Size {
			p.fault("%s sealed with master %s and rank %d %s", runID(ep), ep.Master.Host, place.Rank, place.Name)
		}
	}
	if len(ranks) != ep.Size || len(ids) != ep.Size || len(w.places) != ep.Size {
		p.fault("%s of %d sealed with places %v", runID(ep), ep.Size, w.places)
	}
	if p.worlds[runID(ep)] != nil {
		p.fault("%s sealed twice", runID(ep))
	}
	p.worlds[runID(ep)] = w
}
