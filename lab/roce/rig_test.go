package roce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/lab/programs"
)

// bootLimit is for both machines together, from the start of QEMU to the end of the
// last case. They are emulated, and other programs may use this machine's cores.
const bootLimit = 5 * time.Minute

// valgrindTimes is the number of tests under valgrind: a thousand take 40 s in an
// emulated machine.
func valgrindTimes() int {
	if programs.Full() {
		return 1000
	}
	return 150
}

// kernelDir is where tools/roce.sh unpacks a kernel with rdma_rxe.
const kernelDir = "../../bin/roce/kernel"

// modules are those that the machines need, and their dependencies.
var modules = []string{"virtio_pci", "virtio_net", "crc32_generic", "rdma_rxe", "ib_uverbs", "dummy"}

// rig boots both machines once and returns their reports.
var rig = sync.OnceValues(func() (map[string][]report, error) { return boot(listCases, bootLimit, server, client) })

// boot boots machines for one list: both, or the server that has both ends of its tests
// in it.
func boot(list string, limit time.Duration, machines ...string) (map[string][]report, error) {
	dir, err := os.MkdirTemp("", "launch-roce")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	image, err := pack(filepath.Join(dir, "initrd"), list)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cables, err := connect(len(machines))
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	said := map[string][]report{}
	errs := map[string]error{}
	var mu sync.Mutex
	for i, role := range machines {
		all.Go(func() {
			reports, err := machine(ctx, dir, image, role, list, cables[i])
			mu.Lock()
			defer mu.Unlock()
			said[role], errs[role] = reports, err
		})
	}
	all.Wait()
	for role, err := range errs {
		if err != nil {
			return said, fmt.Errorf("machine %s: %w", role, err)
		}
	}
	return said, nil
}

// connect returns the ends of the cables for each machine: the fabric's, and the one
// for coordination. A single machine has no cable.
func connect(machines int) ([][]*os.File, error) {
	ends := make([][]*os.File, machines)
	for range min(2, 2*(machines-1)) {
		cable, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		for i, fd := range cable {
			ends[i] = append(ends[i], os.NewFile(uintptr(fd), "cable"))
		}
	}
	return ends, nil
}

// machine runs one machine to its end.
func machine(ctx context.Context, dir, image, role, list string, cables []*os.File) ([]report, error) {
	console, out := filepath.Join(dir, role+".console"), filepath.Join(dir, role+".out")
	args := []string{"-m", "640", "-display", "none", "-no-reboot", "-nodefaults", "-monitor", "none",
		"-kernel", kernel(), "-initrd", image, "-append",
		fmt.Sprintf("console=ttyS0 quiet panic=1 launch.role=%s launch.list=%s launch.valgrind=%d", role, list,
			valgrindTimes()),
		"-serial", "file:" + console, "-serial", "file:" + out}
	// KVM only on request: inside a virtual machine, a guest may start with it and
	// never finish booting.
	if accel := os.Getenv("LAUNCH_ROCE_ACCEL"); accel != "" {
		args = append(args, "-accel", accel, "-cpu", "host")
	} else {
		args = append(args, "-accel", "tcg", "-cpu", "max")
	}
	if len(cables) == 0 {
		// Its clock counts instructions, so the host's load does not matter.
		args = append(args, "-icount", "shift=1", "-nic", "none")
	}
	last := map[string]string{server: "1", client: "2"}[role]
	for i := range cables {
		args = append(args, "-netdev", fmt.Sprintf("socket,id=n%d,fd=%d", i, 3+i), "-device",
			fmt.Sprintf("virtio-net-pci,netdev=n%d,mac=52:54:00:00:0%d:0%s", i, i, last))
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.ExtraFiles = cables
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &words, &words, 5*time.Second
	err := cmd.Run()
	for _, c := range cables {
		c.Close()
	}
	text, _ := os.ReadFile(out)
	log, _ := os.ReadFile(console)
	reports, ended := read(text)
	switch {
	case ctx.Err() != nil:
		return reports, fmt.Errorf("it did not end in time; its last complete case: %s; console:\n%s", lastOf(reports),
			tail(log))
	case err != nil:
		return reports, fmt.Errorf("qemu: %w: %s", err, words.String())
	case !ended:
		return reports, fmt.Errorf("it stopped after case %s; console:\n%s", lastOf(reports), tail(log))
	}
	return reports, nil
}

func kernel() string {
	found, _ := filepath.Glob(filepath.Join(kernelDir, "boot/vmlinuz-*"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// read reads an agent's reports, one a line, and "end" if it ended well.
func read(text []byte) (reports []report, ended bool) {
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\r", "")) {
		line = strings.TrimSpace(line)
		var r report
		if line == "end" {
			ended = true
		} else if err := json.Unmarshal([]byte(line), &r); err == nil {
			reports = append(reports, r)
		}
	}
	return reports, ended
}

func lastOf(reports []report) string {
	if len(reports) == 0 {
		return "(no case)"
	}
	return reports[len(reports)-1].Case
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1bc|\r`)

func tail(log []byte) string {
	lines := strings.Split(escapes.ReplaceAllString(string(log), ""), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// need skips where the rig cannot run.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range append([]string{"qemu-system-x86_64", "modprobe", "rdma", "busybox", "valgrind", "gcc"},
		programs...) {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: tools/roce.sh installs it", p)
		}
	}
	if kernel() == "" {
		t.Skip("needs a kernel with rdma_rxe below bin/roce: tools/roce.sh unpacks one")
	}
	if len(providers()) == 0 {
		t.Skip("needs libibverbs with its rxe provider: tools/roce.sh installs them")
	}
}

// both returns the reports of the two machines for a case.
func both(t *testing.T, name string) (s, c report) {
	t.Helper()
	need(t)
	said, err := rig()
	find := func(role string) report {
		for _, r := range said[role] {
			if r.Case == name {
				return r
			}
		}
		t.Fatalf("%s did not reach case %q: %v", role, name, err)
		return report{}
	}
	return find(server), find(client)
}

func copyFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
