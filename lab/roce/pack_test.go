package roce

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"launch/lab/programs"
)

// initScript sets up a machine: eth0 with rxe0 is the fabric, and the agents coordinate
// over eth1.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/tmp GORACE=atexit_sleep_ms=0
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for m in $(cat /modules/order); do insmod /modules/$m; done
for word in $(cat /proc/cmdline); do case $word in launch.*) export ${word#launch.};; esac; done
case $role in server) n=1;; *) n=2;; esac
ip link set lo up
test $list != bench || { ip link add eth0 type dummy; ip link add eth1 type dummy; }
ip link set eth0 mtu 1500 up; ip addr add 10.9.0.$n/24 dev eth0
ip link set eth1 up; ip addr add 10.10.0.$n/24 dev eth1
rdma link add rxe0 type rxe netdev eth0
mknod /dev/null c 1 3 2>/dev/null
LAUNCH_ROCE_AGENT=$role LAUNCH_ROCE_LIST=$list /usr/bin/agent >/dev/ttyS1 2>/dev/console && echo end >/dev/ttyS1
sync
poweroff -f
`

// tools are the programs of this machine that the machines get, with their libraries.
// perftest's are optional.
var tools = []string{"rdma", "ip", "ib_write_bw", "ib_write_lat"}

// pack writes the machines' disk: an initramfs with what a list needs.
func pack(name, list string) (string, error) {
	files, err := contents(filepath.Dir(name), list)
	if err != nil {
		return "", err
	}
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := archive(w, files); err != nil {
		return "", err
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	return name, f.Close()
}

// contents maps the names in the machines to files of this one, and builds missing ones
// in dir.
func contents(dir, list string) (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	launch, err := programs.Launch(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"usr/bin/agent": self, "usr/bin/launch": launch}
	if list == listCases {
		if err := watched(dir, files); err != nil {
			return nil, err
		}
		if files["usr/lib/libcuda.so.1"], err = standInCUDA(dir); err != nil {
			return nil, err
		}
	}
	for _, name := range tools {
		if path, err := exec.LookPath(name); err == nil {
			files["usr/bin/"+name] = path
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	files["bin/busybox"] = busybox
	for _, p := range providers() {
		files[strings.TrimPrefix(p, "/")] = p
	}
	files["etc/libibverbs.d/rxe.driver"] = "/etc/libibverbs.d/rxe.driver"
	lib, err := library("libibverbs.so.1")
	if err != nil {
		return nil, err
	}
	files[strings.TrimPrefix(lib, "/")] = lib
	for _, f := range slices.Collect(maps.Values(files)) {
		for _, l := range needed(f) {
			files[strings.TrimPrefix(l, "/")] = l
		}
	}
	return files, nil
}

// watched adds the memory checks: the agent under the race detector, the cycles of
// fabric/verbs with and without the sanitizers, and valgrind.
func watched(dir string, files map[string]string) error {
	const verbs = "../../fabric/verbs/"
	sources, err := filepath.Glob(verbs + "*.c")
	if err != nil {
		return err
	}
	gcc := func(args ...string) []string {
		return slices.Concat([]string{"gcc", "-g", "-O1"}, args, sources, []string{verbs + "testdata/cycle.c", "-ldl"})
	}
	for name, line := range map[string][]string{
		"agent": {"go", "test", "-race", "-c", "-o", filepath.Join(dir, "agent"), "launch/lab/roce"},
		"cycle": gcc("-o", filepath.Join(dir, "cycle")),
		"cycle-sanitized": gcc("-o", filepath.Join(dir, "cycle-sanitized"), "-fsanitize=address,undefined",
			"-fno-sanitize-recover=undefined"),
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		files["usr/bin/"+name] = filepath.Join(dir, name)
	}
	files["usr/bin/valgrind"], err = exec.LookPath("valgrind.bin") // the other one is a script
	if err != nil {
		return err
	}
	symbols, err := loaderSymbols()
	if err != nil {
		return err
	}
	const tool = "/usr/libexec/valgrind/"
	for _, f := range []string{symbols, tool + "memcheck-amd64-linux", tool + "vgpreload_core-amd64-linux.so",
		tool + "vgpreload_memcheck-amd64-linux.so", tool + "default.supp"} {
		files[f[1:]] = f
	}
	return nil
}

// loaderSymbols returns the file with the symbols of the loader, which valgrind needs.
func loaderSymbols() (string, error) {
	const loader, head = "/lib64/ld-linux-x86-64.so.2", 16 // of a note with the name GNU
	f, err := elf.Open(loader)
	if err != nil {
		return "", err
	}
	defer f.Close()
	section := f.Section(".note.gnu.build-id")
	if section == nil {
		return "", fmt.Errorf("%s has no build ID", loader)
	}
	note, err := section.Data()
	if err != nil || len(note) <= head {
		return "", fmt.Errorf("read the build ID of %s: %d bytes: %w", loader, len(note), err)
	}
	id := hex.EncodeToString(note[head:])
	return filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug"), nil
}

// providers returns the parts of libibverbs for rxe; their names end with the ABI of
// their library.
func providers() []string {
	found, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-rdmav*.so")
	return found
}

// library returns the file that the loader finds for a library.
func library(name string) (string, error) {
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		return "", fmt.Errorf("list libraries: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if at, path, ok := strings.Cut(line, " => "); ok && strings.HasPrefix(strings.TrimSpace(at), name+" ") {
			return strings.TrimSpace(path), nil
		}
	}
	return "", fmt.Errorf("no %s is installed", name)
}

// needed returns the libraries that a file loads, including the loader.
func needed(file string) []string {
	out, _ := exec.Command("ldd", file).Output() // a static program is an error
	var libs []string
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				libs = append(libs, word)
			}
		}
	}
	return libs
}

// archive writes an initramfs (cpio, "newc": kernel Documentation/driver-api/
// early-userspace/buffer-format.rst): directories, files, modules and init.
func archive(w io.Writer, files map[string]string) error {
	dirs := map[string]bool{"proc": true, "sys": true, "dev": true, "tmp": true, "modules": true}
	for name := range files {
		for d := filepath.Dir(name); d != "."; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(dirs)) {
		if err := entry(w, d, 0o040755, nil); err != nil {
			return err
		}
	}
	order, err := moduleFiles()
	if err != nil {
		return err
	}
	var names bytes.Buffer
	for _, m := range order {
		fmt.Fprintln(&names, filepath.Base(m))
		files["modules/"+filepath.Base(m)] = m
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var data bytes.Buffer
		if err := copyFile(&data, files[name]); err != nil {
			return err
		}
		if err := entry(w, name, 0o100755, data.Bytes()); err != nil {
			return err
		}
	}
	if err := entry(w, "modules/order", 0o100644, names.Bytes()); err != nil {
		return err
	}
	if err := entry(w, "init", 0o100755, []byte(initScript)); err != nil {
		return err
	}
	return entry(w, "TRAILER!!!", 0, nil)
}

func entry(w io.Writer, name string, mode int, data []byte) error {
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	pad := func(n int) string { return strings.Repeat("\x00", -n&3) }
	_, err := io.WriteString(w, head+pad(len(head))+string(data)+pad(len(data)))
	return err
}

// moduleFiles returns the kernel's modules, in loading order.
func moduleFiles() ([]string, error) {
	releases, err := os.ReadDir(filepath.Join(kernelDir, "lib/modules"))
	if err != nil || len(releases) != 1 {
		return nil, fmt.Errorf("find the one kernel below %s: %d there: %w", kernelDir, len(releases), err)
	}
	var order []string
	for _, m := range modules {
		out, err := exec.Command("modprobe", "-d", kernelDir, "-S", releases[0].Name(), "--show-depends", m).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("find module %s: %w: %s", m, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "insmod" && !slices.Contains(order, f[1]) {
				order = append(order, f[1])
			}
		}
	}
	return order, nil
}
