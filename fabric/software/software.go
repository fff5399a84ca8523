// Package software finds out which versions of torch, NCCL, its network plugin and their dependencies
// the job's command would load. It reads the files that the shell, Python and the dynamic loader would
// read, in their order. It runs nothing, imports nothing (torch takes seconds) and judges nothing.
package software

import (
	"context"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// budget limits Detect: a shared file system that takes longer would delay the command too.
const budget = 2 * time.Second

// None is the version of a missing network plugin: a fact, since NCCL then uses its own networks.
const None = "none"

// Facts is the software that the command would load. An empty Version is unknown, or not loaded.
type Facts struct {
	Python    Item   `json:"python,omitzero"`    // "3.11.7", or "3.11" if no file has more; Path: the interpreter
	Torch     Item   `json:"torch,omitzero"`     // __version__ of torch/version.py, "2.9.0+cu128"
	CUDA      string `json:"cuda,omitempty"`     // the runtime that torch was built with, "12.8"
	HIP       string `json:"hip,omitempty"`      // the same of a torch for AMD's GPUs
	NCCL      Item   `json:"nccl,omitzero"`      // "2.27.5", also for RCCL. From the library, else from its package
	Plugin    Item   `json:"plugin,omitzero"`    // NCCL's, or None: "aws-ofi-nccl 1.16.0", "libnccl-net.so 1f2e3d4c"
	UCX       Item   `json:"ucx,omitzero"`       // if the program or the plugin needs it: "libucp.so.0.0.0 1f2e3d4c"
	Libfabric Item   `json:"libfabric,omitzero"` // libfabric, likewise
	// NCCLCUDA is the CUDA that NCCL was built for, "12.9".
	NCCLCUDA string `json:"nccl_cuda,omitempty"`
	// PluginNet are the versions of NCCL's network interface that the plugin has, and PluginLacks the symbol versions of
	// libfabric that it needs and that Libfabric does not have.
	PluginNet   []int    `json:"plugin_net,omitempty"`
	PluginLacks []string `json:"plugin_lacks,omitempty"`
	Err         string   `json:"err,omitempty"` // why all of this is unknown
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

// Detect reads what the command would load, from a root directory, within 2 s.
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
		f.NCCLCUDA = d.constant(f.NCCL.Path, "CCL version ", ncclCUDA)
		d.plugin(&f)
	}
	return f
}

// program is for a command without Python: its own file lists what it needs.
func (d detector) program(f *Facts, program string) {
	program, _, _ = d.resolve(program) // the kernel passes this name to a program
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

var (
	// Every libnccl contains its own "NCCL version 2.27.5+cuda12.9"; RCCL's has +hip.
	ncclVersion = regexp.MustCompile(`^CCL version (\d+\.\d+\.\d+)[^+\x00 ]*\+(?:cuda|hip)`)
	ncclCUDA    = regexp.MustCompile(`^CCL version \d+\.\d+\.\d+[^+\x00 ]*\+cuda(\d+\.\d+)`)
	// aws-ofi-nccl logs this constant when it starts.
	ofiVersion = regexp.MustCompile(`^aws-ofi-nccl (\d+\.[0-9A-Za-z.+-]*)`)
	// ncclFile matches a library with its version in its name.
	ncclFile = regexp.MustCompile(`\.so\.(\d+\.\d+\.\d+)$`)
	// ncclPackage is the wheel that torch's wheels depend on.
	ncclPackage = regexp.MustCompile(`^nvidia_nccl_cu\d+-(\d+\.\d+\.\d+)[^-]*\.dist-info$`)
)

// nccl returns the version of an NCCL library.
func (d detector) nccl(file string) Item {
	if file == "" {
		return Item{}
	}
	v := d.constant(file, "CCL version ", ncclVersion)
	if m := ncclFile.FindStringSubmatch(file); v == "" && m != nil {
		v = m[1]
	}
	return Item{Version: v, Path: file}
}

// torchNCCL returns the NCCL that a torch is linked with, that is built into it, or is next to it.
func (d detector) torchNCCL(lib, site string) Item {
	for _, name := range []string{"libtorch_cuda.so", "libtorch_hip.so"} {
		file := path.Join(lib, name)
		o, ok := d.object(file)
		if !ok {
			continue
		}
		item := Item{Path: file}
		if soname := o.needsNCCL(); soname != "" {
			item = d.nccl(d.loader.find(soname, o))
		} else {
			item.Version = d.constant(file, "CCL version ", ncclVersion)
		}
		if item.Version != "" {
			return item
		}
	}
	for _, name := range d.names(site) {
		if m := ncclPackage.FindStringSubmatch(name); m != nil {
			return Item{Version: m[1], Path: path.Join(site, name)}
		}
	}
	return Item{}
}

// plugin returns the network plugin that NCCL would load (src/plugin/net.cc, plugin_open.cc): that of
// NCCL_NET_PLUGIN, else libnccl-net.so; none if NCCL_NET names one of NCCL's own networks.
func (d detector) plugin(f *Facts) {
	f.Plugin.Version = None
	if own := strings.ToLower(d.env("NCCL_NET")); own == "ib" || own == "socket" {
		return
	}
	names := []string{"libnccl-net.so"}
	if list := d.env("NCCL_NET_PLUGIN"); list != "" {
		names = nil
		for n := range strings.SplitSeq(list, ",") {
			names = append(names, n, "libnccl-net-"+n+".so")
		}
	}
	asks, _ := d.object(f.NCCL.Path)
	for _, n := range names {
		if strings.EqualFold(n, None) {
			return
		}
		file := d.loader.find(n, asks)
		if file == "" {
			continue
		}
		f.Plugin = Item{Version: d.identity(file), Path: file}
		if v := d.constant(file, "aws-ofi-nccl ", ofiVersion); v != "" {
			f.Plugin.Version = "aws-ofi-nccl " + v
		}
		if o, ok := d.object(file); ok {
			d.transports(f, o)
		}
		f.PluginNet = d.netVersions(file)
		if f.Libfabric.Path != "" {
			f.PluginLacks = d.lacks(file, "libfabric.so.1", f.Libfabric.Path)
		}
		return
	}
}
