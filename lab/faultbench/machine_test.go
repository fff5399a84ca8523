package faultbench

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"launch/fabric/machine"
	"launch/fabric/machine/machinetest"
)

// The described machines that hosts imitate: eight H100 and eight ConnectX-7, on
// InfiniBand and on RoCE.
const (
	onIB   = "h100-ib-ndr-bond"
	onRoCE = "h100-roce-8"
)

// libraries are an NVML and a libibverbs that answer from a file; made once.
var libraries = sync.OnceValues(func() (dir string, err error) {
	header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		return "", fmt.Errorf("find nvml.h: %w", err)
	}
	dir = filepath.Join(filepath.Dir(tools.fake), "lib")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	versions := filepath.Join(dir, "versions")
	if err := os.WriteFile(versions,
		[]byte("IBVERBS_1.1 { global: ibv_*; local: *; };\nIBVERBS_1.11 { global: _ibv_*; } IBVERBS_1.1;\n"),
		0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-Wno-deprecated-declarations", "-I", strings.TrimSpace(string(header)),
			"-o", filepath.Join(dir, nvmlLib), "../../fabric/gpu/testdata/nvml.c"},
		{"-Wl,--version-script=" + versions, "-o", filepath.Join(dir, verbsLib), "testdata/verbs.c"},
	} {
		args = append([]string{"-shared", "-fPIC", "-O1"}, args...)
		if out, err := exec.Command(compiler(), args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build a library: %w\n%s", err, out)
		}
	}
	return dir, nil
})

func compiler() string { return cmp.Or(os.Getenv("CC"), "gcc") }

const (
	nvmlLib  = "libnvidia-ml.so.1"
	verbsLib = "libibverbs.so.1"
)

// equip makes every host look like a described machine to a reader of /sys,
// /proc/driver, NVML and libibverbs, with a command line of one process per GPU.
// Interfaces remain the lab's own. A host that has a machine already keeps it.
func (tr *trial) equip(name string) {
	tr.t.Helper()
	tr.each(func(h *host) { h.equip(tr, name) })
}

func (h *host) equip(tr *trial, name string) {
	tr.t.Helper()
	if _, err := exec.LookPath(compiler()); err != nil {
		tr.t.Skipf("needs a C compiler for an NVML: %v", err)
	}
	lib, err := libraries()
	if err != nil {
		tr.t.Fatal(err)
	}
	if h.has("node.txt") {
		return
	}
	text := string(machinetest.Text(tr.t, name))
	// Each machine has its own GPUs and addresses.
	i := slices.Index(tr.hosts, h)
	text = strings.ReplaceAll(text, "uuid=GPU-00000000-0000-4000-8000-0000000000",
		fmt.Sprintf("uuid=GPU-00000000-0000-4000-8000-00000000%02x", i))
	text = regexp.MustCompile(`(10\.224\.\d+)\.6\b`).ReplaceAllString(text, fmt.Sprintf("$1.%d", 6+2*i))
	// Its kernel module has the version that NVML reports.
	text = regexp.MustCompile(`(?m)^nvidia \S+`).ReplaceAllString(text, "nvidia 570.86.15")
	h.describe(tr, text)
	for _, l := range []string{nvmlLib, verbsLib} {
		if err := os.Symlink(filepath.Join(lib, l), h.file("lib", l)); err != nil {
			tr.t.Fatal(err)
		}
	}
	h.nvml(tr, h.gpus(tr)...)
	h.roceInterfaces(text)
	h.env = append(h.env, "LD_LIBRARY_PATH="+h.file("lib"))
	h.line = []string{"torchrun", "--nnodes", fmt.Sprint(len(tr.hosts)), "--nproc-per-node", "8", tools.script}
	h.Prepare = append(h.Prepare, `mount -t tmpfs none /run`, `mkdir /run/nvidia-persistenced`,
		`: >/run/nvidia-persistenced/socket`,
		`mount --bind "$0/proc/driver" /proc/driver`)
	h.showSys()
}

// showSys mounts the described /sys on the host.
func (h *host) showSys() {
	h.Prepare = append(h.Prepare,
		// The lab's interfaces appear in addition to the machine's, and all have the
		// index that rtnetlink reports.
		`for i in /sys/class/net/*/; do d="$0/sys/class/net/$(basename "$i")"; `+
			`if [ -e "$d" ]; then cat "$i/ifindex" >"$d/ifindex"; `+
			`else mkdir -p "$d" && mount --bind "$i" "$d"; fi || exit 1; done`,
		`mkdir -p "$0/sys/fs/cgroup"`, `mount --bind /sys/fs/cgroup "$0/sys/fs/cgroup"`,
		`mount --rbind "$0/sys" /sys`)
}

