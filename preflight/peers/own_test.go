package peers

import (
	"strings"
	"testing"

	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// A node with another one's address is to leave, and not the one whose address it is.
func TestANodeThatHasTheAddressOfAnotherOne(t *testing.T) {
	all := calling(4, func(from, to int, c *calls.Call) {
		switch {
		case from == 2 && to == 1:
			c.Cause, c.Err, c.Own = sidechannel.Refused, "connection refused", "lo"
		case from == 1 && to == 2:
			drop(c)
		}
	})
	for i := range all {
		all[i].Traits.Machine = all[i].Name
	}
	d := Decide(all, nil)
	var said []string
	for _, f := range d.All() {
		said = append(said, string(f.Status)+" "+f.ID+" "+f.What)
	}
	const want = "fail peer.identity host2 has the address 10.0.0.1 of host1, too, on lo"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("said %q, not %q", got, want)
	}
	if len(d.Unfit) != 1 || d.Unfit[0] != 2 {
		t.Errorf("%v leave, not 2", d.Unfit)
	}
}
