// Package netns is a laboratory of several hosts on one machine. Each host is a network namespace
// on one Ethernet switch, with its own address, /etc/hosts, /dev/shm, temporary directory and boot
// id. All share the kernel host name, as machines cloned from one image may, and the clock and the
// files. It needs root and iproute2; a test without them is skipped with the reason.
package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// prefix begins every namespace's name; the test's pid, a number within it, and the host follow.
const prefix = "launchlab"

// grace is how long processes may outlive the commands of the test before the cleanup reports them.
// The companion must end one second after its command; the rest is for a busy machine.
const grace = 5 * time.Second

// labs numbers the labs of this process. Parallel ones may have the same addresses.
var labs atomic.Int32

// Lab is n hosts on one switch.
type Lab struct {
	Hosts []*Host

	t    testing.TB
	name string   // prefix-PID-NUMBER
	sw   string   // the namespace that holds the bridge
	dir  string   // files of all hosts
	left []string // patterns of names of files that may remain
	ends []func() // called after all processes have ended
}

// MayLeave permits files in a host's TMPDIR or /dev/shm, by patterns of path/filepath.
func (l *Lab) MayLeave(patterns ...string) { l.left = append(l.left, patterns...) }

// New builds a lab of n hosts, host0 to host<n-1> with the addresses 10.77.0.1 to 10.77.0.<n>, and
// takes it down when the test ends. The test fails if a process or a file of a host is left by then.
func New(t testing.TB, n int) *Lab {
	t.Helper()
	require(t)
	sweep()
	name := fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), labs.Add(1))
	l := &Lab{t: t, name: name, sw: name + "-sw", dir: t.TempDir()}
	t.Cleanup(l.takeDown)

	l.must("netns", "add", l.sw)
	l.must("-n", l.sw, "link", "add", "br0", "type", "bridge")
	l.must("-n", l.sw, "link", "set", "br0", "up")
	for i := range n {
		h := &Host{Name: "host" + strconv.Itoa(i), Addr: "10.77.0." + strconv.Itoa(i+1), lab: l, port: "p" + strconv.Itoa(i)}
		h.ns = name + "-" + h.Name
		h.dir = filepath.Join(l.dir, h.Name)
		l.Hosts = append(l.Hosts, h)
	}
	for _, h := range l.Hosts {
		h.setUp(l.hostsFile())
	}
	return l
}

// require skips the test where namespaces cannot be made.
func require(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the ip command (package iproute2)")
	}
	// A container may be root without the right to make a namespace.
	probe := fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), labs.Add(1))
	if out, err := exec.Command("ip", "netns", "add", probe).CombinedOutput(); err != nil {
		t.Skipf("this machine allows no network namespace: %s", strings.TrimSpace(string(out)))
	}
	_ = exec.Command("ip", "netns", "del", probe).Run()
}

// hostsFile returns /etc/hosts of every host. The shared kernel host name resolves to 127.0.1.1, as
// Debian's installer writes it, so no host finds its own address by its own name.
func (l *Lab) hostsFile() string {
	var b strings.Builder
	kernel, _ := os.Hostname()
	fmt.Fprintf(&b, "127.0.0.1 localhost\n127.0.1.1 %s\n", kernel)
	for _, h := range l.Hosts {
		fmt.Fprintf(&b, "%s %s\n", h.Addr, h.Name)
	}
	return b.String()
}

func (l *Lab) must(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// takeDown ends the lab and reports leftover processes, files and namespaces.
func (l *Lab) takeDown() {
	for _, h := range l.Hosts {
		for _, p := range h.waitGone(grace) {
			l.t.Errorf("%s: leftover process: %s", h.Name, p)
		}
		_ = h.Signal(syscall.SIGKILL)
		h.waitGone(grace)
		for _, f := range h.files() {
			l.t.Errorf("%s: leftover file: %s", h.Name, f)
		}
	}
	for _, end := range l.ends {
		end()
	}
	for _, h := range l.Hosts {
		remove(h.ns)
	}
	remove(l.sw)
	if left, _ := filepath.Glob("/var/run/netns/" + l.name + "-*"); len(left) > 0 {
		l.t.Errorf("leftover namespaces: %q", left)
	}
}

// remove deletes a namespace and its files under /etc/netns.
func remove(ns string) {
	_ = exec.Command("ip", "netns", "del", ns).Run()
	_ = os.RemoveAll(filepath.Join("/etc/netns", ns))
}

// sweep removes the labs of test processes that were killed.
func sweep() {
	names, _ := filepath.Glob("/var/run/netns/" + prefix + "-*")
	for _, path := range names {
		ns := filepath.Base(path)
		pid, _, _ := strings.Cut(strings.TrimPrefix(ns, prefix+"-"), "-")
		if _, err := os.Stat("/proc/" + pid); err == nil {
			continue
		}
		for _, p := range pids(ns) {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		remove(ns)
	}
}
