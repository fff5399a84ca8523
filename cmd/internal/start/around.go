package start

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/peers"
)

// Limits of reading a program's files for their checksums: the size of one, and the wait for the file system.
const (
	scriptMost = 4 << 20
	scriptWait = time.Second
)

// soon returns the answer of a look at files, or a zero value where the file system does not answer.
func soon[T any](look func() T) (answer T) {
	got := make(chan T, 1)
	go func() { got <- look() }() // left running if the file system does not answer
	select {
	case answer = <-got:
	case <-time.After(scriptWait):
	}
	return answer
}

// scriptOf returns size and checksum of the script; "": there is no script, or it cannot be read.
func scriptOf(l launcher.Line) string {
	if l.Script <= 0 || l.Script >= len(l.Argv) {
		return ""
	}
	return soon(func() string { return sumOf(l.Argv[l.Script]) })
}

// sumOf returns size and checksum of a file; "": it cannot be read, or is too large.
func sumOf(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, scriptMost))
	if err != nil || n == scriptMost {
		return ""
	}
	return fmt.Sprintf("%d bytes, sha256 %x", n, h.Sum(nil)[:6])
}

// around returns what this node's command finds here.
func (s *Start) around() (a peers.Around) {
	p := s.Job.Program
	a.Modules = soon(func() map[string]string { return modules(p.Modules, s.Job.Line) })
	a.Packages = soon(func() map[string]string { return packages(software.Packages(s.here(), loaded(s.Job), p.Imports)) })
	a.Loads = soon(func() string { return loadable(os.LookupEnv) })
	if len(p.Reads) > 0 && !preflight.Moves(s.Job.Line) {
		if dir, err := os.Getwd(); err == nil {
			a.Dir, a.Reads = dir, soon(func() map[string]bool { return present(p.Reads) })
		}
	}
	a.Ranks = s.counted()
	return a
}

// modules returns the digests of the first modules of a program, by their names in the script's folder.
func modules(files []string, l launcher.Line) map[string]string {
	root := "."
	if l.Script > 0 && l.Script < len(l.Argv) {
		root = filepath.Dir(l.Argv[l.Script])
	}
	root, _ = filepath.Abs(root)
	out := map[string]string{}
	for _, file := range files[:min(len(files), peers.MostModules)] {
		name := file
		if in, ok := strings.CutPrefix(file, root+"/"); ok {
			name = in
		}
		if sum := sumOf(file); sum != "" {
			out[name] = sum
		}
	}
	return out
}

// packages returns the first packages to compare: not torch, which is compared with the libraries that it loads, and
// not those that only show or log what ranks do.
func packages(found map[string]string) map[string]string {
	apart := []string{"torch", "tqdm", "rich", "wandb", "mlflow", "tensorboard", "matplotlib", "seaborn", "psutil"}
	maps.DeleteFunc(found, func(key, _ string) bool {
		name, _, _ := strings.Cut(strings.TrimSuffix(key, ".py"), "/")
		return slices.Contains(apart, name)
	})
	for i, name := range slices.Sorted(maps.Keys(found)) {
		if i >= peers.MostModules {
			delete(found, name)
		}
	}
	return found
}

// present returns which paths there are.
func present(names []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		_, err := os.Stat(name)
		out[name] = err == nil
	}
	return out
}

// loadable returns the folders for temporary files and caches from which no library may be loaded.
func loadable(env func(string) (string, bool)) string {
	temp := "/tmp"
	var out []string
	for _, name := range []string{"TMPDIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"} {
		dir, _ := env(name)
		if dir == "" && name == "TMPDIR" {
			dir = temp
		}
		var fs unix.Statfs_t
		if dir == "" || unix.Statfs(dir, &fs) != nil {
			continue
		}
		if fs.Flags&unix.ST_NOEXEC != 0 {
			out = append(out, "noexec on "+dir+" ("+name+")")
		}
	}
	if len(out) == 0 {
		return peers.Executable
	}
	return strings.Join(out, ", ")
}

// counted returns what the script counts to start its ranks; "": it counts nothing, or that is unknown.
func (s *Start) counted() string {
	switch s.Job.Program.Counts {
	case job.CountsAffinity:
		var set unix.CPUSet
		if unix.SchedGetaffinity(0, &set) == nil {
			return finding.Count(set.Count(), "processor") + " in its affinity"
		}
	case job.CountsProcessors:
		if n := online(os.DirFS("/")); n > 0 {
			return finding.Count(n, "processor")
		}
	case job.CountsGPUs:
		if g := s.Node.GPUs; g.Err == "" && (g.Absent != "" || len(g.Devices) > 0) {
			seen := preflight.VisibleGPUs(preflight.Input{Job: s.Job, Node: s.Node, Env: os.LookupEnv})
			return finding.Count(len(seen.Devices), "GPU")
		}
	}
	return ""
}
