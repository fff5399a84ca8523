package roce

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// limit is for one test in these machines, whose one core is emulated.
const limit = 20 * time.Second

// small is a complete test with little data.
var small = verbs.Test{
	Device: "rxe0", GID: 1, QPs: 2, Depth: 32, Sizes: []int{64, 4096, 65536, 1 << 20}, Iterations: 8, BothWays: true,
	PingSizes: []int{8, 4096}, Pings: 100,
}

// brief is a test of which only the end matters.
var brief = verbs.Test{Device: "rxe0", GID: 1, Sizes: []int{65536}, Iterations: 8, PingSizes: []int{8}, Pings: 20}

// long is a test that runs until a fault ends it.
var long = verbs.Test{Device: "rxe0", GID: 1, Sizes: []int{4096}, Depth: 16, Span: 30 * time.Second}

func with(t verbs.Test, change func(t *verbs.Test)) verbs.Test {
	change(&t)
	return t
}

// tests makes both machines run one test, each its own end.
func tests(name string, s, c verbs.Test) step {
	return step{name,
		func(a *machineAgent, r *report) { a.run(r, s, limit) },
		func(a *machineAgent, r *report) { a.run(r, c, limit) }}
}

// cases are the machines' cases, in order: those that cannot be undone are last.
var cases = []step{
	{"query", query, query},
	{"loop", loop, loop},
	// Two emulated cores are never equally fast, so no rail may be judged slow.
	{"launch bench", launch("bench", "--server", "--rails", "rxe0", "--streams", "1", "--threshold", "bench.slow=0.01"),
		launch("bench", "--client", "10.9.0.1", "--rails", "rxe0", "--streams", "1", "--threshold", "bench.slow=0.01",
			"--json")},
	{"launch doctor", func(a *machineAgent, r *report) { a.limitTracing(r) }, nil},
	{"launch metrics", launch("metrics"), launch("check", "--json")},
	{"launch check", func(_ *machineAgent, r *report) { tried(r, "", 0) }, func(_ *machineAgent, r *report) {
		r.sh("chmod 666 /dev/infiniband/uverbs0")
		tried(r, "ulimit -l 64; ", 65534)
	}},
	tests("peer", small, small),
	tests("memory of a GPU", onGPU(true), onGPU(true)),
	tests("memory of one GPU", with(small, noPings), onGPU(true)),
	tests("memory of a GPU without peermem", with(small, noPings), onGPU(false)),
	tests("gid not given", with(brief, gid(-1)), with(brief, gid(-1))),
	tests("gid not set", small, with(small, gid(9))),
	tests("gid of another kind", small, with(small, gid(0))),
	{"gid without a route", func(a *machineAgent, r *report) {
		r.sh("ip addr add 192.168.77.1/32 dev eth0")
		a.barrier(r)
		a.run(r, with(small, gid(2)), limit)
		r.sh("ip addr del 192.168.77.1/32 dev eth0")
	}, func(a *machineAgent, r *report) {
		// No node on the cable has that Ethernet address.
		r.sh("/usr/bin/ip neigh replace 192.168.77.1 lladdr 52:54:00:00:00:77 dev eth0 nud permanent")
		a.barrier(r)
		a.run(r, small, limit)
	}},
	{"netdev mtu", func(a *machineAgent, r *report) {
		a.barrier(r)
		a.run(r, brief, limit)
	}, func(a *machineAgent, r *report) {
		r.sh("ip link set eth0 mtu 9000")
		a.barrier(r)
		a.run(r, brief, limit)
		r.sh("ip link set eth0 mtu 1500")
	}},
	tests("mtu set differently", with(small, mtu(1024)), with(small, mtu(4096))),
	tests("mtu larger than the path's", with(small, mtu(4096)), with(small, mtu(4096))),
	{"peer dies", func(a *machineAgent, r *report) { a.run(r, long, limit) }, func(a *machineAgent, r *report) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		// The end of ctx kills the child, and this machine becomes silent.
		context.AfterFunc(ctx, func() { a.peer.conn.Close() })
		t := long
		t.Lead = true
		_, err := confine.Run(ctx, t, limit, func(ctx context.Context, mine []byte) ([]byte, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return a.peer.say(ctx, mine)
		})
		r.fail(err)
	}},
	{"port down", func(a *machineAgent, r *report) { a.run(r, long, limit) }, func(a *machineAgent, r *report) {
		down := time.AfterFunc(2*time.Second, func() { r.sh("ip link set eth0 down") })
		a.run(r, long, limit)
		down.Stop()
		r.sh("ip link set eth0 up")
	}},
	{"other port down", func(a *machineAgent, r *report) {
		down := time.AfterFunc(2*time.Second, func() { r.sh("ip link set eth0 down") })
		a.run(r, long, limit)
		down.Stop()
		r.sh("ip link set eth0 up")
	}, func(a *machineAgent, r *report) { a.run(r, long, limit) }},
	tests("peer again", brief, brief),
	{"memlock", func(a *machineAgent, r *report) { a.run(r, small, limit) }, func(a *machineAgent, r *report) {
		r.sh("chmod 666 /dev/infiniband/uverbs0")
		a.unprivileged(r, small, 64)
	}},
	{"permission", func(a *machineAgent, r *report) { a.run(r, small, limit) }, func(a *machineAgent, r *report) {
		r.sh("chmod 600 /dev/infiniband/uverbs0")
		a.unprivileged(r, small, 64)
	}},
	{"no uverbs node", func(a *machineAgent, r *report) { a.run(r, small, limit) }, func(a *machineAgent, r *report) {
		r.sh("mv /dev/infiniband /dev/elsewhere")
		a.run(r, small, limit)
		r.sh("mv /dev/elsewhere /dev/infiniband")
	}},
	{"1000 times", func(_ *machineAgent, r *report) {
		r.sh("valgrind -q --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect " +
			"--error-exitcode=9 /usr/bin/cycle $valgrind rxe0 1")
		r.sh("cycle-sanitized 1000 rxe0 1")
	}, thousand},
	{"64 devices", func(a *machineAgent, r *report) {
		var links, devices strings.Builder
		for i := range 63 {
			fmt.Fprintf(&links, "link add d%d type dummy\nlink set d%d up\n", i, i)
			fmt.Fprintf(&devices, "link add rxe%d type rxe netdev d%d\n", i+1, i)
		}
		r.sh("echo '%s' | /usr/bin/ip -batch - && echo '%s' | rdma -b -", links.String(), devices.String())
		query(a, r)
	}, nil},
	{"race", raced, raced},
	{"device removed", func(a *machineAgent, r *report) { a.run(r, long, limit) }, func(a *machineAgent, r *report) {
		gone := time.AfterFunc(2*time.Second, func() {
			r.sh("basename $(readlink /sys/class/net/eth0/device) >/sys/bus/virtio/drivers/virtio_net/unbind")
		})
		a.run(r, long, limit)
		gone.Stop()
	}},
	{"no device", nil, func(a *machineAgent, r *report) {
		query(a, r)
		loop(a, r)
	}},
	{"no module", nil, func(a *machineAgent, r *report) {
		// All modules except those of the cables, the last loaded first.
		r.sh("for m in $(cut -d' ' -f1 /proc/modules | grep -v -e virtio -e failover); do rmmod $m 2>/dev/null; done; " +
			"test ! -e /sys/class/infiniband_verbs")
		loop(a, r)
	}},
}

