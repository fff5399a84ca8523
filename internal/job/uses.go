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

// cuda is what a wheel adds to a module's name for a version of CUDA: nixl_cu12.
var cuda = regexp.MustCompile(`_cu\d+$`)

// uses finds the libraries that the command names or its program imports. It runs and imports nothing.
func (r *resolver) uses() {
	known := libraries()
	found := map[string]bool{}
	add := func(name string) {
		if library := known[cuda.ReplaceAllString(name, "")]; library != "" {
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
	if argv = argv[min(program, len(argv)):]; len(argv) > 0 {
		r.read(argv)
	}
	for _, f := range r.files {
		for _, name := range imports(f.text) {
			top, _, _ := strings.Cut(name, ".")
			if library := known[top]; library == lightningUse && !f.script && !startsLightning.MatchString(f.text) {
				continue // a helper may import a part of it that starts no process
			}
			add(top)
		}
	}
	r.job.Uses = slices.Sorted(maps.Keys(found))
}

func isPython(word string) bool { return strings.HasSuffix(word, ".py") }

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
