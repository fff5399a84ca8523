package scene

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"launch/lab/programs"
)

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(asNobody)); err == nil {
		s, err := Take(context.Background(), Options{PID: pid, Span: 100 * time.Millisecond})
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// sleeper is two ranks of Gloo with a store of rank 0, of which the second sleeps before init.
const sleeper = `
import os, sys, time
import torch.distributed as dist
rank = int(os.environ["RANK"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0, wait_for_workers=False)
print("before", "\x1b[31minit\x1b[0m", file=sys.stderr, flush=True)
if rank == 1:
    time.sleep(600)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
`

// start starts a program that ends with the test.
func start(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	// Start returns while the kernel still lays out the new image: its command line follows, and then its environment.
	for _, name := range []string{"cmdline", "environ"} {
		eventually(t, "a "+name, func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, name))
			return err != nil || len(text) > 0 || name == "environ" && cmd.Env != nil && len(cmd.Env) == 0
		})
	}
	return cmd.Process.Pid
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// eventually waits until what is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func (s Scene) proc(pid int) Proc {
	for _, p := range s.Procs {
		if p.PID == pid {
			return p
		}
	}
	return Proc{}
}

// threadOf returns whether a process has a thread of this name.
func (p Proc) threadOf(name string) bool {
	return slices.ContainsFunc(p.Threads, func(t Thread) bool { return t.Name == name })
}

func TestTakeShowsARankThatSleepsBeforeInit(t *testing.T) {
	python := programs.CurrentTorch(t).Python
	port, dir := freePort(t), t.TempDir()
	rank := func(n int) int {
		cmd := exec.Command(python, "-c", sleeper, "--api-key=hunter2")
		cmd.Env = append(os.Environ(), fmt.Sprint("RANK=", n), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
			"MASTER_PORT="+port, "SOME_SECRET=hunter2", "NCCL_DEBUG=INFO")
		log, err := os.Create(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
		return start(t, cmd)
	}
	t.Cleanup(func() {
		for _, name := range []string{"0", "1"} {
			if text, _ := os.ReadFile(filepath.Join(dir, name)); t.Failed() {
				t.Logf("rank %s: %s", name, text)
			}
		}
	})
	first, second := rank(0), rank(1)
	eventually(t, "both ranks are where they wait", func() bool {
		log, _ := os.ReadFile(filepath.Join(dir, "1"))
		return len(log) > 0 && slices.Contains(threadNames(first), "gloo_tcp_loop")
	})
	s := take(t, Options{PID: second})
	text, err := json.Marshal(s)
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%v, or a secret in %s", err, text)
	}
	waits, sleeps := s.proc(first), s.proc(second)
	if len(s.Procs) != 2 || waits.Role != Rank || waits.Env["RANK"] != "0" || sleeps.Env["RANK"] != "1" {
		t.Errorf("processes: %+v", s.Procs)
	}
	if c := waits.Syscall; c == nil || c.Name != "poll" || c.Limit != 1800*time.Second || c.Socket == 0 {
		t.Errorf("rank 0 is in %+v, want a poll of 1800 s on a socket", c)
	}
	if !waits.threadOf("gloo_tcp_loop") || !waits.threadOf("pt_tcpstore_uv") || waits.Wchan != "poll_schedule_timeout" {
		t.Errorf("rank 0 waits in %s, threads %+v", waits.Wchan, waits.Threads)
	}
	if c := sleeps.Syscall; c == nil || c.Name != "clock_nanosleep" || !sleeps.Still || sleeps.threadOf("gloo_tcp_loop") {
		t.Errorf("rank 1 is in %+v, threads %+v, still: %t", c, sleeps.Threads, sleeps.Still)
	}
	if _, ok := sleeps.Libs["torch"]; !ok || time.Since(sleeps.Started) > time.Hour {
		t.Errorf("rank 1: libraries %v, started %v", sleeps.Libs, sleeps.Started)
	}
	if diff := cmp.Diff([]string{"before init"}, sleeps.Last); diff != "" {
		t.Errorf("last lines (-want +got):\n%s", diff)
	}
	of := func(s Scene, pid int, state string) (n int) {
		for _, k := range s.Sockets {
			if k.PID == pid && k.State == state {
				n++
			}
			if k.Inode == waits.Syscall.Socket && (k.Info == nil || k.Info.Sent == 0 || k.Info.LastRecv == 0) {
				t.Errorf("the socket that rank 0 polls: %+v", k.Info)
			}
		}
		return n
	}
	if of(s, first, "listen") != 2 || of(s, first, "established") != 3 || of(s, second, "established") != 1 {
		t.Errorf("sockets: %+v", s.Sockets)
	}
	if len(s.Stores) != 1 || s.Stores[0].Addr != "127.0.0.1:"+port || s.Stores[0].Kind != kindMaster {
		t.Errorf("stores: %+v", s.Stores)
	}
	_ = unix.Kill(second, unix.SIGSTOP)
	if p := take(t, Options{PID: first}).proc(second); p.State != "T" || p.Wchan != "do_signal_stop" {
		t.Errorf("rank 1 was stopped: state %s, in %s", p.State, p.Wchan)
	}
}

// take takes a scene with a short span, without asking a store.
func take(t *testing.T, o Options) Scene {
	t.Helper()
	if o.Span = 300 * time.Millisecond; o.Store == nil {
		o.Store = func(context.Context, string, int) Store { return Store{Outcome: Refused} }
	}
	began := time.Now()
	s, err := Take(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := s.Bound(); err != nil {
		t.Errorf("a scene of this node: %v", err)
	}
	return s
}

// The companions are named before the samples, which take seconds: launch doctor asks them meanwhile.
func TestCompanionsAreNamedBeforeTheSamples(t *testing.T) {
	var named []Proc
	var after time.Duration
	start(t, companionOf(t, "other")) // neither has a command any more, and they are two jobs
	began := time.Now()
	s, err := Take(t.Context(), Options{Span: 2 * time.Second, PID: start(t, companionOf(t, "store-29377")),
		Found: func(all []Proc) { named, after = append(named, all...), time.Since(began) },
		Store: func(context.Context, string, int) Store { return Store{Outcome: Refused} }})
	if err != nil {
		t.Fatal(err)
	}
	if len(named) != 1 || named[0].Role != Companion || named[0].User != os.Geteuid() || named[0].PID != s.Procs[0].PID {
		t.Errorf("named: %+v, of %+v", named, s.Procs)
	}
	if all := time.Since(began); after > all-s.Span {
		t.Errorf("named after %v of %v", after, all)
	}
}

// Where the processes took all the time to be read, a store that answers late must not look like one that is cut off.
func TestAStoreHasItsOwnTimeToAnswer(t *testing.T) {
	left := time.Duration(-1)
	_, err := Take(t.Context(), Options{Span: time.Millisecond, PID: start(t, rankOf("29500")),
		Found: func([]Proc) { time.Sleep(allLimit) },
		Store: func(ctx context.Context, _ string, _ int) Store {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return Store{Outcome: Refused}
		}})
	if err != nil || left < dialLimit {
		t.Errorf("%v, and the store was asked for %v", err, left)
	}
}

// rankOf returns a process with the environment of a rank of torchrun.
func rankOf(port string) *exec.Cmd {
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "TORCHELASTIC_RUN_ID=1"}
	return cmd
}

// companionOf returns a process with the environment of a job's companion.
func companionOf(t *testing.T, job string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{"LAUNCH_CHILD=companion", "LAUNCH_COMPANION=" + job + " 127.0.0.1:29377"}
	return cmd
}
