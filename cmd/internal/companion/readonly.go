package companion

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"launch/fabric"
	"launch/internal/finding"
)

const (
	// usedEvery is the pause between two looks at which file systems the command uses: a checkpoint is open for seconds.
	usedEvery, maxUsedEvery = 10 * time.Second, 10 * time.Minute
	// mountsEvery is the pause between two looks at the mounts. A tick of the watcher may be early.
	mountsEvery, maxMountsEvery = watchEvery / 2, 10 * time.Second
	// thrift is how much longer than a look the pause after it is, up to its longest one: both kinds of looks together
	// take less than 0.1 % of a core.
	thrift = 2000
)

// pauseAfter returns the pause after a look that took some time.
func pauseAfter(took, least, most time.Duration) time.Duration {
	return min(max(thrift*took, least), most)
}

// writes follows which file systems of the command can be written to. A file system becomes read-only after an error of
// its disk, or as someone mounts it so. A mount that alone becomes read-only is another case: a container may have it.
type writes struct {
	proc fs.FS
	host string

	mu      sync.Mutex
	views   map[string]mountView // by namespace, of the processes of the last look at what they use
	could   map[string]bool      // by device: whether it could be written to when it was seen first
	used    map[string]string    // by device: the place where the command can write to it, and uses it
	settled map[string]bool      // by device: it refuses to write, and is reported if the command used it
	latest  string               // the device that was reported last

	named map[int]string // the processes whose paths are noted, and their programs; of follow alone
}

// mountView is the mounts that some processes see.
type mountView struct {
	pids []int
	text string
	all  fabric.Mounts
}

// look returns the findings about file systems that can be written to no more since the last look.
func (w *writes) look(now time.Time) (out []finding.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var changed []fabric.Mount
	for _, m := range w.mounts() {
		if w.could[m.Device] && !w.settled[m.Device] {
			changed, w.settled[m.Device] = append(changed, m), true
		}
	}
	if len(changed) > 0 { // a file may have been opened since follow looked
		for _, v := range w.views {
			for _, pid := range v.pids {
				w.note(v, w.open(pid))
			}
		}
	}
	for _, m := range changed {
		if at, used := w.used[m.Device]; used {
			m.Path, w.latest = at, m.Device
			out = append(out, refuses(m, w.host, now))
		}
	}
	return out
}

// mounts reads the mounts of the processes, and returns one for each file system that refuses to write.
func (w *writes) mounts() (refusing []fabric.Mount) {
	if w.could == nil {
		w.could, w.used, w.settled = map[string]bool{}, map[string]string{}, map[string]bool{}
	}
	now := map[string]fabric.Mount{}
	for space, v := range w.views {
		var text []byte
		for _, pid := range v.pids { // a few may have ended
			if text, _ = fs.ReadFile(w.proc, strconv.Itoa(pid)+"/mountinfo"); len(text) > 0 {
				break
			}
		}
		if v.text != string(text) {
			v.text = string(text)
			v.all = fabric.ParseMounts(v.text)
			w.views[space] = v
		}
		for _, m := range v.all {
			now[m.Device] = m
		}
	}
	if len(now) == 0 {
		return nil // no process was seen
	}
	ended := func(device string) bool { _, there := now[device]; return !there }
	maps.DeleteFunc(w.could, func(device string, _ bool) bool { return ended(device) })
	maps.DeleteFunc(w.used, func(device, _ string) bool { return ended(device) })
	maps.DeleteFunc(w.settled, func(device string, _ bool) bool { return ended(device) || now[device].Refuses == "" })
	for _, device := range slices.Sorted(maps.Keys(now)) {
		m := now[device]
		if _, seen := w.could[device]; !seen {
			w.could[device] = m.Refuses == ""
		}
		if m.Refuses != "" {
			refusing = append(refusing, m)
		}
	}
	return refusing
}

// follow notes the file systems that the processes of the command use, until ctx ends.
func (w *writes) follow(ctx context.Context, of func() []int) {
	for {
		began := time.Now()
		w.uses(of())
		select {
		case <-time.After(pauseAfter(time.Since(began), usedEvery, maxUsedEvery)):
		case <-ctx.Done():
			return
		}
	}
}

