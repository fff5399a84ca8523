package software

import (
	"context"
	"debug/elf"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pages is how many pages Cold reads. From memory one takes 1 to 10 µs, from a fast disk 80.
	pages, fromMemory = 9, 30 * time.Microsecond
	// atOnce is how many tasks run at once: on a network file system each takes many round trips.
	atOnce = 32
	// piece is how much a task reads at once, and span how much of a library.
	piece, span = 256 << 10, 8 << 20
	// maxData is the largest section of data that is read: what is larger is for the GPU, such as
	// 282 MB of libcufft.so.12. The largest other one has 96 MB, in libcublasLt.so.13.
	maxData = 128 << 20
)

// Import is what determines which files an import of torch reads.
type Import struct {
	Python  string `json:"python"`            // the interpreter
	Version string `json:"version,omitempty"` // its version
	Torch   string `json:"torch"`             // the folder of torch
	Script  string `json:"script,omitempty"`
	Dir     string `json:"dir,omitempty"`     // the working directory
	Preload string `json:"preload,omitempty"` // LD_PRELOAD
	Path    string `json:"path,omitempty"`    // LD_LIBRARY_PATH
}

// Import returns what determines the import of the torch that Detect found for a command; ok: there is one.
func (f Facts) Import(cmd Command, script string) (m Import, ok bool) {
	d := detector{cmd: cmd}
	if script != "" {
		script = d.absolute(script)
	}
	return Import{Python: f.Python.Path, Version: f.Python.Version, Torch: f.Torch.Path, Script: script, Dir: cmd.Dir,
		Preload: d.env("LD_PRELOAD"), Path: d.env("LD_LIBRARY_PATH")}, f.Torch.Path != ""
}

// Cold reports whether an import has to wait for a disk or another host: whether pages of torch's largest
// library take longer to read than from memory. It blocks on a file system that does not answer.
func (m Import) Cold(root fs.FS) bool {
	f := files{root}
	l := loader{files: f, preload: m.Preload, path: m.Path, dir: m.Dir}
	file, ok := f.open(l.find("libtorch_cpu.so", object{rpath: []string{path.Join(m.Torch, "lib")}}))
	if !ok {
		return false
	}
	defer file.Close()
	at, ok := file.(io.ReaderAt)
	info, err := file.Stat()
	if !ok || err != nil {
		return false
	}
	var took [pages]time.Duration
	for i := range took {
		began := time.Now()
		_, _ = at.ReadAt(make([]byte, 1), rand.Int64N(max(info.Size(), 1))) // other pages than the last Cold
		took[i] = time.Since(began)
	}
	slices.Sort(took[:])
	return took[pages/2] > fromMemory
}

// standard are the packages of the standard library that torch imports, and its compiled modules.
var standard = []string{"asyncio", "collections", "concurrent", "ctypes", "email", "encodings", "html", "http",
	"importlib", "json", "logging", "multiprocessing", "re", "sysconfig", "unittest", "urllib", "xml", "zipfile",
	"lib-dynload"}

// packages are those that torch imports from next to it.
var packages = []string{"numpy", "torchgen", "cuda", "_distutils_hack"}

// unused are the parts of torch that its import does not touch.
var unused = []string{"_dynamo", "_inductor", "_lazy", "_numpy", "bin", "contrib", "include", "lib", "nativert", "onnx",
	"share", "test", "testing/_internal"}

// unread are the sections that only a GPU needs, or the handling of an exception.
var unread = []string{".nv_fatbin", "__nv_relfatbin", ".hip_fatbin", ".cask_resource", ".eh_frame", ".gcc_except_table"}

// reader reads the files of an import. What it lists and reads are tasks, of which many run at once.
type reader struct {
	files
	ctx     context.Context
	stop    context.CancelFunc
	loader  *loader
	loaded  map[string]bool // the names that the loader has found, and the files
	tag     string          // in the names of the interpreter's bytecode
	tasks   sync.WaitGroup
	buffers chan []byte // one for each task that may run

	mu       sync.Mutex
	compiled []string // modules that are shared libraries

	left atomic.Int64 // bytes that may be read
	read atomic.Int64 // bytes that were read
}

