package main

import (
	"testing"

	"launch/internal/peer"
)

func TestWhichWayALongMessageStalled(t *testing.T) {
	full, less := peer.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500}, peer.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1400}
	ok, bad := peer.Flow{Arrived: longMessage}, peer.Flow{Stalled: true}
	for name, tc := range map[string]struct {
		got  peer.Answer
		want string
	}{
		"none":                               {peer.Answer{Bulk: peer.Bulk{Out: ok, Back: ok}, MTU: full}, ""},
		"there":                              {peer.Answer{Bulk: peer.Bulk{Out: bad, Back: ok}}, "there"},
		"both ways":                          {peer.Answer{Bulk: peer.Bulk{Out: bad, Back: bad}, MTU: less}, "there"},
		"back":                               {peer.Answer{Bulk: peer.Bulk{Out: ok, Back: bad}, MTU: less}, "back"},
		"the other process stands still":     {peer.Answer{Bulk: peer.Bulk{Out: ok, Back: bad}}, ""},
		"the other process gets no turn":     {peer.Answer{Bulk: peer.Bulk{Out: ok, Back: bad}, MTU: full}, ""},
		"nothing was sent on a slow machine": {peer.Answer{}, ""},
	} {
		if got := stalled(tc.got); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
