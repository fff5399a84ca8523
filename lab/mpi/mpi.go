package mpi

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// MPI is one implementation of MPI.
type MPI struct {
	Name   string // Open MPI 4.1
	Run    string // the program that starts a job: mpirun
	Daemon string // what it starts on each host, through ssh: orted
	Prefix string // where the hosts have it; "" for Debian's, which is in /usr

	dir string // where this machine has it
	lib string // its libmpi
}

// The implementations that the laboratory knows. tools/apt.sh and tools/libs.sh fetch them.
var known = []MPI{
	{Name: "Open MPI 4.1", Run: "mpirun", Daemon: "orted", lib: "/usr/lib/*/libmpi.so.40"},
	{Name: "Open MPI 4.1.8", Run: "mpirun", Daemon: "orted", Prefix: "/opt/openmpi-4.1.8", dir: "openmpi-4.1.8"},
	{Name: "Open MPI 5.0", Run: "mpirun", Daemon: "prted", Prefix: "/opt/openmpi-5", dir: "openmpi-5*"},
	{Name: "MPICH 5.0", Run: "mpiexec", Daemon: "hydra_pmi_proxy", Prefix: "/opt/mpich-5", dir: "mpich-5*"},
	{Name: "Intel MPI", Run: "mpirun", Daemon: "hydra_bstrap_proxy", Prefix: "/opt/intel", dir: "impi-rt-2021*"},
}

// Each are the implementations that each fault meets.
var Each = []string{"Open MPI 4.1", "Open MPI 5.0", "MPICH 5.0", "Intel MPI"}

// Find returns an implementation by its name, else it skips the test.
func Find(t testing.TB, name string) MPI {
	t.Helper()
	for _, m := range known {
		if m.Name == name {
			if err := m.find(); err != "" {
				t.Skip(err)
			}
			return m
		}
	}
	t.Fatalf("no MPI of the name %q", name)
	return MPI{}
}

func (m *MPI) find() (missing string) {
	if m.Prefix == "" {
		out, _ := exec.Command("/usr/bin/mpirun", "--version").Output()
		if !strings.Contains(string(out), "(Open MPI) 4.1") {
			return "needs Open MPI 4.1, of the Debian package openmpi-bin"
		}
		return m.library(m.lib)
	}
	dirs, _ := filepath.Glob(filepath.Join(repository(), "bin", "libs", m.dir, "*", "data"))
	if len(dirs) == 0 {
		return "needs bin/libs/" + m.dir + ": tools/libs.sh"
	}
	m.dir = dirs[0]
	return m.library(filepath.Join(m.dir, "lib", "libmpi.so.*"))
}

func (m *MPI) library(pattern string) (missing string) {
	libs, _ := filepath.Glob(pattern)
	if len(libs) == 0 {
		return "needs " + pattern + ": remove its directory, and run tools/libs.sh"
	}
	m.lib = libs[0]
	return ""
}

// mpich reports whether it is MPICH, or Intel's, which is made of it: its handles are numbers.
func (m *MPI) mpich() bool { return strings.HasPrefix(m.Daemon, "hydra_") }

// intel reports whether it is Intel's. Its wheel has no libfabric, so that it uses Debian's.
func (m *MPI) intel() bool { return m.Daemon == "hydra_bstrap_proxy" }

// Env is what a login sets for this MPI.
func (m *MPI) Env() []string {
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	path := "/usr/local/bin:/usr/bin:/bin"
	if m.Prefix != "" {
		path = m.Prefix + "/bin:" + path
		env = append(env, "LD_LIBRARY_PATH="+m.Prefix+"/lib")
	}
	if m.intel() {
		env = append(env, "I_MPI_ROOT="+m.Prefix, "FI_PROVIDER=tcp")
	}
	return append(env, "PATH="+path)
}

//go:embed testdata/world.c
var world []byte

// Build compiles the job's program for this MPI, with further libraries. It prints one line for each world.
func (m *MPI) Build(t testing.TB, to string, libraries ...string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc for the job's program")
	}
	source := filepath.Join(t.TempDir(), "world.c")
	if err := os.WriteFile(source, world, 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-o", to, source, m.lib, "-Wl,--allow-shlib-undefined"}, libraries...)
	if m.Prefix != "" {
		args = append(args, "-Wl,-rpath,"+m.Prefix+"/lib") // as mpicc does
	}
	if m.mpich() {
		args = append(args, "-DMPICH")
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

// repository returns the root of the sources.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
