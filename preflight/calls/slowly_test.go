package calls

import (
	"reflect"
	"testing"

	"launch/internal/sidechannel"
)

// A limit by time on new connections is used up by the crowds of launch's own calls: the job may not notice it.
func TestACallWithoutAnAnswerIsMadeAgainSlowly(t *testing.T) {
	crowd := func(late, never int) sidechannel.Flows {
		return sidechannel.Flows{Tried: 12, Late: late, Never: never, Again: sidechannel.Others}
	}
	dropped := Call{To: 2, Cause: sidechannel.Dropped, Flows: crowd(12, 12)}
	limited := Call{To: 2, Flows: crowd(12, 12)}
	for _, tt := range []struct {
		name          string
		other, second Call // to two nodes
		opens         int  // the first try that gets an answer; 0: none
		tries         int
		fails, lifted bool
	}{
		{"a limit", Call{To: 1, Flows: crowd(12, 3)}, dropped, 2, 2, false, true},
		{"a limit, and a firewall that drops", Call{To: 1, Flows: crowd(12, 3)}, dropped, 0, 3, true, false},
		{"a firewall that drops", Call{To: 1}, dropped, 1, 0, true, false},
		{"a limit that time does not lift", Call{To: 1, Flows: crowd(3, 3)}, dropped, 1, 0, true, false},
		{"the port of the job's store", Call{To: 1, Flows: crowd(12, 3)}, Call{Port: true, Cause: sidechannel.Dropped}, 1, 1,
			false, true},
		{"a refusal", Call{To: 1, Flows: crowd(12, 3)}, Call{To: 2, Cause: sidechannel.Refused}, 1, 0, true, false},
		{"this node's own kernel", Call{To: 1, Flows: crowd(12, 3)}, Call{To: 2, Cause: sidechannel.Dropped, Here: true},
			1, 0, true, false},
		{"nothing fails", Call{To: 1, Flows: crowd(12, 3)}, Call{To: 2}, 1, 0, false, false},
		{"a limit of a call that got through", Call{To: 1}, limited, 1, 1, false, true},
		{"a limit of a call, by their number", Call{To: 1}, limited, 0, 1, false, false},
		{"a limit of some", Call{To: 1}, Call{To: 2, Flows: crowd(8, 8)}, 1, 0, false, false},
	} {
		tries := 0
		made := []Call{tt.other, tt.second}
		slowly(made, func(was Call) Call {
			if tries++; tries == tt.opens {
				return Call{To: was.To}
			}
			return was
		}, func(Call) bool { tries++; return tries == tt.opens })
		if tries != tt.tries || made[1].Failed() != tt.fails || !reflect.DeepEqual(made[0], tt.other) {
			t.Errorf("%s: %d tries, %+v", tt.name, tries, made)
		}
		want := tt.second.Flows
		if tt.lifted {
			want = sidechannel.Flows{Tried: want.Tried, Late: want.Late}
		}
		if !reflect.DeepEqual(made[1].Flows, want) {
			t.Errorf("%s: what the crowd shows is %+v, want %+v", tt.name, made[1].Flows, want)
		}
	}
}
