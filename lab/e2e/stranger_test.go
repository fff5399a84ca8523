package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"launch/lab/programs"
)

// stranger builds the program that asks a store for all that it has, where any user can run it.
func stranger(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "stranger")
	if err := programs.Go(bin, "launch/lab/stranger"); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Somebody on another machine, and another user of the store's machine, ask the store for all that
// etcd's API has. They get nothing, and the job starts.
func TestAStrangerGetsNothingFromTheStore(t *testing.T) {
	t.Parallel()
	c := embedded(t, 4)
	c.flags = append(c.flags, "--nnodes", "3")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	nodes := []*node{c.start(0)}
	c.joined(nodes...)
	nodes = append(nodes, c.start(1))
	c.joined(nodes...)
	bin := stranger(t)
	for host, sees := range map[int]string{3: "the flood ends after", 0: "is not let in"} {
		s := c.startBare(host, append(otherUser(), bin, c.lab.Hosts[0].Addr+":29377", "store-29377"))
		if s.ends() != 0 || !strings.Contains(s.out.String(), sees) {
			t.Errorf("from %s: %s", s.name, s.out)
		}
		t.Logf("from %s: %s", s.name, s.out)
	}
	for _, line := range c.lab.Hosts[0].Processes() {
		if pid, args, _ := strings.Cut(line, " "); strings.HasPrefix(args, "launch") {
			if mb := resident(t, pid); mb > 400 {
				t.Errorf("%s has %d MB", args, mb)
			}
		}
	}
	nodes = append(nodes, c.start(2))
	trained(t, 1, nodes...)
}

// otherUser begins a line that runs as another user.
func otherUser() []string {
	return []string{"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"}
}

// Another user of the store's machine is first at the port: nobody joins it, root neither.
func TestAStoreOfAnotherUserIsNotJoined(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	c.flags = append(c.flags, "--nnodes", "2")
	first := c.startBare(0, slices.Concat(otherUser(),
		[]string{"env", "TMPDIR=/dev/shm", tools.launch, "--store", c.store}, c.flags, c.line))
	c.joined(first)
	n := c.start(0)
	n.exits(69)
	n.says("the store belongs to another user: user 65533")
	_ = first.cmd.Process.Signal(syscall.SIGINT)
	first.exits(130)
}

// resident returns the memory of a process, in MB.
func resident(t *testing.T, pid string) (mb int) {
	t.Helper()
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(fmt.Errorf("%s: %w", line, err))
			}
			return kb >> 10
		}
	}
	return 0
}
