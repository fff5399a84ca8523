package companion

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/internal/process"
	"launch/rendezvous"
)

const (
	// priorSpan is how long before the end of a rank something counts as its reason.
	priorSpan = 5 * time.Second
	// removedSpan is how long before the end of a rank its files were removed, if that is to be a reason.
	removedSpan = time.Minute
	// folderBudget is how long a look for a folder may take: it may be of a file server that does not answer.
	folderBudget = 300 * time.Millisecond
	// groupSpan is how long before a rank a worker may have ended by the same signal, which was to both.
	groupSpan = time.Second
)

// prior is what this node has seen of a rank before it failed.
type prior struct {
	Worker  workerEnd     `json:"worker,omitzero"`
	Removed string        `json:"removed,omitempty"` // a folder of torchrun that is there no more
	Refuses string        `json:"refuses,omitempty"` // a file system that can be written to no more, since the start
	Still   time.Duration `json:"still,omitempty"`   // for how long nothing had moved on the node, at least
}

// workerEnd is the end of a worker of the rank's DataLoader by a signal.
type workerEnd struct {
	PID    int           `json:"pid"`
	Status int           `json:"status"`
	Before time.Duration `json:"before"` // the rank's end
}

// String continues a sentence about the end of the rank; "": nothing was seen.
func (p prior) String() string {
	switch {
	case p.Worker.PID != 0:
		return fmt.Sprintf(", %s after a worker process of its DataLoader (pid %d) %s",
			p.Worker.Before.Round(time.Second), p.Worker.PID, ended(p.Worker.Status))
	case p.Removed != "":
		return fmt.Sprintf(", after torchrun's folder %s was removed there", p.Removed)
	case p.Refuses != "":
		return fmt.Sprintf(", after the file system of %s became read-only there", p.Refuses)
	}
	return ""
}

// fix says what to do about it on a node; "": nothing was seen.
func (p prior) fix(node string) string {
	switch {
	case p.Worker.Status == 128+int(syscall.SIGKILL):
		return fmt.Sprintf("dmesg -T | grep -i kill   # on %s: was it out of memory? Fewer workers (num_workers) need less",
			node)
	case p.Worker.PID != 0:
		return meaning(p.Worker.Status)
	case p.Removed != "":
		return filesFix(p.Removed, node)
	case p.Refuses != "":
		return writesFix(p.Refuses, node)
	}
	return ""
}

func filesFix(folder, node string) string {
	return fmt.Sprintf("ls /etc/tmpfiles.d /etc/cron*   # on %s: what removes files in %s?\n"+
		"have it leave out the job's, or set TMPDIR to another folder", node, filepath.Dir(folder))
}

// clean makes what another node has posted fit to print.
func (p *prior) clean() {
	for _, text := range []*string{&p.Removed, &p.Refuses} {
		n := rendezvous.Note{Name: *text}.Shortened()
		n.Clean()
		*text = n.Name
	}
}

// workers follows the workers of a rank's DataLoader, and remembers the last one that a signal has ended, other than
// that by which the rank itself ends them.
type workers struct {
	mu    sync.Mutex
	known map[int]bool
	last  workerEnd
	at    time.Time
}

// find begins to follow new workers of a rank.
func (w *workers) find(ctx context.Context, r *ranks, rank int) {
	for _, pid := range process.Children(rank) {
		w.mu.Lock()
		known := w.known[pid]
		w.mu.Unlock()
		if known || comm(pid) != scene.Worker {
			continue
		}
		w.mu.Lock()
		w.last = workerEnd{} // the rank goes on after that end
		if w.known == nil {
			w.known = map[int]bool{}
		}
		w.known[pid] = true
		w.mu.Unlock()
		r.wg.Go(func() {
			status, ok := r.fate(ctx, pid)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.known, pid)
			if ok && status > 128 && rendezvous.Ender(status) == "" {
				w.last, w.at = workerEnd{PID: pid, Status: status}, time.Now()
			}
		})
	}
}

// before returns the last such end before a moment, at which the rank ended with a status.
func (w *workers) before(ended time.Time, status int) (e workerEnd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ago := ended.Sub(w.at)
	together := w.last.Status == status && ago < groupSpan
	if w.last.PID != 0 && ago >= 0 && ago < priorSpan && !together {
		e, e.Before = w.last, ago
	}
	return e
}

// precede watches what may end a rank, until the returned function is called after its end: that returns what was seen,
// within folderBudget.
func (r *ranks) precede(ctx context.Context, rank int) func(ended time.Time, status int) prior {
	ctx, stop := context.WithCancel(ctx)
	var w workers
	removed := make(chan string, 1)
	r.wg.Go(func() {
		f := folderOf(rank)
		defer func() {
			if f.lately() {
				removed <- f.path
			}
			close(removed)
		}()
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			w.find(ctx, r, rank)
			if f.missed.IsZero() && f.gone() {
				if _, said := r.removed.LoadOrStore(f.path, true); !said {
					r.watcher.p.say(f.removed(r.watcher.p.spec.Self.Host), "")
				}
			}
		}
	})
	return func(ended time.Time, status int) (p prior) {
		p.Worker = w.before(ended, status)
		stop()
		select {
		case p.Removed = <-removed:
		case <-time.After(folderBudget):
		}
		if d := r.watcher.p.doctor; d != nil {
			p.Still = d.calm.until(ended)
			if status < 128 {
				r.watcher.readOnly()
				p.Refuses = r.watcher.writes.last()
			}
		}
		return p
	}
}

func comm(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(text))
}

// folder is the folder of torchrun's own files of a rank, which torchrun makes in that of temporary files and leaves
// there as long as it runs.
type folder struct {
	path   string    // "": there is none
	asked  chan bool // whether it is gone
	missed time.Time // when it was first seen to be gone
}

// folderOf returns the folder of a rank's torchrun (torch/distributed/elastic/multiprocessing/api.py), if it is there.
func folderOf(pid int) folder {
	const begin = "torchelastic_"
	f := folder{asked: make(chan bool, 1)}
	path := filepath.Clean(process.Variable(pid, "TORCHELASTIC_ERROR_FILE"))
	for ; filepath.IsAbs(path) && path != "/"; path = filepath.Dir(path) {
		if strings.HasPrefix(filepath.Base(path), begin) {
			f.path = path
		}
	}
	if f.gone() {
		f.path = ""
	}
	return f
}

// gone reports whether the folder was removed. A look that lasts too long is the last one.
func (f *folder) gone() bool {
	if f.path == "" {
		return false
	}
	path, asked := f.path, f.asked
	go func() {
		_, err := os.Lstat(path)
		asked <- os.IsNotExist(err)
	}()
	select {
	case is := <-asked:
		if is && f.missed.IsZero() {
			f.missed = time.Now()
		}
		return is
	case <-time.After(folderBudget):
		f.path = ""
		return false
	}
}

// lately reports whether the folder was removed, and that it was there a short while ago.
func (f *folder) lately() bool { return f.gone() && time.Since(f.missed) < removedSpan }

// removed says that files of the job were removed while it runs.
func (f *folder) removed(node string) finding.Finding {
	return finding.Warnf("torchrun's folder %s was removed while the job runs (seen at %s)",
		f.path, time.Now().Format("15:04:05")).Named("node.files").
		Breaking("workers of a DataLoader may have sockets there: a rank that then asks for their next tensor fails "+
			"with \"No such file or directory\"").
		Do("%s", filesFix(f.path, node))
}
