package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"launch/lab/programs"
)

// An elastic job of torchrun starts with the nodes that joined, and continues
// after it loses one.
func TestAnElasticJobContinuesWithTheNodesThatRemain(t *testing.T) {
	t.Parallel()
	c := external(t, 2).torch(programs.AnyTorch(t))
	dir := t.TempDir()
	script := filepath.Join(dir, "train.py")
	if err := os.WriteFile(script, []byte(waitsForAMark), 0o644); err != nil {
		t.Fatal(err)
	}
	c.flags = append(c.flags, "--restarts", "2", "--last-call", "2s")
	c.line = []string{"torchrun", "--nnodes", "1:4", "--nproc_per_node", "1", script, filepath.Join(dir, "mark")}
	a, b := c.start(0), c.start(1)
	a.says("2 of up to 4 nodes joined")
	for _, n := range []*node{a, b} {
		n.prints("begun with 2\n")
	}
	if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.exits(137)
	a.says("restart 1 of 2")
	a.prints("begun with 1\n")
	if err := os.WriteFile(filepath.Join(dir, "mark"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.exits(0)
}

// waitsForAMark is a training that continues until a file exists.
const waitsForAMark = `
import os, sys, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(f"begun with {int(one.item())}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
dist.barrier()
os._exit(0)
`

func TestAStandbyNodeReplacesALostNode(t *testing.T) {
	t.Parallel()
	c := external(t, 3)
	mark := filepath.Join(t.TempDir(), "second")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE; until [ -e " + mark + " ]; do sleep 0.1; done"}
	c.flags = append(c.flags, "--nnodes", "2", "--spares", "1", "--restarts", "1", "--join-timeout", "20s")
	a, b := c.start(0), c.start(1)
	for _, n := range []*node{a, b} {
		n.prints("of 2\n")
	}
	s := c.start(2)
	s.says("this is a standby node")
	if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.exits(137)
	s.prints("of 2\n")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.exits(0)
	s.exits(0)
}

func TestAStandbyNodeThatIsNotNeededEndsWithZero(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE; sleep 2"}
	c.flags = append(c.flags, "--nnodes", "2", "--spares", "1", "--restarts", "1")
	nodes := []*node{c.start(0), c.start(1), c.start(2)}
	ran := 0
	for _, n := range nodes {
		n.exits(0)
		if strings.Contains(n.out.String(), "of 2") {
			ran++
		}
	}
	if ran != 2 {
		t.Errorf("%d nodes ran the command, want 2", ran)
	}
}
