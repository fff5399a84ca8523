package scene

import (
	"encoding/json"
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

	"golang.org/x/sys/unix"

	"launch/lab/programs"
)

// asNobody is set in the process of this test that looks as another user.
const asNobody = "SCENE_AS_NOBODY"

const nobody = 65534

// python returns a Python without torch.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // python3 may be a script
	if err != nil {
		t.Skip(err)
	}
	return strings.TrimSpace(string(out))
}

func root(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// in returns a command with more variables.
func in(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func roles(s Scene) map[Role]int {
	out := map[Role]int{}
	for _, p := range s.Procs {
		out[p.Role]++
	}
	return out
}

func gapOf(s Scene, what string) Gap {
	for _, g := range s.Gaps {
		if strings.Contains(g.What, what) {
			return g
		}
	}
	return Gap{}
}

func TestTakeShowsATorchrunThatWaitsForAnother(t *testing.T) {
	torch := programs.CurrentTorch(t)
	port := freePort(t)
	agent := start(t, exec.Command(filepath.Join(filepath.Dir(torch.Python), "torchrun"), "--nnodes=2", "--node-rank=0",
		"--master-addr=127.0.0.1", "--master-port", port, "train.py", "--master-port=1"))
	eventually(t, "it listens", func() bool { return slices.Contains(threadNames(agent), "pt_tcpstore_uv") })
	eventually(t, "it has its name", func() bool { return readLine(procPath(agent, "comm")) == "pt_elastic" })
	s := take(t, Options{PID: agent})
	if p := s.proc(agent); p.Role != Agent || p.Moved.Switches == 0 || p.Still {
		t.Errorf("the agent: %+v", p)
	}
	if len(s.Stores) != 1 || s.Stores[0].Addr != "127.0.0.1:"+port {
		t.Errorf("stores: %+v", s.Stores)
	}
}

// spawned makes two ranks that number themselves, below a Python that waits for them.
const spawned = `
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(n, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(n), WORLD_SIZE="3")
    dist.init_process_group("gloo")
mp.start_processes(rank, args=(sys.argv[1],), nprocs=2, start_method="fork")
`

func TestTakeShowsRanksThatNumberThemselves(t *testing.T) {
	torch := programs.CurrentTorch(t)
	cmd := exec.Command(torch.Python, "-c", spawned, freePort(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pid := start(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	eventually(t, "rank 0 has its store", func() bool {
		b, _ := readFile(procPath(pid, "task/"+fmt.Sprint(pid)+"/children"))
		kids := strings.Fields(string(b))
		return len(kids) == 2 && slices.ContainsFunc(kids, func(k string) bool {
			var n int
			_, _ = fmt.Sscan(k, &n)
			return slices.Contains(threadNames(n), "pt_tcpstore_uv")
		})
	})
	s := take(t, Options{PID: pid})
	if got := roles(s); got[Rank] != 2 || got[Wrapper] != 1 || len(s.Procs) != 3 {
		t.Errorf("roles %v, want two ranks and their parent", got)
	}
	for _, p := range s.Procs {
		if has(p.Env, "RANK") {
			t.Errorf("process %d has RANK from the start: %v", p.PID, p.Env)
		}
	}
}

func TestRolesOfATreeOfMPI(t *testing.T) {
	dir := t.TempDir()
	mpirun := filepath.Join(dir, "mpirun")
	if err := os.WriteFile(mpirun, []byte("#!/bin/bash\n"+
		"OMPI_COMM_WORLD_RANK=3 bash -c \"$1\" & wait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := python(t) + ` -c "
import os, time
if os.fork() == 0: time.sleep(600)
time.sleep(600)"; true`
	cmd := exec.Command(mpirun, script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pid := start(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	var s Scene
	eventually(t, "all run", func() bool {
		all, err := scan(t.Context(), &gaps{})
		return err == nil && len(all.below(pid)) == 3
	})
	if s = take(t, Options{PID: pid}); len(s.Procs) != 4 {
		t.Fatalf("processes: %+v", s.Procs)
	}
	if got := roles(s); got[MPIRun] != 1 || got[Wrapper] != 1 || got[Rank] != 1 || got[Child] != 1 {
		t.Errorf("roles: %v", got)
	}
}

// A rank has Pythons below it with its own environment: workers of a DataLoader, torch's debug server.
func TestAPythonBelowARankIsNoRank(t *testing.T) {
	env := map[string]string{"RANK": "0", "LOCAL_RANK": "0"}
	const torchrun, rank, worker = 1<<22 + 1, 1<<22 + 2, 1<<22 + 3 // no process has these
	at := &table{gaps: &gaps{}, children: map[int][]int{torchrun: {rank}, rank: {worker}}, procs: map[int]*seen{
		torchrun: {pid: torchrun, argv: []string{"/usr/bin/python3", "/usr/bin/torchrun", "x.py"}, env: map[string]string{}},
		rank:     {pid: rank, argv: []string{"/usr/bin/python3", "x.py"}, env: env, stat: stat{parent: torchrun}},
		worker:   {pid: worker, argv: []string{"/usr/bin/python3", "x.py"}, env: env, stat: stat{parent: rank}},
	}}
	at.assign()
	for pid, want := range map[int]Role{torchrun: Agent, rank: Rank, worker: Child} {
		if got := at.procs[pid].role; got != want {
			t.Errorf("process %d is %q, not %q", pid, got, want)
		}
	}
}

// A container may have been given RANK: of its processes only a Python is a rank, or what launch has become.
func TestTheCommandOfLaunchIsARankWhateverItRuns(t *testing.T) {
	const pid = 1<<22 + 1 // no process has it
	for command, want := range map[int]Role{0: "", pid: Rank} {
		at := &table{gaps: &gaps{}, children: map[int][]int{}, command: command, procs: map[int]*seen{
			pid: {pid: pid, argv: []string{"sleep", "600"}, env: map[string]string{"RANK": "1"}}}}
		at.assign()
		if got := at.procs[pid].role; got != want {
			t.Errorf("the command is %d: the role is %q, not %q", command, got, want)
		}
	}
}

func TestAProcessThatHasEndedIsNoJobOfItsOwn(t *testing.T) {
	tree := &table{gaps: &gaps{}, procs: map[int]*seen{}, children: map[int][]int{}}
	add := func(pid, parent int, comm, state string, env map[string]string) {
		tree.procs[pid] = &seen{pid: pid, stat: stat{comm: comm, parent: parent, state: state}, env: env}
		tree.children[parent] = append(tree.children[parent], pid)
	}
	add(1, 0, "sleep", "S", map[string]string{})
	add(2, 1, "launch", "Z", nil) // a companion
	add(3, 1, "pt_elastic", "Z", nil)
	add(4, 1, "mpirun", "Z", nil)
	add(5, 9, "pt_elastic", "Z", nil) // its parent is not seen
	add(10, 1, "pt_elastic", "S", map[string]string{})
	add(11, 10, "python3", "Z", nil)
	add(12, 10, "launch", "Z", nil) // an orphan, where torchrun is the first process
	add(20, 1, "launch", "S", map[string]string{"LAUNCH_CHILD": "companion"})
	add(30, 1, "mpirun", "S", map[string]string{})
	add(31, 30, "ssh", "Z", nil)
	tree.assign()
	for pid, want := range map[int]Role{2: "", 3: "", 4: "", 5: "", 10: Agent, 11: Rank, 12: "", 20: Companion,
		30: MPIRun, 31: MPIRun} {
		if got := tree.procs[pid].role; got != want {
			t.Errorf("process %d (%s) is %q; want %q", pid, tree.procs[pid].stat.comm, got, want)
		}
	}
}

// TestAProcessWithoutANetworkIsWhereItsAncestorIs: /proc shows no network namespace of a process that has ended.
func TestAProcessWithoutANetworkIsWhereItsAncestorIs(t *testing.T) {
	tab := &table{procs: map[int]*seen{
		1: {pid: 1},
		2: {pid: 2, net: 77, stat: stat{parent: 1}},
		3: {pid: 3, stat: stat{parent: 2}, role: Rank},
		4: {pid: 4, stat: stat{parent: 1}, role: Rank},
	}}
	for _, c := range []struct {
		pid  int
		net  uint64
		want bool
	}{{3, 77, true}, {3, 78, false}, {4, 78, true}} {
		if got := tab.in(c.net, tab.procs[c.pid]); got != c.want {
			t.Errorf("process %d is in %d: %v", c.pid, c.net, got)
		}
	}
}

func TestTakeShowsAJobOfAnotherUserAsFarAsTheKernelLets(t *testing.T) {
	root(t)
	rank := start(t, in(exec.Command(python(t), "-c", "import time; time.sleep(600)"), "RANK=5", "SECRET=hunter2"))
	script := filepath.Join(t.TempDir(), "torchrun")
	if err := os.WriteFile(script, []byte("import subprocess, sys\n"+
		"subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(python(t), script)
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	parent := start(t, agent)
	t.Cleanup(func() { _ = syscall.Kill(-parent, syscall.SIGKILL) })
	eventually(t, "the agent has started its rank", func() bool {
		return readLine(procPath(parent, fmt.Sprintf("task/%d/children", parent))) != ""
	})
	eventually(
		t,
		"the rank is a Python",
		func() bool { return strings.HasPrefix(readLine(procPath(rank, "comm")), "python") },
	)
	if p := take(t, Options{PID: rank}).proc(rank); p.Role != Rank || p.Env["RANK"] != "5" {
		t.Errorf("root sees %+v", p)
	}
	look := in(exec.Command("/proc/self/exe", "-test.run=^$"), asNobody+"="+fmt.Sprint(parent))
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := look.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var s Scene
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	if got := roles(s); got[Agent] != 1 || got[Rank] != 1 || s.User != nobody {
		t.Fatalf("user %d sees roles %v", s.User, got)
	}
	for _, p := range s.Procs {
		if p.Env != nil || p.State != "S" || len(p.Threads) == 0 || p.Syscall != nil {
			t.Errorf("another user sees %+v", p)
		}
	}
	for _, what := range []string{"the environment", "open files and sockets", "the system call"} {
		if g := gapOf(s, what); g.Why != "it is a process of user 0" || g.Fix != "run it as user 0 or as root" {
			t.Errorf("%s: %+v of %+v", what, g, s.Gaps)
		}
	}
}

func TestTakeReadsTheSocketsOfAnotherNetwork(t *testing.T) {
	root(t)
	cmd := in(exec.Command("sh", "-c", "ip link set lo up; exec "+python(t)+` -c "
import socket, time
s = socket.create_server(('127.0.0.1', 29533)); c = socket.create_connection(('127.0.0.1', 29533)); c.send(b'12345678')
time.sleep(600)"`), "RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29533", "TORCHELASTIC_RUN_ID=x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	pid := start(t, cmd)
	eventually(t, "it listens", func() bool { return len(openSockets(pid)) == 2 })
	s, err := Take(t.Context(), Options{PID: pid, Span: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Sockets) != 3 || s.Procs[0].Net == s.Net {
		t.Errorf("sockets: %+v, gaps %+v", s.Sockets, s.Gaps)
	}
	for _, k := range s.Sockets {
		if k.State == "established" && k.PID == pid && (k.Info == nil || k.Info.Sent != 8) {
			t.Errorf("the client's socket: %+v", k)
		}
	}
	if len(s.Stores) != 1 || s.Stores[0].Outcome != Silent || s.Stores[0].Net != s.Procs[0].Net {
		t.Errorf("stores: %+v", s.Stores)
	}
}

// A process outside of the job has the port that the job uses.
func TestTakeNamesTheHolderOfAPort(t *testing.T) {
	port := freePort(t)
	holder := start(t, exec.Command(python(t), "-c", "import socket, time\n"+
		"s = socket.create_server(('127.0.0.1', "+port+")); time.sleep(600)"))
	rank := start(t, in(exec.Command(python(t), "-c", "import time; time.sleep(600)"), "RANK=0",
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port))
	eventually(t, "it listens", func() bool { return len(openSockets(holder)) == 1 })
	s := take(t, Options{PID: rank})
	if p := s.proc(holder); p.Role != Holder {
		t.Errorf("processes: %+v", s.Procs)
	}
	if len(s.Sockets) != 1 || s.Sockets[0].PID != holder || s.Sockets[0].State != stateListen {
		t.Errorf("sockets: %+v", s.Sockets)
	}
}

// Two jobs on one node: each is chosen by launch's name for it, by torchrun's id or by the address of its store.
func TestAJobIsChosenByItsName(t *testing.T) {
	ports := [2]string{freePort(t), freePort(t)}
	var ranks, companions [2]int
	for i, run := range []string{"night-1-0a1b2c3d", "other"} {
		rank := exec.Command("sleep", "600")
		rank.Args[0] = "python3"
		rank.Env = []string{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + ports[i],
			"TORCHELASTIC_RUN_ID=" + run}
		ranks[i] = start(t, rank)
		pidfd, err := unix.PidfdOpen(ranks[i], 0)
		if err != nil {
			t.Skip(err)
		}
		file := os.NewFile(uintptr(pidfd), "pidfd")
		defer file.Close()
		c := companionOf(t, []string{"night", "two words"}[i])
		c.ExtraFiles = []*os.File{file} // as the first after the standard ones
		companions[i] = start(t, c)
	}
	for job, want := range map[string]int{"night": 0, "night-1-0a1b2c3d": 0, "127.0.0.1:" + ports[0]: 0, "two words": 1,
		"other": 1, "127.0.0.1:" + ports[1]: 1} {
		s := take(t, Options{Job: job})
		var got []int
		for _, p := range s.Procs {
			got = append(got, p.PID)
		}
		if slices.Sort(got); !slices.Equal(got, []int{ranks[want], companions[want]}) {
			t.Errorf("%q shows %v, not %d and %d", job, got, ranks[want], companions[want])
		}
	}
	_, err := Take(t.Context(), Options{Job: "nigth"})
	var unknown *UnknownJobError
	if !errors.As(err, &unknown) || !slices.Contains(unknown.Seen, "night") ||
		!slices.Contains(unknown.Seen, "two words") || slices.Contains(unknown.Seen, "other") ||
		!strings.Contains(err.Error(), `no job "nigth" on this node; there is `) {
		t.Errorf("%v", err)
	}
}
