package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// soakTime returns how long `make soak` lets a job run. Without it the soaks are skipped.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	minutes, err := strconv.ParseFloat(os.Getenv("LAUNCH_SOAK"), 64)
	if err != nil {
		t.Skip("takes minutes: make soak")
	}
	return time.Duration(minutes * float64(time.Minute))
}

// A job that runs for long: its companions grow in nothing.
func TestSoakACompanionStaysSmall(t *testing.T) {
	whole := soakTime(t)
	c, file, nodes := commandsRun(t, 6)
	pids := map[string]int{}
	for i, n := range nodes {
		pids[n.name] = companionOf(t, c.lab.Hosts[i], n)
	}
	settled := min(whole/5, time.Minute) // what a start has left is collected
	pause(t, settled)
	first, began := usages(t, pids), time.Now()
	pause(t, whole-settled)
	for name, last := range usages(t, pids) {
		cpu := last.cpu - first[name].cpu
		t.Logf("%s: %d to %d MB, %.3f %% of a core", name, first[name].mb, last.mb,
			100*cpu.Seconds()/time.Since(began).Seconds())
		if last.mb > first[name].mb+8 {
			t.Errorf("%s grew from %d to %d MB", name, first[name].mb, last.mb)
		}
	}
	end(t, file)
	for _, n := range nodes {
		n.exits(0)
	}
}

// What it costs to watch a job: one that hangs is looked at again and again, one that trains is not.
func TestSoakTheWatchOfAHang(t *testing.T) {
	whole := soakTime(t)
	for _, tt := range []struct{ name, late, after string }{
		{"hangs, watched", "1", "2m"}, {"hangs, not watched", "1", "0"}, {"trains, watched", "none", "2m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := trains(t, 2)
			j.begin(2, tt.late, "--hang-after", tt.after)
			t.Parallel() // once it runs
			pids := map[string]int{}
			for i, n := range j.nodes {
				pids[n.name] = companionOf(t, j.lab.Hosts[i], n)
			}
			pause(t, min(whole/5, 20*time.Second)) // what a start has left is collected
			first, began := usages(t, pids), time.Now()
			pause(t, whole)
			for name, last := range usages(t, pids) {
				cpu, took := last.cpu-first[name].cpu, time.Since(began)
				t.Logf("%s: %v of CPU time in %v, %.3f %% of a core; %d MB, %d at most", name, cpu, took.Round(time.Second),
					100*cpu.Seconds()/took.Seconds(), last.mb, last.most)
			}
			if n := hangs(j.nodes[0]); (n > 0) != (tt.name == "hangs, watched") {
				t.Errorf("it is said %d times:\n%s", n, j.nodes[0].err)
			}
			end(t, j.gate)
			for _, n := range j.nodes {
				n.exits(0)
			}
		})
	}
}

// usage is what a process has used.
type usage struct {
	mb, most int // resident
	cpu      time.Duration
}

func usages(t *testing.T, pids map[string]int) map[string]usage {
	t.Helper()
	out := map[string]usage{}
	for name, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // from the third field (proc_pid_stat(5))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		out[name] = usage{resident(t, strconv.Itoa(pid), "VmRSS"), resident(t, strconv.Itoa(pid), "VmHWM"),
			time.Duration(user+system) * 10 * time.Millisecond}
	}
	return out
}

// Many jobs at once on the same hosts: each gets its own nodes.
func TestSoakACrowdOfJobs(t *testing.T) {
	soakTime(t)
	const jobs = 40
	c := embedded(t, 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	right := 0
	nodes := make([][]*node, jobs)
	for i := range jobs {
		own := *c
		own.store, own.limit = fmt.Sprintf("host0:%d", 29400+i), 2*time.Minute
		own.line = []string{"sh", "-c", fmt.Sprintf("echo job %d rank $RANK of $WORLD_SIZE", i)}
		nodes[i] = []*node{own.start(0, "--nnodes", "2"), own.start(1, "--nnodes", "2")}
	}
	for i, pair := range nodes {
		wg.Go(func() {
			for rank, n := range pair {
				ok := n.ends() == 0 && n.out.String() == fmt.Sprintf("job %d rank %d of 2\n", i, rank)
				mu.Lock()
				if ok {
					right++
				} else {
					t.Errorf("job %d: %s%s", i, n.out, n.err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d right", right, 2*jobs)
}

// One start after the other.
func TestSoakStartsThatFollowEachOther(t *testing.T) {
	soakTime(t)
	c := embedded(t, 2)
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	var took []time.Duration
	for range 100 {
		began := time.Now()
		trained(t, 1, c.start(0, "--nnodes", "2"), c.start(1, "--nnodes", "2"))
		took = append(took, time.Since(began))
		if t.Failed() {
			return
		}
	}
	slices.Sort(took)
	t.Logf("median %s, slowest %s", took[len(took)/2], took[len(took)-1])
}
