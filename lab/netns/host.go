package netns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// poll is the interval between two looks at the process list while it is not empty.
const poll = 50 * time.Millisecond

// Host is one host of a lab.
type Host struct {
	Name string // host0; every host's /etc/hosts knows it
	Addr string // 10.77.0.1

	// Prepare are shell commands that run before each command of the host, as
	// root in its mount namespace: mount -t tmpfs -o size=64k tmpfs /dev/shm.
	Prepare []string

	lab  *Lab
	ns   string // the namespace
	port string // its interface on the switch
	dir  string // its files: shm, tmp, home, boot_id

	routes int // of Routed
}

func (h *Host) setUp(hosts string) {
	l := h.lab
	l.t.Helper()
	l.must("netns", "add", h.ns)
	l.must("-n", h.ns, "link", "set", "lo", "up")
	l.must("-n", h.ns, "link", "add", "eth0", "type", "veth", "peer", "name", h.port, "netns", l.sw)
	l.must("-n", l.sw, "link", "set", h.port, "master", "br0", "up")
	l.must("-n", h.ns, "addr", "add", h.Addr+"/24", "dev", "eth0")
	l.must("-n", h.ns, "link", "set", "eth0", "up")

	// ip netns exec mounts these files over /etc.
	etc := filepath.Join("/etc/netns", h.ns)
	// No name server: the resolver then asks this host's port 53, which refuses at once.
	for name, text := range map[string]string{"hosts": hosts, "resolv.conf": "# no name server\n"} {
		h.write(filepath.Join(etc, name), text)
	}
	h.write(filepath.Join(h.dir, "boot_id"), fmt.Sprintf("%s-%s\n", h.Name, l.name)) // machines differ at its beginning
	for _, d := range []string{"shm", "tmp", "home"} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o777); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (h *Host) write(path, text string) {
	h.lab.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.lab.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.lab.t.Fatal(err)
	}
}

// Command returns a command on this host. Its process id is the command's own, so
// that cmd.Process.Signal reaches it. The environment is a plain login's:
// PATH, HOME and TMPDIR, the last two private to the host; append to cmd.Env.
// /sys shows this host's interfaces, which hides /sys/fs/cgroup.
func (h *Host) Command(ctx context.Context, argv ...string) *exec.Cmd {
	mounts := []string{`mount --bind "$0/shm" /dev/shm`, `mount --bind "$0/boot_id" /proc/sys/kernel/random/boot_id`}
	inside := strings.Join(slices.Concat(mounts, h.Prepare, []string{`exec "$@"`}), " && ")
	args := append([]string{"netns", "exec", h.ns, "/bin/sh", "-c", inside, h.dir}, argv...)
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(h.dir, "home"),
		"TMPDIR=" + filepath.Join(h.dir, "tmp"),
		"LANG=C.UTF-8",
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd
}

// Run runs a command in the network of this host to its end. A failure fails the test.
func (h *Host) Run(stdin string, argv ...string) {
	h.lab.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", h.ns}, argv...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.lab.t.Fatalf("%s: %s: %v\n%s", h.Name, strings.Join(argv, " "), err, out)
	}
}

// Filter adds rules of nftables to one hook of the host: input or output. A second call replaces nothing.
func (h *Host) Filter(hook string, rules ...string) {
	h.lab.t.Helper()
	name := fmt.Sprintf("lab%d", labs.Add(1))
	h.Run("table inet "+name+" {\nchain c {\ntype filter hook "+hook+" priority 0\n"+strings.Join(rules, "\n")+
		"\n}\n}\n", "nft", "-f", "-")
}

// Named wraps a command so that the kernel's host name is the host's own.
func (h *Host) Named(argv ...string) []string {
	const set = `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`
	return append([]string{"unshare", "--uts", "/bin/sh", "-c", set, h.Name}, argv...)
}

