package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/programs"
)

// diesOnce is a training whose rank 1 dies in the first start. It creates the file
// that its argument names, by which it recognizes a restart.
const diesOnce = `
import os, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
sum = torch.ones(1)
dist.all_reduce(sum)
if rank == 1 and not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os._exit(1)
for _ in range(3):
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == size
print(f"rank {rank} of {size} on node {os.environ['GROUP_RANK']}", flush=True)
dist.barrier()
os._exit(0)
`

// A rank dies once, and one restart is allowed: the same script on the same hosts.
// After torchrun's restart its store still has the addresses of the first start:
// the first node to connect calls a process that has ended.
func TestARankThatDiesOnceEndsPlainTorchrunsJobOnly(t *testing.T) {
	t.Parallel()
	t.Run("torchrun --max-restarts", func(t *testing.T) {
		if !programs.Full() {
			t.Skip("what torchrun does alone: LAUNCH_TEST_FULL=1 or make faultbench")
		}
		c := withTorch(t, 2, programs.CurrentTorch(t)) // torch 1.13 restarts correctly
		var nodes []*node
		script := diesOnceScript(t)
		for i := range 2 {
			argv := []string{"torchrun", "--nnodes", "2", "--nproc_per_node", "1", "--max_restarts", "1",
				"--master_addr", "10.77.0.1", "--master_port", "29500", "--node_rank", fmt.Sprint(i)}
			// launch would set this variable; without it not even the first start works.
			nodes = append(nodes, c.startBare(i, append(argv, script...), "GLOO_SOCKET_IFNAME=eth0"))
		}
		if well := within(t, time.Minute, nodes...); well == len(nodes) {
			t.Skip("this time torchrun's own restart has worked: the first rank to connect was not called by the other one")
		}
		died(t, script)
		for _, h := range c.lab.Hosts {
			if err := h.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("launch --restarts", func(t *testing.T) {
		c := withTorch(t, 2, programs.AnyTorch(t))
		script := diesOnceScript(t)
		c.line = append([]string{"torchrun", "--nnodes", "2", "--nproc_per_node", "1"}, script...)
		nodes := []*node{c.start(0, "--restarts", "1"), c.start(1, "--restarts", "1")}
		trained(t, 1, nodes...)
		died(t, script)
		for _, n := range nodes {
			n.says("starting again on all nodes (restart 1 of 1)")
		}
	})
}

// diesOnceScript returns the training and its argument.
func diesOnceScript(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "diesonce.py")
	if err := os.WriteFile(script, []byte(diesOnce), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{script, filepath.Join(dir, "died")}
}

// died checks that rank 1 of the training died once.
func died(t *testing.T, script []string) {
	t.Helper()
	if _, err := os.Stat(script[1]); err != nil {
		t.Errorf("rank 1 did not die: %v", err)
	}
}

// within waits until all nodes have ended, one has failed, or the time is up. It
// returns the number of nodes that ended with 0.
func within(t *testing.T, limit time.Duration, nodes ...*node) (well int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < limit; pause(t, 100*time.Millisecond) {
		well = 0
		for _, n := range nodes {
			select {
			case <-n.done:
				if n.status() != 0 {
					t.Logf("%s: exit %d after %s", n.name, n.status(), time.Since(began).Round(time.Second))
					return well
				}
				well++
			default:
			}
		}
		if well == len(nodes) {
			return well
		}
	}
	t.Logf("%d of %d nodes have ended after %s", well, len(nodes), limit)
	return well
}

func TestANewNodeReplacesALostNodeAfterARestart(t *testing.T) {
	t.Parallel()
	c := external(t, 2)
	mark := filepath.Join(t.TempDir(), "second")
	const long = "sleep 4711"
	c.line = []string{"sh", "-c", "[ -e " + mark + " ] || { echo begun; " + long +
		"; }; echo rank $RANK of $WORLD_SIZE on node $RANK"}
	c.flags = append(c.flags, "--nnodes", "2", "--restarts", "1")
	a, b := c.start(0), c.start(1)
	for _, n := range []*node{a, b} {
		n.prints("begun\n")
	}
	if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil { // launch, companion and command
		t.Fatal(err)
	}
	b.exits(137)
	a.says("starting again on all nodes (restart 1 of 1)")
	a.says("1 of 2 nodes joined")
	for _, p := range c.lab.Hosts[0].Processes() {
		if _, line, _ := strings.Cut(p, " "); line == long {
			t.Errorf("the command of the first start still runs on host0: %s", p)
		}
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	trained(t, 1, a, c.start(1))
}

func TestNodesThatWaitStartAfterTheEtcdWasWiped(t *testing.T) {
	t.Parallel()
	c, members := externalCluster(t, 3, 1)
	elected(t, members) // so that the nodes lose it only later
	a, b := c.start(0), c.start(1)
	c.joined(a, b)
	members[0].kill()
	if err := os.RemoveAll(members[0].data); err != nil {
		t.Fatal(err)
	}
	a.says("the store does not answer")
	b.says("the store does not answer")
	members[0].start()
	trained(t, 2, a, b, c.start(2))
}

// launch is ended or killed: what its command started in sessions of their own ends, too. The other
// node keeps running: with --restarts it waits for a replacement.
func TestNothingRemainsOfALaunchThatWasEnded(t *testing.T) {
	t.Parallel()
	const long = "sleep 4712"
	for name, sig := range map[string]syscall.Signal{"term": syscall.SIGTERM, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 2)
			c.line = []string{"sh", "-c", "setsid " + long + " & setsid sh -c '" + long + " & echo begun; " + long + "'"}
			c.flags = append(c.flags, "--nnodes", "2", "--restarts", "1")
			a := c.start(0)
			c.joined(a)
			b := c.start(1)
			for _, n := range []*node{a, b} {
				n.prints("begun\n")
			}
			pause(t, time.Second) // both have said that they started
			_ = b.cmd.Process.Signal(sig)
			b.exits(128 + int(sig))
			left := c.lab.Hosts[1].Processes()
			for end := time.Now().Add(15 * time.Second); len(left) > 0 && time.Now().Before(end); {
				pause(t, 100*time.Millisecond)
				left = c.lab.Hosts[1].Processes()
			}
			if len(left) > 0 {
				t.Errorf("on host1 remain %q", left)
			}
			_ = a.cmd.Process.Signal(syscall.SIGTERM)
			<-a.done
		})
	}
}
