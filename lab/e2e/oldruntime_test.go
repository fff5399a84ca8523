package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"launch/lab/programs"
)

// A container runtime that forbids pidfd_open and all later calls, as Docker did until 2020, is where
// torch starts. launch starts there, too, and sees the commands end.
func TestUnderAnOldContainerRuntimeAJobStartsAndALossIsSeen(t *testing.T) {
	t.Parallel()
	start := func(c *cluster, i int, line []string, flags ...string) *node {
		t.Helper()
		argv := append(append([]string{tools.launch, "--store", c.store}, flags...), line...)
		argv, env, err := programs.OldRuntime(argv...)
		if err != nil {
			t.Fatal(err)
		}
		return c.startBare(i, argv, env)
	}
	t.Run("trains", func(t *testing.T) {
		t.Parallel()
		c := embedded(t, 2)
		trained(t, 2, start(c, 0, c.line), start(c, 1, c.line))
	})
	t.Run("loss", func(t *testing.T) {
		t.Parallel()
		c := embedded(t, 2)
		file := filepath.Join(t.TempDir(), "file")
		line := []string{"sh", "-c", "echo begun; while [ ! -e " + file + " ]; do sleep 0.1; done"}
		var nodes []*node
		for i := range 2 {
			nodes = append(nodes, start(c, i, line, "--nnodes", "2", "--fail-fast"))
		}
		for _, n := range nodes {
			n.prints("begun\n")
		}
		pause(t, time.Second)
		c.lab.Hosts[1].Cut()
		for _, n := range nodes {
			n.says("ending the command: --fail-fast")
			n.exits(143)
		}
	})
}
