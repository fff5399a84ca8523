package libs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// patience is the time limit of every wait; it is long, because two cores are shared.
const patience = 2 * time.Minute

// site is hosts of a laboratory with their own names, as real hosts have. Each has a
// docker0 in the same subnet, which is up and leads to no other host.
type site struct {
	t      *testing.T
	lab    *netns.Lab
	launch string
	dir    string
}

// decoys begin the addresses of docker0.
const decoys = "172.17.0."

// newSite returns n hosts. If astray is set, a host's own name resolves to the
// address of its docker0, which a program that looks it up then uses.
func newSite(t *testing.T, n int, astray bool) *site {
	t.Helper()
	s := &site{t: t, launch: os.Getenv("LAUNCH_TEST_BIN"), dir: t.TempDir()}
	if s.launch == "" {
		t.Skip("needs launch: LAUNCH_TEST_BIN names it")
	}
	s.lab = netns.New(t, n)
	s.lab.MayLeave("ompi.*", "prte*", "pmix*", "torch*") // of programs that are killed
	for i, h := range s.lab.Hosts {
		addr := decoys + fmt.Sprint(i+1)
		hosts := "127.0.0.1 localhost\n"
		if astray {
			hosts += addr + " " + h.Name + "\n"
		}
		for _, other := range s.lab.Hosts {
			hosts += other.Addr + " " + other.Name + "\n"
		}
		s.write(h.Name+".hosts", hosts)
		s.write(h.Name+".boot", fmt.Sprintf("%08d-0000-4000-8000-000000000000\n", i+1)) // UCX reads it as a UUID
		h.Decoy("docker0", addr+"/16")
		// A container's cable makes it a running bridge.
		s.must(h, "sh", "-c", `ip link add vd0 type veth peer name vd1 && ip link set vd1 up &&
			ip link set vd0 master docker0 up &&
			until ip link show docker0 | grep -q LOWER_UP; do sleep 0.05; done`)
	}
	return s
}

func (s *site) write(name, text string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
	return file
}

func (s *site) must(h *netns.Host, argv ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if out, err := h.Command(ctx, argv...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %s: %v\n%s", h.Name, strings.Join(argv, " "), err, out)
	}
}

// command returns a command on a host, under its name.
func (s *site) command(ctx context.Context, h *netns.Host, argv ...string) *exec.Cmd {
	const inside = `printf %s "$0" >/proc/sys/kernel/hostname && mount --bind "$1" /etc/hosts &&
		mount --bind "$2" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"`
	file := filepath.Join(s.dir, h.Name)
	own := []string{"unshare", "--uts", "sh", "-c", inside, h.Name, file + ".hosts", file + ".boot"}
	return h.Command(ctx, append(own, argv...)...)
}

// run is one command, running or ended.
type run struct {
	host string
	cmd  *exec.Cmd
	said *netns.Output // stdout and stderr
	done chan struct{}
}

// start starts a command on host i. It ends with the test at the latest.
func (s *site) start(i int, env []string, argv ...string) *run {
	s.t.Helper()
	h := s.lab.Hosts[i]
	r := &run{host: h.Name, cmd: s.command(s.t.Context(), h, argv...), said: &netns.Output{}, done: make(chan struct{})}
	r.cmd.Env = slices.Concat(r.cmd.Env, env)
	r.cmd.Stdout, r.cmd.Stderr = r.said, r.said
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		if err := r.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			fmt.Fprintln(r.said, "wait:", err)
		}
		close(r.done)
	}()
	s.t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		<-r.done
		if s.t.Failed() {
			s.t.Logf("%s: %s\n%s", r.host, strings.Join(argv, " "), r.said)
		}
	})
	return r
}

// ends waits until a command ends and returns its exit status.
func (s *site) ends(r *run) int {
	s.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		s.t.Fatalf("%s has not ended within %s", r.host, patience)
	}
	return r.cmd.ProcessState.ExitCode()
}

// until waits until a condition holds.
func (s *site) until(what string, so func() bool) {
	s.t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// stop kills all processes of the hosts: a program at a wrong address may hang.
func (s *site) stop() {
	s.t.Helper()
	for _, h := range s.lab.Hosts {
		if err := h.Signal(syscall.SIGKILL); err != nil {
			s.t.Error(err)
		}
	}
}
