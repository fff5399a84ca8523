package start

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"launch/fabric"
)

// A node that waits says once that it drops what others send: by its routes, or when the number of drops has risen.
func TestANodeThatWaitsSaysWhatItDrops(t *testing.T) {
	counted := func(n int) fstest.MapFS {
		return fstest.MapFS{"net/netstat": {Data: fmt.Appendf(nil, "TcpExt: IPReversePathFilter\nTcpExt: %d\n", n)}}
	}
	for name, tt := range map[string]struct {
		routes bool  // show it
		drops  []int // from second to second
		want   int   // the second; -1: never
	}{
		"by the routes":     {true, []int{0, 0, 0, 0, 0, 0, 0}, 5},
		"a rising number":   {false, []int{0, 0, 0, 0, 0, 1, 2, 3, 4}, 7},
		"before the wait":   {false, []int{9, 9, 9, 9, 9, 9, 9, 9}, -1},
		"one packet":        {false, []int{9, 9, 9, 10, 10, 10, 10, 10, 10}, -1},
		"a node that hears": {false, []int{0, 0, 0, 0, 0, 0, 0, 0}, -1},
	} {
		began, looks := time.Now(), 0
		ways := func(proc fs.FS, before fabric.Drops) (d fabric.Deaf) {
			if looks++; tt.routes || fabric.ReadDrops(proc).Since(before).ReversePath >= 3 {
				d.Why = "this node drops packets"
			}
			return d
		}
		d := deaf{began: began, before: fabric.Drops{ReversePath: int64(tt.drops[0])}, ways: ways}
		said := -1
		for second, n := range tt.drops {
			d.proc = counted(n)
			if f := d.look(began.Add(time.Duration(second) * time.Second)); f != nil && said < 0 {
				if said = second; f[0].ID != "addr.deaf" {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
		if said != tt.want {
			t.Errorf("%s: said after %d s, want %d", name, said, tt.want)
		}
		if looks > 4 {
			t.Errorf("%s: the routes were read %d times", name, looks)
		}
	}
}
