package libs

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"launch/lab/programs"
)

// finder returns the builds of a library, the newest last. Without a build it skips
// the test, with the reason.
type finder func(*testing.T) []build

func finders() map[string]finder {
	return map[string]finder{
		"NCCL":       nccl,
		"Gloo":       fromFiles("", torchFiles),
		"TensorPipe": fromFiles("", torchFiles),
		"torch":      torch,
		"NVSHMEM":    fromFiles("NVSHMEM_", nvshmemFiles),
		"NIXL":       nixl,
		"UCX":        ucx,
		"libfabric":  libfabric,
		"Open MPI":   openMPI,
		"MPICH":      fromFiles("", kept("mpich-*/*/data/bin/mpiexec.hydra")),
		"Intel MPI":  fromFiles("", kept("impi-rt-*/*/data/bin/mpiexec.hydra", "impi-rt-*/*/data/lib/libmpi.so.12")),
		"JAX":        jax,
		"rdma-core":  fromFiles("", debian("libibverbs.so.1", "libibverbs1")),
		"no library": allLibraries,
	}
}

func repo(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// kept returns the files of that pattern below bin/libs.
func kept(patterns ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		var all []string
		for _, p := range patterns {
			files, err := filepath.Glob(filepath.Join(repo(t), "bin", "libs", p))
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 {
				t.Skipf("bin/libs has no %s (tools/libs.sh)", p)
			}
			all = append(all, files...)
		}
		return all
	}
}

func debian(file, pkg string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		files, _ := filepath.Glob("/usr/lib/*/" + file)
		if len(files) == 0 {
			t.Skipf("no %s (package %s)", file, pkg)
		}
		return files
	}
}

// packageFiles returns the files of a package next to torch.
func packageFiles(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command(programs.CurrentTorch(t).Python, "-c",
		"import sysconfig; print(sysconfig.get_path('purelib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), pattern))
	return files
}

// torchFiles returns libtorch_cpu.so and libtorch_cuda.so.
func torchFiles(t *testing.T) []string {
	t.Helper()
	files := packageFiles(t, "torch/lib/libtorch_c*[au].so")
	if len(files) < 2 {
		t.Skip("needs a torch with CUDA, for its part that uses NCCL")
	}
	return files
}

func nvshmemFiles(t *testing.T) []string {
	t.Helper()
	files := packageFiles(t, "nvidia/nvshmem/lib/*.so.*")
	if len(files) == 0 {
		t.Skip("needs NVSHMEM, which a torch with CUDA brings")
	}
	return files
}

// fromFiles returns one build whose files contain the variables as whole strings,
// without the prefix that the library adds.
func fromFiles(prefix string, find func(*testing.T) []string) finder {
	return func(t *testing.T) []build {
		t.Helper()
		var b build
		for _, file := range find(t) {
			b.name += filepath.Base(file) + " "
			for _, word := range words(t, file) {
				b.reads = append(b.reads, prefix+word)
			}
		}
		return []build{b}
	}
}

func nccl(t *testing.T) []build {
	t.Helper()
	var out []build
	for _, file := range kept("nvidia-nccl-cu12-*/nvidia/nccl/lib/libnccl.so.2")(t) {
		rel, _ := filepath.Rel(filepath.Join(repo(t), "bin", "libs"), file)
		dir, _, _ := strings.Cut(rel, "/")
		version := strings.TrimPrefix(dir, "nvidia-nccl-cu12-")
		out = append(out, build{"NCCL " + version, version, words(t, file)})
	}
	return out // by version, as long as these have two digits each
}

// nixl has no whole strings: its compiler puts the first 16 bytes of a longer
// name into a constant, and the rest into the code.
func nixl(t *testing.T) []build {
	t.Helper()
	text := rodata(t, kept("nixl-cu12-*/.*/libnixl.so")(t)[0])
	b := build{name: "libnixl.so"}
	for _, name := range planned(t, "NIXL") {
		if bytes.Contains(text, []byte(name[:min(16, len(name))])) {
			b.reads = append(b.reads, name)
		}
	}
	return []build{b}
}

func jax(t *testing.T) []build {
	t.Helper()
	return []build{{name: "jax/_src/distributed.py", reads: literals(t, kept("jax-*/jax/_src/distributed.py")(t)[0])}}
}

// torch takes some names from torch's headers: its linker stores NCCL_BLOCKING_WAIT
// as the end of TORCH_NCCL_BLOCKING_WAIT.
func torch(t *testing.T) []build {
	t.Helper()
	out := fromFiles("", torchFiles)(t)
	for _, file := range packageFiles(t, "torch/include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp") {
		out[0].reads = append(out[0].reads, literals(t, file)...)
	}
	return out
}

var quoted = regexp.MustCompile(`['"]([A-Za-z_][A-Za-z0-9_]*)['"]`)

// literals returns the quoted texts of a source.
func literals(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range quoted.FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// allLibraries returns one build of all libraries whose variables are whole names.
func allLibraries(t *testing.T) []build {
	t.Helper()
	all := build{name: "NCCL, UCX, libfabric and Open MPI"}
	for _, find := range []finder{nccl, ucx, libfabric, openMPI} {
		for _, b := range find(t) {
			all.reads = append(all.reads, b.reads...)
		}
	}
	return []build{all}
}

func rodata(t *testing.T, file string) []byte {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := f.Section(".rodata")
	if section == nil {
		t.Fatalf("%s has no constants", file)
	}
	data, err := section.Data()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return data
}

var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{3,}$`)

// words returns the constants of a file that are one word each: a name within a
// message does not count.
func words(t *testing.T, file string) []string {
	t.Helper()
	var out []string
	for s := range bytes.SplitSeq(rodata(t, file), []byte{0}) {
		if word.Match(s) {
			out = append(out, string(s))
		}
	}
	return out
}
