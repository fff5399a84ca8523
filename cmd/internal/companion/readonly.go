package companion

import (
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

// usedEvery is the pause between two looks at which file systems the command uses: a checkpoint is open for seconds.
const usedEvery = 10 * time.Second

// writes follows which file systems of the command can be written to. A file system becomes read-only after an error of
// its disk, or as someone mounts it so.
type writes struct {
	proc fs.FS
	host string

	mu     sync.Mutex
	known  map[string]bool   // by namespace, place and device: whether it could be written to
	used   map[string]bool   // the same, of those that the command has used
	asked  time.Time         // for what it uses
	said   map[string]string // by device: the namespace and place that were reported
	latest string            // the place that was reported last; "": none
}

// mountView is the mounts of some processes.
type mountView struct {
	all  []fabric.Mount
	pids []int
}

// look takes in the mounts of the command's processes, and returns the findings about those that can be written to no
// more since the last look.
func (w *writes) look(pids []int, now time.Time) (out []finding.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known, w.used, w.said = map[string]bool{}, map[string]bool{}, map[string]string{}
	}
	views := w.views(pids)
	spaces, ask := slices.Sorted(maps.Keys(views)), now.Sub(w.asked) >= usedEvery
	for _, space := range spaces {
		for _, m := range views[space].all {
			could, seen := w.known[space+m.Path+m.Device]
			if !seen {
				w.known[space+m.Path+m.Device] = m.Refuses == ""
			} else if m.Refuses == "" && w.said[m.Device] == space+m.Path {
				delete(w.said, m.Device)
			}
			ask = ask || seen && could && m.Refuses != "" && w.said[m.Device] == ""
		}
	}
	for _, space := range spaces {
		v := views[space]
		if ask {
			w.asked = now
			w.uses(space, v)
		}
		for _, m := range v.all {
			key := space + m.Path + m.Device
			if w.known[key] && m.Refuses != "" && w.used[key] && w.said[m.Device] == "" {
				w.said[m.Device], w.latest = space+m.Path, m.Path
				out = append(out, refuses(m, w.host, now))
			}
		}
	}
	return out
}

// views returns the mounts of processes, by their namespace.
func (w *writes) views(pids []int) map[string]mountView {
	out := map[string]mountView{}
	for _, pid := range pids {
		space, err := fs.ReadLink(w.proc, fmt.Sprintf("%d/ns/mnt", pid))
		if err != nil {
			continue
		}
		v, known := out[space]
		if !known {
			v.all = fabric.MountsOf(w.proc, pid)
		}
		v.pids = append(v.pids, pid)
		out[space] = v
	}
	return out
}

// uses notes the mounts on which processes have a file open, work, or name a path in their command line or environment.
func (w *writes) uses(space string, v mountView) {
	note := func(name string) {
		if !path.IsAbs(name) {
			return
		}
		name = path.Clean(strings.TrimSuffix(name, " (deleted)"))
		if i := slices.IndexFunc(v.all, func(m fabric.Mount) bool { return m.Holds(v.all, name) }); i >= 0 {
			w.used[space+v.all[i].Path+v.all[i].Device] = true
		}
	}
	for _, pid := range v.pids {
		at := strconv.Itoa(pid)
		cwd, _ := fs.ReadLink(w.proc, at+"/cwd")
		note(cwd)
		open, _ := fs.ReadDir(w.proc, at+"/fd")
		for _, fd := range open {
			file, _ := fs.ReadLink(w.proc, at+"/fd/"+fd.Name())
			note(file)
		}
		for _, list := range []string{"cmdline", "environ"} {
			text, _ := fs.ReadFile(w.proc, at+"/"+list)
			for word := range strings.SplitSeq(string(text), "\x00") {
				if _, value, named := strings.Cut(word, "="); named {
					word = value
				}
				for _, name := range filepath.SplitList(word) {
					note(name)
				}
			}
		}
	}
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
	return finding.Warnf("the file system of %s (%s, %s) on %s %s; it could be written to when the command began (seen "+
		"at %s)", m.Path, m.Kind, m.Source, host, why, now.Format(time.TimeOnly)).Named("storage.readonly").
		Breaking("what the command writes there fails (\"Read-only file system\"), as its next checkpoint").
		Do("%s", writesFix(m.Path, host))
}

// writesFix shows why a file system on a node can be written to no more.
func writesFix(at, node string) string {
	return fmt.Sprintf("dmesg -T | tail -50; grep %s /proc/mounts   # on %s: was there an error of the disk or of the "+
		"server?\nmount -o remount,rw %[1]s   # there, once that is repaired", at, node)
}

// last returns the place that was reported last; "": none was.
func (w *writes) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// readOnly reports file systems that can be written to no more.
func (w *watcher) readOnly() {
	for _, f := range w.writes.look(w.of(), time.Now()) {
		w.p.say(f, "")
	}
}

// newWrites returns what follows the file systems of this node.
func newWrites(host string) *writes { return &writes{proc: os.DirFS("/proc"), host: host} }
