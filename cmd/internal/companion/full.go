package companion

import (
	"fmt"
	"slices"
	"time"

	"launch/fabric"
	"launch/internal/finding"
)

const (
	// noRoom is what a full file system has left: a file of one more block may still fit.
	noRoom = 1 << 20
	// fullBudget bounds the look at the file systems after the command has failed.
	fullBudget = time.Second
	// maxFull is how many full file systems are named.
	maxFull = 3
)

// fullDisk is a file system without space, or without room for another file.
type fullDisk struct {
	at, what string
}

// full returns which file systems of this machine are full; nothing if they do not answer in time.
func full(disks func() []fabric.Disk) (out []fullDisk) {
	answer := make(chan []fabric.Disk, 1)
	go func() { answer <- disks() }()
	var all []fabric.Disk
	select {
	case all = <-answer:
	case <-time.After(fullBudget):
	}
	for _, d := range all {
		at, kind := d.Path, fmt.Sprintf("%s (%s, %s)", d.Path, d.Kind, finding.Size(uint64(d.Size)))
		switch {
		case d.Free < noRoom:
			out = append(out, fullDisk{at, kind + " is full"})
		case d.InodeMax > 0 && d.Inodes == 0:
			out = append(out, fullDisk{at, kind + " has no inode left"})
		}
	}
	return out
}

// storage reports a file system that is full, and was not when the run began: torch says of that "iostream error".
func (w *watcher) storage() {
	named, before := 0, w.full()
	for _, d := range full(w.disks) {
		if slices.ContainsFunc(before, func(o fullDisk) bool { return o.at == d.at }) || named == maxFull {
			continue
		}
		named++
		w.p.say(finding.Warnf("%s on %s: a file that the command wrote may be cut", d.what, w.p.spec.Self.Host).
			Named("storage.full").Do("df -h %s; df -i %s", d.at, d.at), "")
	}
}
