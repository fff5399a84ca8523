package companion

import (
	"strings"
	"testing"

	"launch/rendezvous"
)

// Several nodes that are lost while another one answers are on the other side of something. One that is lost alone, or
// all others, or one whose machine answers, are not.
func TestANetworkInTwoParts(t *testing.T) {
	node := func(name string) rendezvous.Partner { return rendezvous.Partner{Name: name} }
	others := []rendezvous.Partner{node("d"), node("b")}
	for _, tt := range []struct {
		answers []presence
		says    string // "": nothing
	}{
		{[]presence{isAbsent, isBack}, "this node reaches b, and nothing answers at c, d: what"},
		{[]presence{isBack, isBack}, ""},
		{[]presence{isAbsent, isAbsent}, ""},
		{[]presence{hasEnded, isBack}, ""},
		{[]presence{isAbsent, hasEnded}, ""},
	} {
		f, ok := groups(node("c"), others, tt.answers, "10:00:00")
		if ok != (tt.says != "") || !strings.Contains(f.What, tt.says) {
			t.Errorf("%v: %q, want %q", tt.answers, f.What, tt.says)
		}
	}
}