// Etc writes a file into the host's /etc, such as hosts or resolv.conf.
func (h *Host) Etc(name, text string) {
	h.lab.t.Helper()
	h.write(filepath.Join("/etc/netns", h.ns, name), text)
}

// Dir returns a directory for files of the host, which is removed with the lab.
func (h *Host) Dir() string { return h.dir }

// Signal sends a signal to every process of the host. SIGKILL is like a reboot: one process after the other
// ends, and one may still tell others of another's end. A power cut is a Cut before.
func (h *Host) Signal(sig syscall.Signal) error {
	sent := map[int]bool{}
	for more := true; more; { // also processes that were forked meanwhile
		more = false
		for _, p := range pids(h.ns) {
			if sent[p] {
				continue
			}
			if err := syscall.Kill(p, sig); err != nil && err != syscall.ESRCH {
				return fmt.Errorf("signal process %d of %s: %w", p, h.Name, err)
			}
			sent[p], more = true, true
		}
	}
	return nil
}

// Port changes the switch's end of the host's cable: Port("mtu", "9000").
func (h *Host) Port(change ...string) {
	h.lab.t.Helper()
	h.lab.must(append([]string{"-n", h.lab.sw, "link", "set", h.port}, change...)...)
}

// Cut pulls the host's cable: its address and its programs remain, and nothing arrives.
func (h *Host) Cut() { h.lab.t.Helper(); h.Port("down") }

// Heal plugs the cable in again.
func (h *Host) Heal() { h.lab.t.Helper(); h.Port("up") }

// Mute drops all packets from this host to another, until Unmute: requests arrive, answers do not.
func (h *Host) Mute(to *Host) { h.lab.t.Helper(); h.silence("add", to) }

// Unmute ends a Mute.
func (h *Host) Unmute(to *Host) { h.lab.t.Helper(); h.silence("del", to) }

func (h *Host) silence(verb string, to *Host) {
	h.lab.t.Helper()
	h.lab.must("-n", h.ns, "route", verb, "blackhole", to.Addr+"/32")
}

// Decoy adds a bridge that leads nowhere, as container engines do: Decoy("docker0", "172.17.0.1/16").
func (h *Host) Decoy(name, cidr string) {
	h.lab.t.Helper()
	h.lab.must("-n", h.ns, "link", "add", name, "type", "bridge")
	h.lab.must("-n", h.ns, "addr", "add", cidr, "dev", name)
	h.lab.must("-n", h.ns, "link", "set", name, "up")
}

// Processes returns the processes of the host, each as "PID command line".
func (h *Host) Processes() []string {
	var out []string
	for _, p := range pids(h.ns) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if err != nil || len(line) == 0 {
			continue // ended since, or a zombie of another parent
		}
		out = append(out, fmt.Sprintf("%d %s", p, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")))
	}
	return out
}

// waitGone waits until the host has no process, and returns the remaining ones.
func (h *Host) waitGone(limit time.Duration) []string {
	deadline := time.After(limit)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		left := h.Processes()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return left
		case <-tick.C:
		}
	}
}

// files returns the files in the host's /dev/shm and temporary directory.
func (h *Host) files() []string {
	var out []string
	for _, d := range []string{"shm", "tmp"} {
		inside, _ := os.ReadDir(filepath.Join(h.dir, d))
		for _, f := range inside {
			excused := slices.ContainsFunc(h.lab.left, func(pattern string) bool {
				ok, _ := filepath.Match(pattern, f.Name())
				return ok
			})
			if !excused {
				out = append(out, filepath.Join(d, f.Name()))
			}
		}
	}
	return out
}

// pids returns the processes in a namespace.
func pids(ns string) []int {
	out, _ := exec.Command("ip", "netns", "pids", ns).Output()
	var list []int
	for _, f := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(f); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// TempDir returns the host's TMPDIR.
func (h *Host) TempDir() string { return filepath.Join(h.dir, "tmp") }
