package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everyone is the name that has the addresses of all nodes.
const everyone = "trainer.default.svc.cluster.local"

// shared returns n hosts with a name server each, which do not know the ranks of the nodes.
func shared(t *testing.T, n int) *pods {
	p := podsOf(t, n, true)
	p.store, p.flags = everyone, []string{"--join-timeout", joinTimeout}
	p.line = []string{"torchrun", "--nnodes", fmt.Sprint(n), "--nproc-per-node", "2", trainPy(t)}
	return p
}

// lists writes what the name server of a host lists, in this order.
func (p *pods) lists(host int, addrs ...string) {
	p.t.Helper()
	var text strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&text, "%s %s\n", a, everyone)
	}
	file := p.zones[host]
	if err := os.WriteFile(file+"~", []byte(text.String()), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		p.t.Fatal(err)
	}
}

// addrs returns the addresses of hosts.
func (p *pods) addrs(hosts ...int) (out []string) {
	for _, h := range hosts {
		out = append(out, p.lab.Hosts[h].Addr)
	}
	return out
}

// The name has the addresses of all nodes, and no node has a rank: the node with the first of them hosts the store.
func TestANameOfAllNodes(t *testing.T) {
	t.Parallel()
	p := shared(t, 3)
	p.lists(0, p.addrs(1, 2, 0)...)
	p.lists(1, p.addrs(2, 0, 1)...)
	p.lists(2, p.addrs(0, 1, 2)...)
	one, two, zero := p.start(1), p.start(2), p.start(0)
	trained(t, 2, inOrder(zero, one, two)...)
	zero.says(everyone + " has 3 addresses: this node, 10.77.0.1, the first, hosts the store")
	for _, n := range []*node{one, two} {
		n.says("10.77.0.1, the first, hosts the store\n")
	}
	for _, n := range []*node{zero, one, two} {
		if strings.Contains(n.err.String(), "warn store.") {
			t.Errorf("%s warns of a name that is well", n.name)
		}
	}
}

// Each node first finds its own address alone, and so hosts a store: they find each other as the name server learns.
func TestNodesThatEachHostAStoreAgreeOnOne(t *testing.T) {
	t.Parallel()
	p := shared(t, 3)
	p.env = []string{"LAUNCH_TOKEN=31e5c6a1f7f54a5e8f3f4be7c0c6d0a2"}
	for i := range 3 {
		p.lists(i, p.addrs(i)...)
	}
	nodes := []*node{p.start(0), p.start(1), p.start(2)}
	for _, n := range nodes {
		n.says("1 of 3 nodes joined")
	}
	p.lists(2, p.addrs(1, 2)...)
	nodes[2].says("goes first: this node joins that one")
	for i := range 3 {
		p.lists(i, p.addrs(0, 1, 2)...)
	}
	trained(t, 2, inOrder(nodes...)...)
	nodes[1].says("goes first: this node joins that one")
}

// The first addresses are of a machine without launch, of one that is gone, and of a pod that is late; the name has
// more addresses than the job has nodes. A store that is there already wins.
func TestANameWithAddressesOfNoNode(t *testing.T) {
	t.Parallel()
	p := shared(t, 4) // host0 runs no launch
	p.line[2] = "3"
	p.lab.Hosts[1].Cut()
	for i := range 4 {
		p.lists(i, "10.77.0.99", p.lab.Hosts[0].Addr, p.lab.Hosts[1].Addr, p.lab.Hosts[2].Addr, p.lab.Hosts[3].Addr)
	}
	two, three := p.start(2), p.start(3)
	two.says("hosts the store, as no store answered at 10.77.0.1, 10.77.0.2 for ")
	three.says("10.77.0.3 hosts the store")
	p.lab.Hosts[1].Heal()
	one := p.start(1)
	trained(t, 2, inOrder(one, two, three)...)
	one.says("5 addresses: 10.77.0.3 hosts the store")
}

// The name server has the addresses of pods that are gone, from its cache: no node takes itself for one of the name.
func TestANameThatListsTheNodesLater(t *testing.T) {
	t.Parallel()
	p := shared(t, 2)
	for i := range 2 {
		p.lists(i, "10.77.0.98", "10.77.0.99")
	}
	zero, one := p.start(0), p.start(1)
	zero.says("waiting for 2 nodes")
	one.says("waiting for 2 nodes")
	for i := range 2 {
		p.lists(i, p.addrs(1, 0)...)
	}
	trained(t, 2, inOrder(zero, one)...)
	zero.says("the store's name has an address of this node by now")
}

