package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// noteTTL is how long a note outlives the node that wrote it. Who waits then
	// keeps it until that node comes; a run that is started anew, after the cause
	// was mended, is not to hear of it.
	noteTTL = time.Minute
	// noteGrace is how long a leader keeps a note to itself that was there before
	// it: one of the last run is answered meanwhile by the node itself, since
	// nodes of one job come within seconds of each other.
	noteGrace = 2 * time.Second
	// noteText and noteName bound a note, in characters: each node that waits
	// reads a few.
	noteText, noteName = 300, 100
	// Linger is how long the store stays up after its host has given the job up,
	// so that nodes which come later are told why, and do not wait for a store: the
	// nodes of one job come within seconds of each other.
	Linger = 10 * time.Second
)

// Note says why a node is not fit and has not registered. It is advice: nothing
// of the agreement depends on it.
type Note struct {
	Name  string `json:"name"`  // of the node, as Member.Name has it
	Index int    `json:"index"` // -1: none
	Text  string `json:"text"`  // which check failed, and what it saw
}

// Write leaves the note for the nodes that wait, or come within a minute. It
// takes two requests, registers nothing, and ends with ctx.
func (n Note) Write(ctx context.Context, cli *clientv3.Client, job string) error {
	n.Name, n.Text = shortened(n.Name, noteName), shortened(n.Text, noteText)
	lease, err := cli.Grant(timeout(ctx), int64(noteTTL/time.Second))
	if err == nil {
		_, err = cli.Put(timeout(ctx), keysOf(job).note(n.Index, n.Name), encode(n), clientv3.WithLease(lease.ID))
	}
	if err != nil {
		return fmt.Errorf("write a note: %w", reason(ctx, err))
	}
	return nil
}

// shortened keeps the first characters of a text that is longer.
func shortened(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Notes are those of a job. Where nodes wait it is what their leader tells them:
// it knows who has come since.
func Notes(ctx context.Context, cli *clientv3.Client, job string, waiting bool) ([]Note, error) {
	k := keysOf(job)
	if waiting {
		r, err := cli.Get(timeout(ctx), k.progress())
		if err != nil {
			return nil, fmt.Errorf("read the notes: %w", reason(ctx, err))
		}
		var p progress
		if len(r.Kvs) > 0 {
			_ = json.Unmarshal(r.Kvs[0].Value, &p)
		}
		return p.Unfit, nil
	}
	r, err := cli.Get(timeout(ctx), k.notes(), clientv3.WithPrefix(), clientv3.WithLimit(few))
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", reason(ctx, err))
	}
	var out []Note
	for _, kv := range r.Kvs {
		var n Note
		if json.Unmarshal(kv.Value, &n) == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// Told returns when all other nodes of the job have come to an embedded store,
// or left a note there, and those that wait have gone; else when ctx ends. me is
// this node's ID or name.
func Told(ctx context.Context, cli *clientv3.Client, job, me string, others int) {
	k := keysOf(job)
	came, here := map[string]bool{}, map[string]bool{}
	for r := range cli.Watch(ctx, k.root, clientv3.WithPrefix(), clientv3.WithRev(1)) { // an embedded store keeps all that was
		for _, e := range r.Events {
			key, gone := string(e.Kv.Key), e.Type == clientv3.EventTypeDelete
			var m Member
			var n Note
			switch {
			case gone:
				delete(here, key)
			case strings.HasPrefix(key, k.members()) && json.Unmarshal(e.Kv.Value, &m) == nil && m.ID != me:
				came[m.ID], here[key] = true, m.Left == ""
			case strings.HasPrefix(key, k.notes()) && json.Unmarshal(e.Kv.Value, &n) == nil && n.Name != me:
				came[key] = true
			}
			maps.DeleteFunc(here, func(_ string, waits bool) bool { return !waits })
		}
		if len(came) >= others && len(here) == 0 {
			return
		}
	}
}

// UnfitError: nodes have said that they are not fit, and this one was told not
// to wait for others in their place.
type UnfitError struct {
	Notes []Note // the last few
	More  int    // how many others
}

func (e *UnfitError) Error() string {
	who := make([]string, len(e.Notes))
	for i, n := range e.Notes {
		who[i] = n.Name
	}
	return "not fit: " + some(who)
}

// noted is a note as the leader keeps it.
type noted struct {
	Note
	mod   int64 // 0: as an earlier leader told it
	found bool  // it was there before this node led
}

// unfit is what the leader told last of those that are not fit.
type unfit struct {
	epoch int // in the wait for which
	notes []Note
	more  int
}

// hopeless is the end of a wait that has FailFast; the caller holds mu.
func (s *Session) hopeless() *UnfitError {
	if !s.cfg.FailFast || s.self.extra() || s.ep.State != Open || s.unfit.epoch != s.ep.N || len(s.unfit.notes) == 0 {
		return nil
	}
	return &UnfitError{s.unfit.notes, s.unfit.more}
}

// untold are the notes that this node has not told before.
func (s *Session) untold(all []Note) (news []Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		if id := n.Name + ": " + n.Text; !s.told[id] {
			s.told[id] = true
			news = append(news, n)
		}
	}
	return news
}

// recalled is what a leader before this one told of the same wait.
func (s *Session) recalled() map[string]noted {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]noted{}
	if s.ep.State == Open && s.unfit.epoch == s.ep.N {
		for _, n := range s.unfit.notes {
			out[s.k.note(n.Index, n.Name)] = noted{Note: n}
		}
	}
	return out
}

// note takes in a note; without a watch yet it is one that was found.
func (l *lead) note(key string, v []byte, mod int64) {
	n := noted{mod: mod, found: l.ch == nil}
	if json.Unmarshal(v, &n.Note) != nil {
		return
	}
	if before, ok := l.notes[key]; ok && before.Note == n.Note {
		n.found = n.found && before.found
	}
	l.notes[key] = n
	l.telling.due = true
}

// forget is called when a note is gone from the store. Who waits still waits for
// that node; once nobody does it is of no use.
func (l *lead) forget(key string) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.ep.State != Open {
		delete(l.notes, key)
	}
}

// unfit are the last few notes, by index and name, and how many others there
// are. A node that has come since has answered its own.
func (l *lead) unfit() (last []Note, more int) {
	if len(l.notes) == 0 {
		return nil, 0
	}
	came := map[string]int64{}
	for _, m := range l.members {
		if waits(m) {
			key := l.s.k.note(m.Index, shortened(m.Name(), noteName))
			came[key] = max(came[key], m.create)
		}
	}
	maps.DeleteFunc(l.notes, func(key string, n noted) bool { return came[key] > n.mod })
	var all []noted
	for key, n := range l.notes {
		if held := n.Index >= 0 && came[key] > 0; !held && (l.heard || !n.found) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b noted) int { return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.Name, b.Name)) })
	if more = len(all) - few; more > 0 {
		all = all[more:]
	}
	for _, n := range all {
		last = append(last, n.Note)
	}
	slices.SortFunc(last, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name)) })
	return last, max(more, 0)
}