// uses notes the file systems on which processes have a file open, work, or name a path in their command line or
// environment. These two may not be readable while a process waits for a file system: look does not wait for that.
func (w *writes) uses(pids []int) {
	spaces, paths, named := map[string][]int{}, map[string][]string{}, map[int]string{}
	for _, pid := range pids {
		space, err := fs.ReadLink(w.proc, fmt.Sprintf("%d/ns/mnt", pid))
		if err != nil {
			continue
		}
		spaces[space] = append(spaces[space], pid)
		paths[space] = append(paths[space], w.open(pid)...)
		named[pid], _ = fs.ReadLink(w.proc, fmt.Sprintf("%d/exe", pid))
		if program, known := w.named[pid]; !known || program != named[pid] {
			paths[space] = append(paths[space], w.names(pid)...)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.views
	w.views, w.named = map[string]mountView{}, named
	for space, pids := range spaces {
		v := before[space]
		v.pids = pids
		w.views[space] = v
	}
	w.mounts()
	for space, names := range paths {
		w.note(w.views[space], names)
	}
}

// note notes the file systems of some paths, where it can be written to them.
func (w *writes) note(v mountView, names []string) {
	for _, name := range names {
		if !path.IsAbs(name) {
			continue
		}
		m, ok := v.all.On(strings.TrimSuffix(name, " (deleted)"))
		if _, known := w.used[m.Device]; ok && !known && !m.ReadOnly {
			w.used[m.Device] = m.Path
		}
	}
}

// open returns the files that a process has open, and where it works.
func (w *writes) open(pid int) (out []string) {
	at := strconv.Itoa(pid)
	cwd, _ := fs.ReadLink(w.proc, at+"/cwd")
	out = append(out, cwd)
	open, _ := fs.ReadDir(w.proc, at+"/fd")
	for _, fd := range open {
		file, _ := fs.ReadLink(w.proc, at+"/fd/"+fd.Name())
		out = append(out, file)
	}
	return out
}

// names returns what may be a path in the command line and environment of a process.
func (w *writes) names(pid int) (out []string) {
	for _, list := range []string{"cmdline", "environ"} {
		text, _ := fs.ReadFile(w.proc, strconv.Itoa(pid)+"/"+list)
		for word := range strings.SplitSeq(string(text), "\x00") {
			if _, value, named := strings.Cut(word, "="); named {
				word = value
			}
			out = append(out, filepath.SplitList(word)...)
		}
	}
	return out
}

// refuses says that a file system can be written to no more.
func refuses(m fabric.Mount, host string, now time.Time) finding.Finding {
	why := "is mounted read-only now"
	switch {
	case m.Refuses != "ro":
		why = fmt.Sprintf("can be written to no more since the kernel met an error on it (%s)", m.Refuses)
	case m.Demands:
		why += ", perhaps by the kernel after an error (errors=remount-ro)"
	}
	return finding.Warnf("the file system of %s (%s, %s) on %s %s; it could be written to before (seen at %s)", m.Path,
		m.Kind, m.Source, host, why, now.Format(time.TimeOnly)).Named("storage.readonly").
		Breaking("what the command writes there fails (\"Read-only file system\"), as its next checkpoint").
		Do("%s", writesFix(m.Path, host))
}

// writesFix shows why a file system on a node can be written to no more.
func writesFix(at, node string) string {
	return fmt.Sprintf("dmesg -T | tail -50; grep %s /proc/mounts   # on %s: was there an error of the disk or of the "+
		"server?\nmount -o remount,rw %[1]s   # there, once that is repaired", at, node)
}

// last returns the place of the file system that was reported last, if it still refuses to write; "": none does.
func (w *writes) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.settled[w.latest] {
		return ""
	}
	return w.used[w.latest]
}

// readOnly reports file systems that can be written to no more.
func (w *watcher) readOnly() {
	for _, f := range w.writes.look(time.Now()) {
		w.p.say(f, "")
	}
}

// readOnlyAtTimes does what readOnly does, and seldom where that takes long.
func (w *watcher) readOnlyAtTimes() {
	began := time.Now()
	if began.Before(w.nextWrites) {
		return
	}
	w.readOnly()
	w.nextWrites = time.Now().Add(pauseAfter(time.Since(began), mountsEvery, maxMountsEvery))
}

// newWrites returns what follows the file systems of this node.
func newWrites(host string) *writes { return &writes{proc: os.DirFS("/proc"), host: host} }
