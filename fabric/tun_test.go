package fabric

import (
	"strings"
	"testing"
)

// TestAProgramThatTakesNoPackets: others take some, or get none, or are no such interface.
func TestAProgramThatTakesNoPackets(t *testing.T) {
	before := Handed{"tailscale0", 100, 90}
	for name, tt := range map[string]struct {
		now    Handed
		before Handed
		want   string
	}{
		"it takes none":       {Handed{"tailscale0", 105, 90}, before, "packets of tailscale0 on this node"},
		"it takes one":        {Handed{"tailscale0", 105, 91}, before, ""},
		"too few to say":      {Handed{"tailscale0", 102, 90}, before, ""},
		"none were sent":      {before, before, ""},
		"another interface":   {Handed{"tun1", 105, 90}, before, ""},
		"it was made anew":    {Handed{"tailscale0", 3, 90}, before, ""},
		"no program's at all": {Handed{}, Handed{}, ""},
	} {
		if got := tt.now.Untaken(tt.before); (got.Why == "") != (tt.want == "") || !strings.Contains(got.Why, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
