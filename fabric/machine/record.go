package machine

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"launch/fabric"
)

// Recorder records what fabric.Detect reads of a machine.
type Recorder struct {
	live fabric.Roots

	mu  sync.Mutex // Detect reads devices concurrently
	rec recording
}

// NewRecorder records all reads through its Roots.
func NewRecorder(live fabric.Roots) *Recorder {
	return &Recorder{live: live, rec: recording{
		Format: recordingFormat, Dirs: []string{}, Links: map[string]string{}, Files: map[string]string{},
		Errors: map[string]string{}, ACS: map[string]string{}, Answers: answers{Environment: map[string]string{}},
	}}
}

// Roots returns the roots of the machine, which record all reads.
func (r *Recorder) Roots() fabric.Roots {
	watch := func(prefix string, fsys fs.FS) fs.FS {
		if fsys == nil {
			return nil
		}
		return &watched{r, fsys, prefix}
	}
	roots := r.live
	roots.Sys, roots.Proc, roots.Etc = watch("sys", roots.Sys), watch("proc", roots.Proc), watch("etc", roots.Etc)
	roots.Dev, roots.Root = watch("dev", roots.Dev), watch("", roots.Root)
	if ask := r.live.Links; ask != nil {
		roots.Links = func() ([]fabric.Interface, error) {
			links, err := ask()
			r.keep(func(a *answers) { a.Links = copyLinks(links) })
			return links, err
		}
	}
	if ask := r.live.Shm; ask != nil {
		roots.Shm = func() (int64, int64) {
			free, size := ask()
			r.keep(func(a *answers) { a.Shm = &[2]int64{free, size} })
			return free, size
		}
	}
	if ask := r.live.Route; ask != nil {
		roots.Route = func() (fabric.Route, error) {
			route, err := ask()
			if err == nil {
				r.keep(func(a *answers) { a.Route = &route })
			}
			return route, err
		}
	}
	if ask := r.live.System; ask != nil {
		roots.System = func(names []string) fabric.System {
			s := ask(names)
			r.keep(func(a *answers) { a.System = &s })
			return s
		}
	}
	if ask := r.live.RDMA; ask != nil {
		roots.RDMA = func() (string, error) {
			mode, err := ask()
			if err == nil {
				r.keep(func(a *answers) { a.RDMA = mode })
			}
			return mode, err
		}
	}
	if ask := r.live.Env; ask != nil {
		roots.Env = func(name string) string {
			v := ask(name)
			if v != "" {
				r.keep(func(a *answers) { a.Environment[name] = v })
			}
			return v
		}
	}
	return roots
}

func (r *Recorder) keep(f func(*answers)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.rec.Answers)
}

// File returns the recording of the node that Detect found, without what identifies the machine.
func (r *Recorder) File(n fabric.Node) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.rec.Answers
	a.HostAddrs, a.HostErr = n.HostAddrs, n.HostErr
	gpus := n.GPUs.Anonymous()
	a.NVML, a.Verbs, a.Software = &gpus, &n.Verbs, &n.Software
	if a.System != nil {
		a.System.Image = "" // it identifies the machine
	}
	if n.Limits.NofileKnown {
		a.Nofile = &n.Limits.Nofile
	}
	slices.Sort(r.rec.Dirs)
	r.rec.Dirs = slices.Compact(r.rec.Dirs)
	key := make([]byte, 16)
	rand.Read(key) // never fails
	out, err := newScrubber(key, n.Hostname).scrub(r.rec)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err = enc.Encode(out)
	return b.Bytes(), err
}

// watched records the paths, with all links resolved, and the links of one root of a machine.
type watched struct {
	r      *Recorder
	fsys   fs.FS
	prefix string // of its paths in the recording
}

// real follows the links in a path. If they lead out of the root, ok is false.
func (w *watched) real(name string) (real string, ok bool) {
	rest := strings.Split(name, "/")
	at := "."
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		target, err := fs.ReadLink(w.fsys, next)
		if err != nil {
			at = next
			continue
		}
		w.r.mu.Lock()
		w.r.rec.Links[path.Join(w.prefix, next)] = target
		w.r.mu.Unlock()
		if path.IsAbs(target) {
			inside, found := strings.CutPrefix(target, "/"+w.prefix)
			if !found || w.prefix != "" && inside != "" && inside[0] != '/' {
				return next, false
			}
			target = strings.TrimLeft(inside, "/")
		} else {
			target = path.Join(at, target)
		}
		if links++; links > maxLinks || target == ".." || strings.HasPrefix(target, "../") {
			return next, false
		}
		rest, at = append(strings.Split(target, "/"), rest...), "."
	}
	return at, true
}

func (w *watched) note(name string, f func(real string)) {
	real, ok := w.real(name)
	if !ok || real == "." {
		return
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	f(path.Join(w.prefix, real))
}

// failed records an error. A file that does not exist, or is below a file, needs no record.
func (w *watched) failed(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return
	}
	w.note(name, func(real string) {
		delete(w.r.rec.Files, real)
		w.r.rec.Errors[real] = nameOf(err)
	})
}

// exists records that an entry exists: an entry that was not read is an empty file.
func (w *watched) exists(name string, dir bool) {
	w.note(name, func(real string) {
		if dir {
			w.r.rec.Dirs = append(w.r.rec.Dirs, real)
		} else if _, read := w.r.rec.Files[real]; !read && w.r.rec.Errors[real] == "" {
			w.r.rec.Files[real] = ""
		}
	})
}

// Open reads the whole file, by fabric's own rules for files of the kernel.
func (w *watched) Open(name string) (fs.File, error) {
	info, err := fs.Stat(w.fsys, name)
	if err == nil && info.IsDir() {
		return w.fsys.Open(name)
	}
	if err == nil && path.Base(name) == "config" { // a PCI function's registers: only one bit is needed
		state := fabric.ReadACS(w.fsys, name)
		if state != "" {
			w.note(name, func(real string) { w.r.rec.ACS[real] = state })
		}
		return open(name, acsConfig(state)), nil
	}
	text := ""
	if err == nil {
		text, err = fabric.ReadFile(w.fsys, name)
	}
	if err != nil {
		w.failed(name, err)
		return nil, err
	}
	w.note(name, func(real string) { w.r.rec.Files[real] = strings.ToValidUTF8(text, "?") })
	return open(name, text), nil
}

func (w *watched) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.fsys, name)
	if err == nil {
		w.exists(name, info.IsDir())
	}
	return info, err
}

func (w *watched) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(w.fsys, name) }

func (w *watched) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(w.fsys, name)
	if err == nil { // the path of the link, but not the link itself, may contain other links
		dir, ok := w.real(path.Dir(name))
		w.r.mu.Lock()
		defer w.r.mu.Unlock()
		if ok {
			w.r.rec.Links[path.Join(w.prefix, dir, path.Base(name))] = target
		}
	}
	return target, err
}

func (w *watched) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.fsys, name)
	if err != nil {
		w.failed(name, err)
		return entries, err
	}
	w.exists(name, true)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			w.ReadLink(path.Join(name, e.Name()))
		} else {
			w.exists(path.Join(name, e.Name()), e.IsDir())
		}
	}
	return entries, err
}
