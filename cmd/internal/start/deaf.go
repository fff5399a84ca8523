package start

import (
	"io/fs"
	"time"

	"launch/fabric"
	"launch/internal/finding"
)

// deafAfter is how long a wait lasts before this node looks for calls that it drops: a call sends its first packet
// after 0, 1 and 3 s.
const deafAfter = 5 * time.Second

// deaf watches whether this node drops what others send while it waits for them.
type deaf struct {
	proc   fs.FS
	began  time.Time
	before fabric.Drops // at the beginning
	ways   func(proc fs.FS, before fabric.Drops) fabric.Deaf
	looked bool  // at the routes, too
	seen   int64 // packets dropped until the last look
}

// look returns, once, which packets this node drops: by its routes, and later by the number of those dropped.
func (d *deaf) look(now time.Time) (f finding.Report) {
	if now.Sub(d.began) < deafAfter {
		return nil
	}
	n := fabric.ReadDrops(d.proc).ReversePath
	if d.looked && n <= d.seen {
		return nil
	}
	d.looked, d.seen = true, n
	found := d.ways(d.proc, d.before)
	if found.Why == "" {
		return nil
	}
	return finding.Report{finding.Warnf("%s", found.Why).Named("addr.deaf").
		Breaking("a node that is missing and sends from there is not heard, and waits").Do("%s", found.Here())}
}

// sayDeaf prints what deaf finds, on the store's host, and elsewhere while the store is not reached.
func (s *Start) sayDeaf() func(now time.Time) {
	proc := fabric.Live().Proc
	d := &deaf{proc: proc, began: time.Now(), before: fabric.ReadDrops(proc), ways: fabric.DeafTo}
	return func(now time.Time) {
		if d == nil || len(s.store.Serve) == 0 && !s.wait.withoutStore() {
			return
		}
		if f := d.look(now); f != nil {
			s.UI.Findings(f, false)
			d = nil
		}
	}
}
