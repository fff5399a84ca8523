package protocol

import (
	"errors"
	"testing"
)

// What a node that waits for the end of another start says when its time is up, without a store.
func TestTheLastStateOfAStartThatWasSeenDecides(t *testing.T) {
	lost := errors.New("the lease was lost")
	for name, tc := range map[string]struct {
		state             EpochState
		closed            bool
		wantRuns, wantEnd bool
	}{
		"it ran, and the network was cut":      {Started, false, true, false},
		"it ran, and its store has ended":      {Started, true, true, true},
		"it was over, and its store has ended": {Open, true, true, true},
		"it was over, and the network was cut": {Open, false, false, false},
	} {
		n := New(Config{Job: "j", Self: Member{Index: -1, Size: 2, Host: "c"}}, nil)
		n.phase, n.user = Following, Joining
		n.hearEpoch(KV{Key: n.k.Epoch, Mod: 1, Value: Epoch{N: 1, State: Started, Size: 2}})
		n.ran(Event{Ask: &Action{}, KVs: []KV{{Value: Member{Phase: PhaseStarted, Host: "a"}}}})
		n.hearEpoch(KV{Key: n.k.Epoch, Mod: 2, Value: Epoch{N: 2, State: tc.state, Size: 2}})
		n.out = nil
		n.fail(Event{Err: lost, Closed: tc.closed})
		if out := n.out[len(n.out)-1].Notice; out.Kind != Lost || (len(out.Have) > 0) != tc.closed {
			t.Errorf("%s: noted %+v", name, out)
		}
		m, _ := errors.AsType[*MissingError](n.lastKnown(nil))
		if (m != nil) != tc.wantRuns || m != nil && (m.Running == "" || m.Ended != tc.wantEnd) {
			t.Errorf("%s: ended with %+v", name, m)
		}
	}
}
