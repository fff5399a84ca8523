package protocol

import (
	"slices"
	"testing"
)

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

// wrapped returns the rules with a function around those of some events.
func wrapped(do func(n *Node, e Event, next func(*Node, Event)), on ...Kind) *Table {
	rules := Rules()
	for i, r := range rules {
		if slices.Contains(on, r.On) {
			rules[i].Do = func(n *Node, e Event) { do(n, e, r.Do) }
		}
	}
	return TableOf(rules)
}

// misread returns the rules with a leader that reads the members with a change.
func misread(change func(*Member)) *Table {
	return wrapped(func(n *Node, e Event, next func(*Node, Event)) {
		e.KVs = slices.Clone(e.KVs)
		for i, kv := range e.KVs {
			if m, ok := kv.Value.(Member); ok {
				change(&m)
				e.KVs[i].Value = m
			}
		}
		next(n, e)
	}, Job, Survey)
}

// trusts is a node that takes the store's run for its own.
func trusts(n *Node, e Event, next func(*Node, Event)) {
	was := n.joined.Run
	n.joined.Run = n.ep.Run
	next(n, e)
	if n.joined.Run == n.ep.Run {
		n.joined.Run = was
	}
}

// saw returns the rules with a node that decides by sees whether it saw the end of the store.
func saw(sees func(n *Node, e Event, was bool) bool) *Table {
	return mutated(Fail, func(n *Node, e Event) {
		saw := sees(n, e, n.sawEnd)
		n.fail(e)
		n.sawEnd = saw
	})
}

// The model also finds that the guard SameEpoch or LeadLease is missing; random
// histories rarely do.
func TestEachMutationOfTheMachineIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("a search in one thread: make test makes it, without the race detector")
	}
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
		"a start without a result": {mutated(Result, func(n *Node, e Event) {
			n.reply(Action{Value: []byte("x")})
		}), ""},
		"the leader seats a node of any run":            {misread(func(m *Member) { m.Run = "" }), ""},
		"the leader takes any run for one that goes on": {misread(func(m *Member) { m.Claim = true }), ""},
		"a node does not compare the run":               {wrapped(trusts, Follow, Join, Look), ""},
		"a claim without the store's end":               {saw(func(*Node, Event, bool) bool { return true }), ""},
		"a claim of a run that may end": {saw(func(n *Node, e Event, was bool) bool {
			return e.Ended || was && !n.Up()
		}), ""},
		"a claim by the end of a store before the last one": {saw(func(n *Node, e Event, was bool) bool {
			return was || n.Up() && e.Ended && n.needed()
		}), ""},
		"no turn after an answer": {mutated(Survey, func(n *Node, e Event) { n.phase = Leading }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, n := explore(1_000_000, m.table, m.without)
			if found == nil {
				t.Fatal("no history finds it")
			}
			t.Log(found.wrong, n)
		})
	}
}