// ReadAhead reads the files that an import will read, so that the page cache has them: at most most
// bytes, until ctx ends. It executes nothing. It returns how many
// bytes it read.
func ReadAhead(ctx context.Context, root fs.FS, m Import, most int64) int64 {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	minor := shorter(m.Version)
	r := &reader{files: files{root}, ctx: ctx, stop: stop, loaded: map[string]bool{}, buffers: make(chan []byte, atOnce),
		tag: ".cpython-" + strings.TrimSuffix(strings.ReplaceAll(minor, ".", ""), "t")}
	r.loader = &loader{files: r.files, preload: m.Preload, path: m.Path, dir: m.Dir}
	r.left.Store(most)
	for range atOnce {
		r.buffers <- make([]byte, piece)
	}
	r.all(m, minor)
	return r.read.Load()
}

// do starts a task.
func (r *reader) do(task func(buf []byte)) {
	r.tasks.Go(func() {
		buf := <-r.buffers
		defer func() { r.buffers <- buf }()
		if r.ctx.Err() == nil {
			task(buf)
		}
	})
}

// all reads the files of an import. The libraries of torch are large and come first in it.
func (r *reader) all(m Import, minor string) {
	site := path.Dir(m.Torch)
	first := []string{m.Python, path.Join(m.Torch, "lib/libtorch_global_deps.so")}
	for _, name := range r.names(m.Torch) {
		if strings.HasSuffix(name, ".so") {
			first = append(first, path.Join(m.Torch, name))
		}
	}
	r.do(func([]byte) { r.modules(m, minor, site) })
	r.load(first...)
	r.load(r.opened(path.Join(site, "nvidia"))...)
	r.tasks.Wait()
	r.load(r.compiled...)
	r.tasks.Wait()
}

// modules reads the modules of an import.
func (r *reader) modules(m Import, minor, site string) {
	r.module(m.Script, "")
	if lib := r.standard(m.Python, minor); lib != "" {
		r.folder(lib, nil)
		for _, name := range standard {
			r.tree(path.Join(lib, name), nil)
		}
	}
	var skip []string
	for _, name := range unused {
		skip = append(skip, path.Join(m.Torch, name))
	}
	r.tree(m.Torch, skip)
	for _, name := range packages {
		r.tree(path.Join(site, name), nil)
	}
	for _, name := range r.folder(site, nil) {
		if strings.HasSuffix(name, ".dist-info") { // torch looks for plugins of its own
			r.module(path.Join(name, "entry_points.txt"), "")
		}
	}
}

// opened returns the libraries of NVIDIA's packages that no library lists, and that an import opens.
func (r *reader) opened(nvidia string) (libs []string) {
	for _, part := range r.names(nvidia) {
		dir := path.Join(nvidia, part, "lib")
		for _, name := range r.names(dir) {
			stem, _, _ := strings.Cut(name, ".so.")
			if slices.Contains([]string{"libnvJitLink", "libcusolver", "libnvrtc-builtins"}, stem) && !r.loaded[name] {
				libs = append(libs, path.Join(dir, name))
			}
		}
	}
	return libs
}

// standard returns the folder of an interpreter's standard library, "" if it is unknown. A venv has its base's.
func (r *reader) standard(python, minor string) string {
	real, _, _ := r.resolve(python)
	prefix := path.Dir(path.Dir(python))
	home := assignments(r.text(path.Join(prefix, "pyvenv.cfg")))["home"]
	for _, bin := range []string{path.Dir(real), home} {
		for _, lib := range []string{"lib", "lib64"} {
			dir := path.Join(path.Dir(bin), lib, "python"+minor)
			if minor != "" && r.file(path.Join(dir, "os.py")) {
				return dir
			}
		}
	}
	return ""
}

