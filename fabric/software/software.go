// Package software finds out which versions of torch, NCCL, its network plugin and
// their dependencies the job's command would load. It reads the files that the shell,
// Python and the dynamic loader would read, in their order. It runs nothing, imports
// nothing (torch takes seconds) and judges nothing.
package software

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// budget limits Detect. On a warm machine it takes a few milliseconds; a shared file
// system that takes longer would delay the command too.
const budget = 2 * time.Second

// None is the version of a missing network plugin. NCCL then uses its own networks, so
// it is a fact, not an unknown.
const None = "none"

// Facts is the software that the command would load on this node. An empty Version is
// unknown: the command does not load it, or the version could not be read.
type Facts struct {
	Python    Item   `json:"python,omitzero"`    // "3.11.7", or "3.11" if no file has more; Path: the interpreter
	Torch     Item   `json:"torch,omitzero"`     // __version__ of torch/version.py, "2.9.0+cu128"
	CUDA      string `json:"cuda,omitempty"`     // the runtime that torch was built with, "12.8"
	HIP       string `json:"hip,omitempty"`      // the same of a torch for AMD's GPUs
	NCCL      Item   `json:"nccl,omitzero"`      // "2.27.5", also for RCCL. From the library, else from its package
	Plugin    Item   `json:"plugin,omitzero"`    // NCCL's, or None: "aws-ofi-nccl 1.16.0", "libnccl-net.so 1f2e3d4c"
	UCX       Item   `json:"ucx,omitzero"`       // if the program or the plugin needs it: "libucp.so.0.0.0 1f2e3d4c"
	Libfabric Item   `json:"libfabric,omitzero"` // libfabric, likewise
	Err       string `json:"err,omitempty"`      // why all of this is unknown
}

// Item is one piece of software and the file with its version.
type Item struct {
	Version string `json:"version"`
	Path    string `json:"path,omitempty"`
}

// Command is the command to start.
type Command struct {
	Before  []string // the words before the program: env, numactl, "uv run", "conda run -n NAME"
	Program string   // torchrun, a Python, or any program; looked up as execvp(3) does
	Env     []string // NAME=VALUE as the program will see it; the last entry of a name wins
	Dir     string   // the working directory
	Home    string
}

// Detect reads what the command would load, from the root directory of this machine or
// of a test. It never fails as a whole, and returns within 2 s.
func Detect(ctx context.Context, root fs.FS, cmd Command) Facts {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	answer := make(chan Facts, 1)
	go func() { answer <- detect(root, cmd) }()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done(): // the reader is abandoned: nothing ends a read on a dead file system
		return Facts{Err: "the files of the command could not be read within " + budget.String()}
	}
}

// detector examines one command.
type detector struct {
	files
	cmd    Command
	loader *loader // one loader, which caches ld.so.cache
}

func detect(root fs.FS, cmd Command) Facts {
	d := detector{files: files{root}, cmd: cmd}
	d.loader = &loader{files: d.files, preload: d.env("LD_PRELOAD"), path: d.env("LD_LIBRARY_PATH"), dir: cmd.Dir}
	var f Facts
	interpreter, program := d.interpreter()
	if interpreter != "" {
		f.Python.Path = interpreter
		var sites []string
		f.Python.Version, sites = d.python(interpreter)
		d.torch(&f, sites)
	} else if program != "" {
		d.program(&f, program)
	}
	if f.NCCL.Version != "" {
		d.plugin(&f)
	}
	return f
}

// program is for a command without Python: its own file lists what it needs.
func (d detector) program(f *Facts, program string) {
	program, _ = d.real(program) // the kernel passes this name to a program
	o, ok := d.object(program)
	if !ok {
		return
	}
	if soname := o.needsNCCL(); soname != "" {
		f.NCCL = d.nccl(d.loader.find(soname, o))
	}
	d.transports(f, o)
}

// transports returns the libraries that a program or a plugin moves data with.
func (d detector) transports(f *Facts, o object) {
	load := func(item *Item, soname string) {
		if p := d.loader.find(soname, o); p != "" && slices.Contains(o.needed, soname) {
			*item = Item{Version: d.identity(p), Path: p}
		}
	}
	load(&f.UCX, "libucp.so.0")
	load(&f.Libfabric, "libfabric.so.1")
}

// env returns a variable as the program will see it.
func (d detector) env(name string) string {
	for i := len(d.cmd.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(d.cmd.Env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
