package job

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"launch/internal/launcher"
)

// libraries returns, by the name in a command or an import, the libraries that no
// fact of a node reveals.
func libraries() map[string]string {
	return map[string]string{
		"jax": "jax", "flax": "jax", "tensorflow": "tensorflow", "horovod": "horovod", "horovodrun": "horovod",
		"nixl": "nixl", "nixlbench": "nixl", "ray": "ray",
		"lightning": lightningUse, "pytorch_lightning": lightningUse, "lightning_fabric": lightningUse,
		"nvshmem": "nvshmem", "deep_ep": "nvshmem", "ucp": "ucx", "ucxx": "ucx", "ucx_perftest": "ucx",
	}
}

// maxScript is large enough for the imports at the head of any script.
const maxScript = 256 << 10

// uses finds the libraries that the command names or its script imports. It runs and imports nothing.
func (r *resolver) uses() {
	known := libraries()
	found := map[string]bool{}
	add := func(name string) {
		if library := known[name]; library != "" {
			found[library] = true
		}
	}
	argv := r.line.Argv
	program := r.line.Program
	if r.line.Kind == launcher.Mpirun {
		program = r.line.Rest
	}
	if program < len(argv) {
		add(path.Base(argv[program]))
	}
	script := ""
	if s := r.line.Script; s > 0 && s < len(argv) {
		script = argv[s]
	} else if i := slices.IndexFunc(argv[min(program, len(argv)):], isPython); i >= 0 {
		script = argv[program+i]
	}
	if script != "" && r.in.Root != nil {
		for _, name := range imports(head(r.in.Root, r.absolute(script))) {
			add(name)
		}
	}
	r.job.Uses = slices.Sorted(maps.Keys(found))
}

func isPython(word string) bool { return strings.HasSuffix(word, ".py") }

// head returns the beginning of a regular file.
func head(root fs.FS, name string) string {
	name = strings.TrimPrefix(name, "/")
	info, err := fs.Stat(root, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 16*maxScript { // reading would drain a pipe
		return ""
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), maxScript)])
}

var importLine = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+(\w+)[\w.]*[ \t]+import\b)`)

// imports returns the top-level names that a Python text imports.
func imports(text string) []string {
	var out []string
	for _, m := range importLine.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			out = append(out, m[2])
		}
		for word := range strings.SplitSeq(m[1], ",") {
			word, _, _ = strings.Cut(strings.TrimSpace(word), " ")
			top, _, _ := strings.Cut(word, ".")
			if top != "" {
				out = append(out, top)
			}
		}
	}
	return out
}

// whichMPI returns the MPI of the line's mpirun, by the programs next to it, since
// all MPIs have an mpirun. "" is unknown.
func (r *resolver) whichMPI() string {
	if r.line.Kind != launcher.Mpirun {
		return ""
	}
	file := r.binary(r.line.Argv[r.line.At])
	sibling := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return path.Base(file) == n || r.exists(path.Join(path.Dir(file), n))
		})
	}
	switch base := path.Base(file); {
	case file == "":
		return ""
	case base == "orterun":
		return "openmpi4"
	case sibling("impi_info"):
		return "intel"
	case base == "prterun":
		return "openmpi5"
	case strings.Contains(base, "hydra"):
		return "mpich"
	case sibling("prterun"):
		return "openmpi5"
	case sibling("orterun"):
		return "openmpi4"
	case sibling("ompi_info"):
		return "openmpi"
	case sibling("mpiexec.hydra", "mpichversion"):
		return "mpich"
	}
	return ""
}

// binary returns the file of a program as execvp(3) finds it, links resolved; "" if not found.
func (r *resolver) binary(name string) string {
	places := []string{r.absolute(name)}
	if !strings.Contains(name, "/") {
		places = nil
		for dir := range strings.SplitSeq(r.env["PATH"], ":") {
			places = append(places, path.Join(r.absolute(dir), name))
		}
	}
	for _, p := range places {
		if r.exists(p) {
			return r.target(p)
		}
	}
	return ""
}

func (r *resolver) exists(file string) bool {
	if r.in.Root == nil {
		return false
	}
	info, err := fs.Stat(r.in.Root, strings.TrimPrefix(file, "/"))
	return err == nil && !info.IsDir()
}

// target follows a file's links, as many as the kernel does.
func (r *resolver) target(file string) string {
	for range 40 {
		to, err := fs.ReadLink(r.in.Root, strings.TrimPrefix(file, "/"))
		if err != nil {
			return file
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(file), to)
		}
		file = path.Clean(to)
	}
	return file
}