// The machine of the store is lost before the start. A node that begins later hosts the next store, and the one that
// has joined goes there.
func TestTheChosenHostIsLost(t *testing.T) {
	t.Parallel()
	p := shared(t, 4)
	p.line[2] = "3"
	for i := range 4 {
		p.lists(i, p.addrs(0, 1, 2, 3)...)
	}
	zero, one := p.start(0), p.start(1)
	p.joined(zero, one)
	p.lose(0)
	two, three := p.start(2), p.start(3)
	two.says("this node, 10.77.0.3, hosts the store, as no store answered at 10.77.0.1, 10.77.0.2 for ")
	trained(t, 2, inOrder(one, two, three)...)
}

// With restarts, the launch that hosts the store is killed while the job runs. A node at another address of the name
// takes its place, and hosts the next store: the other one goes on there.
func TestTheChosenHostIsLostWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	p := shared(t, 3)
	file := filepath.Join(t.TempDir(), "file")
	p.flags = append(p.flags, "--restarts", "3", "--nnodes", "2")
	p.line = runsUntil(file)
	for i := range 3 {
		p.lists(i, p.addrs(0, 1, 2)...)
	}
	zero, one := p.start(0), p.start(1)
	zero.prints("begun\n")
	one.prints("begun\n")
	p.lab.MayLeave("launch-store*")
	if err := p.lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	two := p.start(2)
	two.prints("begun\n")
	one.prints("begun\nbegun\n")
	end(t, file)
	trained(t, 1, inOrder(one, two)...)
}

// The network of the store's host is cut while the job runs, for longer than any wait for a store. Standby nodes start
// no world of their own.
func TestStandbyNodesOfACutHostStartNoWorldOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := shared(t, 4)
	file := filepath.Join(t.TempDir(), "file")
	p.flags = append(p.flags, "--restarts", "3", "--spares", "2", "--nnodes", "2")
	p.line = runsUntil(file)
	for i := range 4 {
		p.lists(i, p.addrs(0, 1, 2, 3)...)
	}
	zero, one := p.start(0), p.start(1)
	zero.prints("begun\n")
	one.prints("begun\n")
	spares := []*node{p.start(2), p.start(3)}
	for _, n := range spares {
		n.says("this is a standby node")
	}
	p.lab.Hosts[0].Cut()
	pause(t, 22*time.Second)
	for _, n := range spares {
		if n.out.String() != "" || strings.Contains(n.err.String(), "hosts the store, as") {
			t.Errorf("%s does not wait for the cut host:\n%s%s", n.name, n.out, n.err)
		}
	}
	p.lab.Hosts[0].Heal()
	end(t, file)
}

// One node more than the job has places is a standby node, whichever of them hosts the store.
func TestASpareNodeByANameOfAllNodes(t *testing.T) {
	t.Parallel()
	p := shared(t, 3)
	p.flags = append(p.flags, "--spares", "1")
	p.line[2] = "2"
	for i := range 3 {
		p.lists(i, p.addrs(i)...)
	}
	zero, two := p.start(0), p.start(2)
	for _, n := range []*node{zero, two} {
		n.says("1 of 2 nodes joined")
	}
	for i := range 3 {
		p.lists(i, p.addrs(0, 1, 2)...)
	}
	trained(t, 2, inOrder(zero, two)...)
}

// inOrder returns nodes in the order of their ranks, once they have one.
func inOrder(nodes ...*node) []*node {
	out := make([]*node, len(nodes))
	for _, n := range nodes {
		n.says("this is node rank ")
		_, text, _ := strings.Cut(n.err.String(), "this is node rank ")
		text, _, _ = strings.Cut(text, ";")
		rank, _ := strconv.Atoi(text)
		out[rank] = n
	}
	return out
}

// Starts in random order, with random delays, each name server some seconds late: no start ends in two stores.
func TestStartsByANameOfAllNodes(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("LAUNCH_TEST_ROUNDS"))
	for i := range max(rounds, 1) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			n := 2 + rand.IntN(3)
			p := shared(t, n)
			all, began := rand.Perm(n), time.Now()
			nodes := make([]*node, n)
			for _, h := range all {
				p.lists(h, p.addrs(h)...)
			}
			learns := func(h int, after time.Duration) {
				time.Sleep(after)
				p.lists(h, p.addrs(rand.Perm(n)...)...)
			}
			done := make(chan bool)
			for _, h := range all {
				go func() { learns(h, rand.N(3*time.Second)); done <- true }()
			}
			for _, h := range all {
				time.Sleep(rand.N(900 * time.Millisecond))
				nodes[h] = p.start(h)
			}
			for range all {
				<-done
			}
			trained(t, 2, inOrder(nodes...)...)
			moved := 0
			for _, node := range nodes {
				moved += strings.Count(node.err.String(), "goes first: this node joins that one")
			}
			t.Logf("%d nodes, %d stores retired, ended after %s", n, moved, time.Since(began).Round(100*time.Millisecond))
		})
	}
}