// ready waits until the program has libibverbs' answer within the time of a start: on a busy host an emulated
// machine is too slow for it at times.
func ready() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		out, _ := exec.CommandContext(ctx, "/usr/bin/launch", "metrics").Output()
		if strings.Contains(string(out), `hca="rxe0"`) {
			return
		}
	}
}

// launch runs the program as a user does, and notes its exit status and output.
func launch(args ...string) func(a *machineAgent, r *report) {
	return func(_ *machineAgent, r *report) {
		ready()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "/usr/bin/launch", args...).CombinedOutput()
		if r.Note = string(out); err != nil {
			r.Trouble += fmt.Sprintf("launch %s: %v; ", strings.Join(args, " "), err)
		}
	}
}

// tried lets the program test the port, as a given user, and notes its output and exit
// status.
func tried(r *report, before string, user uint32) {
	ready()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c",
		before+"NCCL_IB_HCA=rxe0 /usr/bin/launch check --json --only rdma.loop,limits.memlock; echo status $?")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if r.Note = string(out); err != nil {
		r.Trouble += err.Error()
	}
}

func gid(n int) func(*verbs.Test) { return func(t *verbs.Test) { t.GID = n } }
func mtu(n int) func(*verbs.Test) { return func(t *verbs.Test) { t.MTU = n } }

