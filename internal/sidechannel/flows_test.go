package sidechannel

import (
	"fmt"
	"testing"

	"launch/lab/netns"
)

// The dozen connections of a call show what opens: a limit, dead ports, and chance look different.
func TestConnectionsThatDoNotOpenShowWhy(t *testing.T) {
	t.Parallel()
	needNft(t)
	for _, tc := range []struct {
		name, rule string
		want       func(a Answer) bool
	}{
		{"healthy", "", func(a Answer) bool { return a.Flows == Flows{Tried: 12} }},
		{"one path of two, by the ports", "meta l4proto tcp jhash tcp sport . tcp dport mod 2 seed 0x5 0 drop",
			func(a Answer) bool { return a.Flows.ByPort() && a.Flows.Never > 0 && !a.Flows.Limited() }},
		{"four at a time", "tcp flags syn ct state new ct count over 4 drop",
			func(a Answer) bool { return a.Flows.Limited() && a.Flows.Tried-a.Flows.Never < 5 }},
		{"four at a time, else refused", "tcp flags syn ct state new ct count over 4 reject with tcp reset",
			func(a Answer) bool { return a.Flows.Limited() && a.Flows.Refused == a.Flows.Never }},
		{"three a minute", "tcp flags syn ct state new limit rate over 1/minute burst 3 packets drop",
			func(a Answer) bool { return a.Flows.Limited() }},
		{"two a second", "tcp flags syn ct state new limit rate over 2/second burst 5 packets drop",
			func(a Answer) bool { return a.Flows.Late > 3 && !a.Flows.ByPort() && !a.Flows.Limited() }},
		{"half of the SYN packets", "tcp flags syn numgen inc mod 2 0 drop",
			func(a Answer) bool { return !a.Flows.ByPort() && a.Flows.Lossy() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lab := netns.New(t, 2)
			port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere, ID: "one"})
			if tc.rule != "" {
				drop(t, lab.Hosts[1], "input", tc.rule)
			}
			got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Opt: Options{Crowd: 12}})
			if !tc.want(got.Answer) {
				t.Errorf("got %+v", got.Answer.Flows)
			}
		})
	}
}

// Where no new connection is answered, the port to which one is open shows whether that one is closed alone.
func TestAPortThatIsClosedAloneIsNoLimit(t *testing.T) {
	t.Parallel()
	needNft(t)
	for name, rule := range map[string]string{"all": "tcp flags syn drop", "one": "tcp dport %d drop"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := netns.New(t, 2)
			port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere, ID: "one"})
			open := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere, ID: "store"})
			if name == "one" {
				rule = fmt.Sprintf(rule, port)
			}
			drop(t, lab.Hosts[1], "input", rule)
			got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port),
				Opt: Options{Crowd: 12, Open: at(lab.Hosts[1], open)}})
			if got.Cause != Dropped || got.Answer.Shut != (name == "all") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
