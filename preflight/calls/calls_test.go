package calls

import (
	"testing"

	"launch/internal/sidechannel"
)

func TestWhichWayALongMessageStalled(t *testing.T) {
	full, less := sidechannel.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500},
		sidechannel.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1400}
	ok, bad := sidechannel.Flow{Arrived: longMessage}, sidechannel.Flow{Stalled: true}
	for name, tc := range map[string]struct {
		got  sidechannel.Answer
		want string
	}{
		"none":  {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: ok}, MTU: full}, ""},
		"there": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: bad, Back: ok}}, "there"},
		"both ways": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: bad, Back: bad}, MTU: less},
			"there"},
		"back": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}, MTU: less},
			"back"},
		"the other process is stopped":       {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}}, ""},
		"the other process gets no turn":     {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}, MTU: full}, ""},
		"nothing was sent on a slow machine": {sidechannel.Answer{}, ""},
	} {
		if got := stalled(tc.got); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
