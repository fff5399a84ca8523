package companion

import (
	"strings"
	"testing"
	"time"

	"launch/rendezvous"
)

// The end that came before is named, but not where a scheduler ended all alike.
func TestTheEndBeforeIsNamed(t *testing.T) {
	own, other := "own", "other"
	for _, tt := range []struct {
		name         string
		failed, left *rankEnd
		late         bool // left was heard after failed
		status       int
		want         string
	}{
		{"nothing is known", nil, nil, false, 1, ""},
		{"a rank elsewhere was killed", &rankEnd{ID: other, Status: 137}, nil, false, 1, "failed"},
		{"this node's failed first", &rankEnd{ID: own, Status: 1}, nil, false, 1, ""},
		{"this node's failed first, after one ended with 0", &rankEnd{ID: own, Status: 1}, &rankEnd{ID: other}, false, 1,
			"left"},
		{"a rank of this node ended with 0", &rankEnd{ID: own, Status: 1}, &rankEnd{ID: own}, false, 1, ""},
		{"one elsewhere failed after one that ended with 0", &rankEnd{ID: other, Status: 1}, &rankEnd{ID: other}, false, 1,
			"failed left"},
		{"one elsewhere failed, and one ended with 0 later", &rankEnd{ID: other, Status: 1}, &rankEnd{ID: other}, true, 1,
			"failed"},
		{"a scheduler ends all", &rankEnd{ID: other, Status: 143}, nil, false, 143, ""},
		{"a scheduler ends this node after some have ended", nil, &rankEnd{ID: other}, false, 143, ""},
		{"a person interrupts another node", &rankEnd{ID: other, Status: 130}, nil, false, 1, "failed"},
	} {
		e := &ends{p: &companion{world: &rendezvous.World{Self: rendezvous.Member{ID: own}}}}
		for f, end := range map[*firstEnd]*rankEnd{&e.failed: tt.failed, &e.left: tt.left} {
			if f.heard = make(chan none); end != nil {
				f.end, f.at = *end, time.Now()
				close(f.heard)
			}
		}
		e.left.at = e.failed.at
		if tt.late {
			e.left.at = e.failed.at.Add(time.Second)
		}
		var got []string
		e.failed.own.Store(int64(tt.status))
		failed, left := e.before()
		if failed != nil {
			got = append(got, "failed")
		}
		if left != nil {
			got = append(got, "left")
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		e.failed.at, e.left.at = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		if failed, left := e.before(); failed != nil || left != nil {
			t.Errorf("%s, an hour ago: it is named", tt.name)
		}
	}
}
