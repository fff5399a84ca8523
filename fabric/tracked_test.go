package fabric

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestAFullTableOfConnections(t *testing.T) {
	for _, tt := range []struct{ held, most, want string }{
		{"262144", "262144", "262144 of 262144 entries"},
		{"262000", "262144", "is full"},
		{"240000", "262144", ""},
		{"0", "262144", ""},
		{"0", "0", ""},
		{"", "", ""},
	} {
		proc := fstest.MapFS{"sys/net/netfilter/nf_conntrack_count": {Data: []byte(tt.held + "\n")},
			"sys/net/netfilter/nf_conntrack_max": {Data: []byte(tt.most + "\n")}}
		if f := tableFull(proc); (f.Why == "") != (tt.want == "") || !strings.Contains(f.Why, tt.want) {
			t.Errorf("%s of %s: %+v", tt.held, tt.most, f)
		}
	}
}