// tree reads the modules in a folder and below, but not in skip.
func (r *reader) tree(dir string, skip []string) {
	r.do(func([]byte) {
		for _, sub := range r.folder(dir, skip) {
			r.tree(sub, skip)
		}
	})
}

// folder reads the modules in a folder. It returns the folders below that may have modules.
func (r *reader) folder(dir string, skip []string) (below []string) {
	p, _, ok := r.resolve(dir)
	if !ok || r.ctx.Err() != nil {
		return nil
	}
	entries, _ := fs.ReadDir(r.root, inside(p))
	cached := r.names(path.Join(dir, "__pycache__"))
	for _, e := range entries {
		name, file := e.Name(), path.Join(dir, e.Name())
		base, isSource := strings.CutSuffix(name, ".py")
		switch {
		case e.IsDir():
			if name != "__pycache__" && name != "tests" && !slices.Contains(skip, file) {
				below = append(below, file)
			}
		case isSource && slices.Contains(cached, base+r.tag+".pyc"):
			r.module(path.Join(dir, "__pycache__", base+r.tag+".pyc"), file)
		case isSource, strings.HasSuffix(name, ".pth"):
			r.module(file, "")
		case strings.HasSuffix(name, ".so") && !strings.Contains(name, "_test") && !strings.HasPrefix(name, "_tkinter"):
			r.mu.Lock()
			r.compiled = append(r.compiled, file)
			r.mu.Unlock()
		}
	}
	return below
}

// module reads a module. Python asks for the time of its source, if it has one.
func (r *reader) module(file, source string) {
	r.do(func(buf []byte) {
		if source != "" {
			r.file(source)
		}
		if f, ok := r.open(file); ok {
			defer f.Close()
			r.drain(f, buf)
		}
	})
}

// load reads files and all libraries that the loader maps for them, each once.
func (r *reader) load(queue ...string) {
	for ; len(queue) > 0 && r.ctx.Err() == nil; queue = queue[1:] {
		o, ok := r.object(queue[0])
		if !ok || r.loaded[queue[0]] {
			continue
		}
		r.loaded[queue[0]] = true
		r.library(queue[0])
		for _, name := range o.needed {
			if file := r.loader.named(name, o); file != "" && !r.loaded[name] {
				r.loaded[name] = true
				queue = append(queue, file)
			}
		}
	}
}

// library reads what the loader and the import touch of a library, in spans.
func (r *reader) library(file string) {
	e, done, ok := r.elf(file)
	if !ok {
		return
	}
	defer done()
	for _, s := range e.Sections {
		for at := int64(0); touched(s) && at < int64(s.FileSize); at += span {
			r.span(file, int64(s.Offset)+at, min(span, int64(s.FileSize)-at))
		}
	}
}

// span reads a part of a file.
func (r *reader) span(file string, at, n int64) {
	r.do(func(buf []byte) {
		f, ok := r.open(file)
		if !ok {
			return
		}
		defer f.Close()
		if whole, ok := f.(io.ReaderAt); ok {
			r.drain(io.NewSectionReader(whole, at, n), buf)
		}
	})
}

// touched reports whether an import reads a section.
func touched(s *elf.Section) bool {
	mapped := s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && s.ReaderAt != nil
	return mapped && !slices.Contains(unread, s.Name) && (s.Flags&elf.SHF_EXECINSTR != 0 || s.FileSize <= maxData)
}

// drain reads to the end, or until nothing more may be read.
func (r *reader) drain(from io.Reader, buf []byte) {
	for r.ctx.Err() == nil {
		if r.left.Add(-int64(len(buf))) < 0 {
			r.stop()
			return
		}
		n, err := from.Read(buf)
		r.left.Add(int64(len(buf) - n))
		r.read.Add(int64(n))
		if err != nil {
			return
		}
	}
}
