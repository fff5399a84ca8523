package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/diagnose/verdict"
	"launch/lab/netns"
	"launch/lab/programs"
)

// sleeper is a training whose rank LATE does not call init_process_group before a file exists. All write down
// their PID. With LATE=none they train until the file exists.
const sleeper = `
import os, sys, time
gate, rank = sys.argv[1], os.environ["RANK"]
if rank == "1" and os.path.exists(gate + ".fail"):
    os.remove(gate + ".fail")
    sys.exit(3)
import torch
import torch.distributed as dist
with open(gate + ".tmp" + rank, "w") as f:
    f.write(str(os.getpid()))
os.rename(gate + ".tmp" + rank, gate + ".pid" + rank)
late = os.environ.get("LATE")
while rank == late and not os.path.exists(gate):
    time.sleep(0.2)
dist.init_process_group("gloo")
print("inside", flush=True)
while late == "none":
    a = torch.ones(200, 200)
    for _ in range(20):
        a = a @ a / 200
    one = torch.tensor([float(os.path.exists(gate))])
    dist.all_reduce(one)
    if one.item() > 0:
        break
dist.barrier()
os._exit(0)
`

// onNode wraps a line so that the host's kernel name is its own: a scene holds it. FOLDER is where it runs.
func onNode(h *netns.Host, argv ...string) []string {
	return append([]string{"unshare", "--uts", "/bin/sh", "-c",
		`echo "$0" >/proc/sys/kernel/hostname && cd "${FOLDER:-.}" && exec "$@"`, h.Name}, argv...)
}

// job is a training on all hosts of a cluster.
type job struct {
	*cluster
	gate  string
	nodes []*node
}

// trains returns n hosts for a training.
func trains(t *testing.T, n int) *job {
	t.Helper()
	return &job{cluster: withTorch(t, n, programs.AnyTorch(t)), gate: filepath.Join(t.TempDir(), "gate")}
}

// begin starts the training on the first n hosts.
func (j *job) begin(n int, rank string, flags ...string) {
	c, t := j.cluster, j.t
	t.Helper()
	script := filepath.Join(t.TempDir(), "sleeper.py")
	if err := os.WriteFile(script, []byte(sleeper), 0o644); err != nil {
		t.Fatal(err)
	}
	c.lab.MayLeave("*")
	c.env = append(c.env, "LATE="+rank)
	line := []string{"python3", script, j.gate}
	argv := slices.Concat([]string{tools.launch, "--store", c.store, "--nnodes", strconv.Itoa(n)}, c.flags, flags, line)
	for i := range n {
		j.nodes = append(j.nodes, c.startBare(i, append(onNode(c.lab.Hosts[i], argv[0]),
			slices.Concat([]string{"--node-rank", strconv.Itoa(i)}, argv[1:])...)))
	}
	for i := range n {
		eventually(t, "rank "+strconv.Itoa(i)+" runs", func() bool { return j.pid(i) != 0 })
	}
}

// pid returns the process of a rank; 0: it has not begun.
func (j *job) pid(rank int) int {
	b, _ := os.ReadFile(j.gate + ".pid" + strconv.Itoa(rank))
	pid, _ := strconv.Atoi(string(b))
	return pid
}

// asked is what launch doctor --json prints.
type asked struct {
	Answers []verdict.Answer `json:"answers"`
	Scenes  []struct {
		Host string `json:"host"`
	} `json:"scenes"`
}

// doctor asks on a host, and returns the status.
func (c *cluster) doctor(host int, user ...string) (a asked, status int) {
	c.t.Helper()
	return c.answered(c.startBare(host, onNode(c.lab.Hosts[host], append(user, tools.launch, "doctor", "--json")...)))
}

// answered reads what launch doctor --json has printed, and returns its status.
func (c *cluster) answered(n *node) (a asked, status int) {
	c.t.Helper()
	status = n.ends()
	if err := json.Unmarshal([]byte(n.out.String()), &a); err != nil || len(a.Answers) == 0 {
		c.t.Fatalf("%s: %v: %s%s", n.name, err, n.out, n.err)
	}
	return a, status
}

// blames checks that an answer names a rank and its node with certainty.
func blames(t *testing.T, a asked, status, rank int, hosts int) {
	t.Helper()
	if status != 1 && status != 2 {
		t.Errorf("launch doctor ended with %d", status)
	}
	// One more of this host: what its companion has seen before.
	if len(a.Scenes) != hosts+1 {
		t.Errorf("%d scenes; want %d", len(a.Scenes), hosts+1)
	}
	why := a.Answers[0].Why
	if len(why) == 0 || !slices.Equal(why[0].Ranks, []int{rank}) || why[0].Sure != verdict.Certain ||
		!slices.Equal(why[0].Nodes, []string{"host" + strconv.Itoa(rank)}) {
		t.Errorf("%+v", a.Answers)
	}
}

// hangs returns the warnings about a hang in a node's standard error.
func hangs(n *node) int { return strings.Count(n.err.String(), "launch: warn job.hangs") }

// listening returns how many sockets a host listens on.
func (c *cluster) listening(host int) int {
	c.t.Helper()
	n := c.startBare(host, []string{"cat", "/proc/net/tcp", "/proc/net/tcp6"})
	n.exits(0)
	return strings.Count(n.out.String(), " 0A ")
}