// query asks all devices, in a child, with the time limit of a start.
func query(_ *machineAgent, r *report) {
	var f verbs.Facts
	if err := child.Ask(context.Background(), "verbs-ask", nil, &f, 3*time.Second); err != nil {
		r.Trouble += err.Error()
		return
	}
	r.Devices, r.Note = f.Devices, f.Err
}

func loop(_ *machineAgent, r *report) {
	res, err := confine.Loop(context.Background(), verbs.Test{Device: "rxe0", GID: 1}, limit)
	r.Loop = &res
	r.fail(err)
}

// raced runs a child with a data race, to show that the race detector would report one
// in the others.
func raced(_ *machineAgent, r *report) {
	var n int
	if err := child.Ask(context.Background(), raceChild, nil, &n, limit); err != nil {
		r.Note = err.Error()
	}
}

const raceChild = "race"

func race(_ context.Context, _ io.Reader, out io.Writer) error {
	var n int
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { n++ })
	}
	both.Wait()
	return json.NewEncoder(out).Encode(n)
}

// leakStep is the number of times between two readings of the memory.
const leakStep = 150

// thousand opens and closes everything for a test, again and again, in this process,
// and notes what remains.
func thousand(_ *machineAgent, r *report) {
	t := verbs.Test{Device: "rxe0", GID: 1, Sizes: []int{64}, Pings: 1}
	for i := range 1000 {
		if i >= 100 && (i-100)%leakStep == 0 { // what is allocated once exists at 100
			r.Note += left() + " "
		}
		if _, err := verbs.Loop(context.Background(), t); err != nil {
			r.fail(err)
			return
		}
	}
	r.Note += left()
}

// left returns the resident memory in KiB, and the number of open files.
func left() string {
	debug.FreeOSMemory()
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	files, _ := os.ReadDir("/proc/self/fd")
	return strings.Fields(rest)[0] + " " + strconv.Itoa(len(files))
}

// unprivileged runs this end as user nobody, with a limit of locked memory in KiB. It
// runs this binary again, which reaches the other machine through this process.
func (a *machineAgent) unprivileged(r *report, t verbs.Test, lock int) {
	t.Lead = a.role == client
	question, _ := json.Marshal(t)
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -l %d && exec /usr/bin/agent", lock))
	cmd.Env = []string{"PATH=/bin:/usr/bin", "GORACE=" + os.Getenv("GORACE"), varAgent + "=" + unprivileged,
		varList + "=" + string(question)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		r.Trouble += "start as nobody; "
		return
	}
	// One frame in, one frame out, until the report.
	lines := json.NewDecoder(out)
	for {
		var m message
		if err := lines.Decode(&m); err != nil {
			r.Trouble += "as nobody: " + err.Error() + "; "
			break
		}
		if m.Say == nil {
			r.Run, r.Err, r.Trouble = m.Run, m.Err, r.Trouble+m.Trouble
			break
		}
		theirs, err := a.peer.say(context.Background(), m.Say)
		answer := message{Say: theirs}
		if err != nil {
			answer.Trouble = err.Error()
		}
		json.NewEncoder(in).Encode(answer)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		r.Trouble += "as nobody: " + err.Error() + "; "
	}
}

// message is exchanged between unprivileged and its process.
type message struct {
	Say     []byte        `json:",omitempty"`
	Run     *verbs.Result `json:",omitempty"`
	Err     *verbs.Error  `json:",omitempty"`
	Trouble string        `json:",omitempty"`
}

// runUnprivileged runs the agent in that process and returns its exit status.
func runUnprivileged() int {
	var t verbs.Test
	if err := json.Unmarshal([]byte(os.Getenv(varList)), &t); err != nil {
		return 1
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	say := func(_ context.Context, mine []byte) ([]byte, error) {
		if err := out.Encode(message{Say: mine}); err != nil {
			return nil, err
		}
		var m message
		err := in.Decode(&m)
		if err == nil && m.Trouble != "" {
			err = fmt.Errorf("%s: %w", m.Trouble, io.ErrUnexpectedEOF)
		}
		return m.Say, err
	}
	res, err := confine.Run(context.Background(), t, limit, say)
	m := message{Run: &res}
	var r report
	r.fail(err)
	m.Err, m.Trouble = r.Err, r.Trouble
	if out.Encode(m) != nil {
		return 1
	}
	return 0
}
