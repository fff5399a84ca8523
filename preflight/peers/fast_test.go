package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// fastPosts is three nodes that call each other in two networks.
func fastPosts(change func(posts []Post)) []Post {
	var posts []Post
	for r := range 3 {
		p := Post{Rank: r, Name: fmt.Sprintf("n%d", r), Version: "1", Listens: []Listen{{Library: "the fast network",
			Addr: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", r+1)), Speed: 100000, Than: 1000}}}
		for to := range 3 {
			if to != r {
				p.Calls = append(p.Calls, calls.Call{To: to, Addr: fmt.Sprintf("10.0.0.%d:700", to+1), RTT: 1},
					calls.Call{To: to, Addr: fmt.Sprintf("10.9.0.%d:700", to+1), RTT: 1, Also: true})
			}
		}
		posts = append(posts, p)
	}
	if change != nil {
		change(posts)
	}
	return posts
}

func TestTheFastNetworkIsUsedIfEveryCallArrives(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(posts []Post)
		fast   bool
		warns  string
	}{
		{"all arrive", nil, true, ""},
		{"one does not", func(p []Post) { p[1].Calls[3].Cause, p[1].Calls[3].RTT = sidechannel.Dropped, 0 }, false,
			"a network of 1 Gb/s; each node also has one of 100 Gb/s, in which 1 call to n2 failed"},
		{"one node has none", func(p []Post) { p[2].Listens = nil }, false, ""},
		{"one node was not called", func(p []Post) {
			for i := range p {
				p[i].Calls = slices.DeleteFunc(p[i].Calls, func(c calls.Call) bool { return c.Also && c.To == 2 })
			}
		}, false, ""},
	} {
		d := Decide(fastPosts(tt.change), nil)
		got := ""
		for _, f := range d.Findings {
			if f.ID == "peer.fast" && f.Status == finding.Warn {
				got = f.What
			}
			if f.ID == "peer.beside" {
				t.Errorf("%s: %s", tt.name, f.What)
			}
		}
		if d.Fast != tt.fast || !strings.Contains(got, tt.warns) || (got == "") != (tt.warns == "") || !d.Go {
			t.Errorf("%s: fast %v, go %v, warns %q; want %v, %q", tt.name, d.Fast, d.Go, got, tt.fast, tt.warns)
		}
	}
}