func (h *host) file(parts ...string) string {
	return filepath.Join(append([]string{h.Dir()}, parts...)...)
}

func (h *host) has(name string) bool {
	_, err := os.Stat(h.file(name))
	return err == nil
}

// write writes a file of this host, with the directories above it.
func (h *host) write(tr *trial, name, text string) {
	tr.t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(h.file(name)), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(h.file(name), []byte(text), mode); err != nil {
		tr.t.Fatal(err)
	}
}

func (h *host) read(tr *trial, name string) string {
	tr.t.Helper()
	text, err := os.ReadFile(h.file(name))
	if err != nil {
		tr.t.Fatal(err)
	}
	return string(text)
}

// describe writes the files of a machine, and the answers of its libibverbs.
func (h *host) describe(tr *trial, text string) {
	tr.t.Helper()
	m, err := machine.Read([]byte(text))
	if err != nil {
		tr.t.Fatal(err)
	}
	h.write(tr, "node.txt", text)
	for dir, from := range map[string]fs.FS{"sys": m.Roots().Sys, "proc/driver": sub(tr.t, m.Roots().Proc, "driver")} {
		_ = os.RemoveAll(h.file(dir))
		unpack(tr.t, from, h.file(dir))
	}
	// The library describes no port, so that the files count, but a port carries data
	// to itself.
	verbs := ""
	for _, m := range regexp.MustCompile(`(?m)^ *hca (\S+) .*(?:\n *port \d+ \S+ \S+ \S+ (InfiniBand)?)?`).
		FindAllStringSubmatch(text, -1) {
		verbs += fmt.Sprintf("%s query-device 95 link %d\n", m[1], map[bool]int{true: 1, false: 2}[m[2] != ""])
	}
	h.write(tr, "lib/verbs.txt", verbs)
}

// change replaces the matches of a regexp in the machine's description. A fault
// without a match fails the test.
func (h *host) change(tr *trial, pattern, by string) {
	tr.t.Helper()
	was := h.read(tr, "node.txt")
	is := regexp.MustCompile(pattern).ReplaceAllString(was, by)
	if is == was {
		tr.t.Fatalf("%q is not in the description of %s", pattern, h.Name)
	}
	h.describe(tr, is)
}

// nvml changes answers of NVML; see fabric/gpu/testdata/nvml.c.
func (h *host) nvml(tr *trial, lines ...string) {
	tr.t.Helper()
	rest, err := os.ReadFile(h.file("lib/machine.txt"))
	if err != nil {
		rest, err = os.ReadFile("../../fabric/gpu/testdata/h100x8.txt")
	}
	if err != nil {
		tr.t.Fatal(err)
	}
	h.write(tr, "lib/machine.txt", strings.Join(lines, "\n")+"\n"+string(rest))
}

// gpus returns the answers about the GPUs of the description, all of them idle.
func (h *host) gpus(tr *trial) []string {
	out := []string{"nvmlDeviceGetComputeRunningProcesses * ="}
	found := regexp.MustCompile(`(?m)^ *(\S+) 10de:\S+ .*\n *gpu .* uuid=(\S+)`).
		FindAllStringSubmatch(h.read(tr, "node.txt"), -1)
	for i, m := range found {
		out = append(out, fmt.Sprintf("nvmlDeviceGetPciInfo %d = 0000%s", i, strings.ToUpper(m[1])),
			fmt.Sprintf("nvmlDeviceGetUUID %d = %s", i, m[2]))
	}
	return out
}

// roceInterfaces makes the interfaces of the RoCE rails, to which GIDs refer.
func (h *host) roceInterfaces(text string) {
	for _, m := range regexp.MustCompile(`(?m)^ *net (gpu\d+rdma\d+) mtu=(\d+) \S+ addr=([^,\s]+)`).
		FindAllStringSubmatch(text, -1) {
		h.Routed(m[1], m[3], "10.224.0.0/16", m[2])
	}
}

func sub(t *testing.T, fsys fs.FS, dir string) fs.FS {
	t.Helper()
	s, err := fs.Sub(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unpack writes a tree below a directory, without files that cannot be read.
func unpack(t *testing.T, from fs.FS, to string) {
	t.Helper()
	err := fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		switch {
		case e.IsDir():
			return os.MkdirAll(path, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(from, name)
			if err != nil {
				return err
			}
			return os.Symlink(target, path)
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return nil
		}
		return os.WriteFile(path, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
