package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestNIXLBenchRunsTwiceInOneGroup: on its own, the second of two runs in one group has two ranks 0, because the first
// process to end has counted itself again when the last one removes the count. Nothing here builds nixlbench.
func TestNIXLBenchRunsTwiceInOneGroup(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nixlbench"); err != nil {
		t.Skip("needs nixlbench in PATH, and no package has it (sources: benchmark/nixlbench of NIXL)")
	}
	c := external(t, 2)
	c.env = []string{"UCX_TLS=tcp"}
	for i, n := range []*node{c.startTwice(0), c.startTwice(1)} {
		n.exits(0)
		if got := strings.Count(n.out.String(), fmt.Sprintf("Registered as rank %d ", i)); got != 2 {
			t.Errorf("%s: rank %d in %d runs of 2", n.name, i, got)
		}
	}
}

// startTwice runs nixlbench two times on host i, the second one as soon as the first one has ended there.
func (c *cluster) startTwice(i int) *node {
	c.t.Helper()
	line := fmt.Sprintf("%s --store %s --nnodes 2 --node-rank %d --join-timeout %s nixlbench --benchmark_group g "+
		"--backend UCX --total_buffer_size 67108864 --start_block_size 4096 --max_block_size 4096 --num_iter 16 "+
		"--warmup_iter 16", tools.launch, c.store, i, joinTimeout)
	return c.startBare(i, []string{"sh", "-c", line + " && " + line})
}
