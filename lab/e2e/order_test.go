package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"launch/lab/programs"
)

// TestNoOrderOfTheNodesCostsAStart starts real torchruns in random orders: each begins some time after its line, now
// and then 20 s, as one whose import takes longer. None may fail. With LAUNCH_STARTS, the number of starts, what the
// last one to begin waits for is compared with torchrun's own static rendezvous, by turns.
func TestNoOrderOfTheNodesCostsAStart(t *testing.T) {
	rounds, ways := 5, []string{"launch"}
	if n, err := strconv.Atoi(os.Getenv("LAUNCH_STARTS")); err == nil {
		rounds, ways = n, []string{"launch", "static"}
	}
	c := embedded(t, 3)
	torchrun := c.forked(programs.CurrentTorch(t))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	took := map[string][]time.Duration{}
	for range rounds {
		n := 2 + random.IntN(2)
		late := make([]float64, n)
		for i := range late {
			late[i] = min(random.ExpFloat64()/2, 4)
		}
		if random.IntN(50) == 0 {
			late[random.IntN(n)] = 20
		}
		for _, way := range ways {
			var nodes []*node
			for i := range n {
				line := []string{torchrun, "--nnodes", strconv.Itoa(n), "--nproc-per-node", "1"}
				if way == "launch" {
					line = append(append([]string{tools.launch, "--store", "host0"}, c.flags...), line...)
				} else {
					line = append(line, "--master-addr", "10.77.0.1", "--node-rank", strconv.Itoa(i))
				}
				nodes = append(nodes, c.startBare(i, append(line, trainPy(t)), "GLOO_SOCKET_IFNAME=eth0",
					"FORKED="+c.lab.Hosts[i].Dir()+"/forked", fmt.Sprintf("LATE=%.2f", late[i])))
			}
			begun, first := time.Time{}, time.Time{}
			for _, h := range nodes {
				h.exits(0)
				begun, first = later(begun, h.noted("begins")), later(first, h.noted("first"))
			}
			took[way] = append(took[way], first.Sub(begun))
			if t.Failed() {
				t.Fatalf("%s, late by %v seconds, after %d starts of each", way, late, len(took[way]))
			}
		}
	}
	for _, way := range ways {
		ds := slices.Sorted(slices.Values(took[way]))
		t.Logf("%s: %d starts, from the begin of the last torchrun to the last rank's first collective: median %s, "+
			"99 of 100 %s, longest %s", way, len(ds), median(ds), ds[len(ds)*99/100], ds[len(ds)-1])
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// noted returns the time that a line of the node's stdout has after a name.
func (n *node) noted(name string) time.Time {
	n.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` ([0-9.]+)$`).FindStringSubmatch(n.out.String())
	if m == nil {
		n.t.Fatalf("%s did not print %q", n.name, name)
	}
	at, _ := strconv.ParseFloat(m[1], 64)
	return time.UnixMicro(int64(at * 1e6))
}

// forked returns a torchrun that does not import torch: a process of each host has done so, and forks. A start then
// takes a part of a second, so that hundreds can be tried.
func (c *cluster) forked(torch programs.Torch) (torchrun string) {
	c.t.Helper()
	c.torch(torch)
	c.lab.MayLeave("pytorch-errorfile-*")
	text, err := os.ReadFile("testdata/forked.py")
	torchrun = filepath.Join(c.t.TempDir(), "torchrun")
	if err == nil {
		err = os.WriteFile(torchrun, append([]byte("#!"+torch.Python+" -SE\n"), text...), 0o755)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for i, h := range c.lab.Hosts {
		c.startBare(i, []string{torch.Python, torchrun, "serve", filepath.Join(h.Dir(), "forked")}).prints("ready\n")
	}
	return torchrun
}