// Rank 1 sleeps before init_process_group. Rank 0 says so once, and again when the reason changes; launch doctor of
// any node says the same; after the job nothing is left.
func TestAHangIsSaidOnceAndOnRank0Alone(t *testing.T) {
	j := trains(t, 4)
	j.begin(3, "1", "--hang-after", "4s")
	j.nodes[0].says("job.hangs")
	first := j.nodes[0].err.String()
	if !strings.Contains(first, "rank 1") || !strings.Contains(first, "host1") {
		t.Errorf("the warning does not name rank 1 and host1:\n%s", first)
	}
	a, status := j.doctor(2)
	blames(t, a, status, 1, 3)
	refused(t, j)
	j.looks(3, false) // not of the job
	j.looks(1, true)  // by now rank 0 has looked again
	if n := hangs(j.nodes[0]); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, j.nodes[0].err)
	}
	if err := syscall.Kill(j.pid(2), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new reason is said", func() bool { return hangs(j.nodes[0]) == 2 })
	if text := j.nodes[0].err.String()[len(first):]; !strings.Contains(text, "stopped") {
		t.Errorf("the second warning does not say what is stopped:\n%s", text)
	}
	if err := syscall.Kill(j.pid(2), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	end(t, j.gate)
	for i, n := range j.nodes {
		n.exits(0)
		if i > 0 && hangs(n) > 0 {
			t.Errorf("%s says it, too:\n%s", n.name, n.err)
		}
	}
	pause(t, time.Second)
	for i, h := range j.lab.Hosts {
		if left := h.Processes(); len(left) > 0 {
			t.Errorf("%s has %q left", h.Name, left)
		}
		if n := j.listening(i); n > 0 {
			t.Errorf("%s listens on %d ports", h.Name, n)
		}
	}
}

// refused checks that another user of a node gets nothing from its companion.
func refused(t *testing.T, j *job) {
	t.Helper()
	user := []string{"setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"}
	a, _ := j.doctor(0, user...)
	for _, s := range a.Scenes {
		if s.Host != "host0" {
			t.Errorf("user 12345 is shown what %s sees", s.Host)
		}
	}
}

// A training that goes on is not a hang, however small its steps are.
func TestAHealthyTrainingIsNotCalledHung(t *testing.T) {
	j := trains(t, 2)
	j.begin(2, "none", "--hang-after", "3s")
	for _, n := range j.nodes {
		n.prints("inside")
	}
	pause(t, 13*time.Second)
	a, status := j.doctor(1)
	if status != 0 {
		t.Errorf("launch doctor ended with %d: %+v", status, a.Answers)
	}
	end(t, j.gate)
	for _, n := range j.nodes {
		n.exits(0)
		if hangs(n) > 0 {
			t.Errorf("%s calls it hung:\n%s", n.name, n.err)
		}
	}
}

// The start after a restart has another side channel. With a token the nodes' answers cross the network encrypted,
// and a host that lacks it gets none.
func TestAHangAfterARestartIsSaid(t *testing.T) {
	t.Parallel() // it mostly waits
	j := trains(t, 2)
	j.env = append(j.env, "LAUNCH_TOKEN=8c1f0e6b7a2d94b5c3f8a1e0d7b6c5a4")
	end(t, j.gate+".fail")
	j.begin(2, "1", "--hang-after", "4s", "--restarts", "1")
	j.nodes[0].says("job.hangs")
	if _, err := os.Stat(j.gate + ".fail"); err == nil {
		t.Error("there was no restart")
	}
	a, status := j.doctor(1)
	blames(t, a, status, 1, 2)
	j.looks(1, false)
	end(t, j.gate)
	for _, n := range j.nodes {
		n.exits(0)
	}
	if n := hangs(j.nodes[0]); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, j.nodes[0].err)
	}
}

// looks checks whether a host without a token is shown what host0 sees.
func (j *job) looks(host int, want bool) {
	j.t.Helper()
	s := j.startBare(host, []string{stranger(j.t), "look", j.lab.Hosts[0].Addr})
	s.exits(0)
	if got := strings.Contains(s.out.String(), "is shown"); got != want || s.out.String() == "" {
		j.t.Errorf("%s asks without a token: %s", s.name, s.out)
	}
}

// While launch waits, launch doctor says for which node. It harms nothing, also where it is interrupted.
func TestDoctorSaysWhichNodeIsMissing(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	c.flags = append(c.flags, "--nnodes", "3")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	nodes := []*node{c.start(0, "--node-rank", "0"), c.start(2, "--node-rank", "2")}
	c.joined(nodes...)
	cut := c.startBare(0, []string{tools.launch, "doctor"})
	pause(t, time.Second)
	_ = cut.cmd.Process.Signal(syscall.SIGINT)
	if status := cut.ends(); status == 0 {
		t.Error("an interrupted launch doctor ends with 0")
	}
	for _, host := range []int{0, 2} {
		for try := 0; ; try++ { // on a busy machine one node hears later than the other who is missing
			a, status := c.doctor(host)
			why := a.Answers[0].Why
			if status != 0 && len(why) > 0 && why[0].Cause == "node.missing" && slices.Equal(why[0].Nodes, []string{"node 1"}) {
				break
			}
			if try == 4 {
				t.Errorf("from host%d, with %d: %+v", host, status, a.Answers)
				break
			}
		}
	}
	nodes = slices.Insert(nodes, 1, c.start(1, "--node-rank", "1"))
	trained(t, 1, nodes...)
}
