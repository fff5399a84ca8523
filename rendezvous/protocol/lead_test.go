package protocol

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRanksOfIndexesBeyondTheWorldFillTheGaps(t *testing.T) {
	at := func(index int, create int64) registered {
		return registered{Member: Member{Index: index, Host: string(rune('a' + index))}, create: create}
	}
	got := ""
	for _, m := range ranked([]registered{at(4, 1), at(2, 2), at(0, 3), at(3, 4)}, 3) {
		got += m.Host
	}
	if got != "aec" {
		t.Errorf("got %s, want node 0, then the first that joined of those beyond, then node 2", got)
	}
}

// Whichever member joins, changes or goes.
func TestTheEarliestIsKnownWithoutALookAtEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(Config{Job: "j"}, nil)
		n.lead = &lead{members: map[string]registered{}}
		created, rev := map[string]int64{}, int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m := Member{Index: rapid.IntRange(0, 5).Draw(t, "index"),
				Phase: rapid.SampledFrom([]string{PhaseArrived, PhaseStarted}).Draw(t, "phase"),
			}
			key := n.k.Member(m)
			if rev++; rapid.Bool().Draw(t, "goes") {
				n.store(KV{Key: key, Gone: true})
				delete(created, key)
			} else {
				if created[key] == 0 {
					created[key] = rev
				}
				n.store(KV{Key: key, Value: m, Create: created[key], Mod: rev})
			}
			var want registered
			for _, m := range n.lead.members {
				if waits(m) && (want.create == 0 || m.create < want.create) {
					want = m
				}
			}
			if got, ok := n.earliest(); got.create != want.create || ok != (want.create != 0) {
				t.Fatalf("got the one of revision %d (%t), want %d", got.create, ok, want.create)
			}
		}
	})
}

// A host of the store that guesses its address is waited for, by a leader on another machine and for a moment.
func TestAGuessedAddressIsWaitedFor(t *testing.T) {
	host := Member{ID: "a", Index: -1, Size: 2, First: true, Guess: true, Machine: "m0", Phase: PhaseArrived}
	known := host
	known.Guess = false
	for name, tt := range map[string]struct {
		host    Member
		machine string // of the leader
		after   time.Duration
		want    bool
	}{
		"a guess":        {host, "m1", 0, false},
		"for too long":   {host, "m1", guessed, true},
		"it is known":    {known, "m1", 0, true},
		"of one machine": {host, "m0", 0, true},
	} {
		n := New(Config{Job: "j", Hosted: true}, nil)
		n.now = time.Unix(100, 0)
		self := Member{ID: "b", Index: -1, Size: 2, Machine: tt.machine, Phase: PhaseArrived}
		n.self, n.ep = self, Epoch{State: Open, Size: 2}
		n.lead = &lead{members: map[string]registered{}}
		for i, m := range []Member{tt.host, self} {
			n.store(KV{Key: n.k.Members + m.ID, Value: m, Create: int64(i + 1), Mod: int64(i + 1)})
		}
		n.now = n.now.Add(tt.after)
		if got := n.enough(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
		if due := n.lead.guess.due(n.now); due != (tt.after > 0) {
			t.Errorf("%s: due is %v", name, due)
		}
	}
}
