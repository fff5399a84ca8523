package companion

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/process"
)

// How long torchrun may go on after a rank has failed: while other ranks go on, too, and without any. It ends those
// within a second, as a rule, or starts all again; on a busy machine it takes several seconds to end.
const deadRankAfter, lastRankAfter = 5 * time.Second, 30 * time.Second

// ranks are the ranks that torchrun, or a script that starts its ranks itself, runs on this node.
type ranks struct {
	watcher *watcher
	mu      sync.Mutex
	known   map[int]string // by PID: the local rank
	wg      sync.WaitGroup
	removed sync.Map  // the folders of which it has said that they are gone
	explain sync.Once // torchrun ends the other ranks after the first that fails
	// deadRankAfter and lastRankAfter
	soon, late time.Duration
}

// watchRanks reports ranks of this node that have failed while torchrun, which is the command or
// below it, goes on.
func (w *watcher) watchRanks(ctx context.Context) {
	r := &ranks{watcher: w, known: map[int]string{}, soon: deadRankAfter, late: lastRankAfter}
	defer r.wg.Wait()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			pid := w.p.launch
			if command := w.p.command.Load(); command != 0 {
				pid = int(command)
			}
			r.find(ctx, pid)
		case <-ctx.Done():
			return
		}
	}
}

// find begins to follow the ranks below a process that are new.
func (r *ranks) find(ctx context.Context, command int) {
	for next := process.Children(command); len(next) > 0; next = next[1:] {
		pid := next[0]
		r.mu.Lock()
		_, known := r.known[pid]
		r.mu.Unlock()
		if known {
			continue
		}
		local, global := process.Variable(pid, "LOCAL_RANK"), process.Variable(pid, "RANK")
		// torchrun sets it in each rank (torch/distributed/elastic/agent/server/local_elastic_agent.py).
		if process.Variable(pid, "TORCHELASTIC_RESTART_COUNT") == "" || local == "" {
			next = append(next, process.Children(pid)...) // a shell, or torchrun itself
			if local, global = "", ""; !r.watcher.p.spec.Spawns || !inGroup(pid) {
				continue
			}
		}
		r.mu.Lock()
		r.known[pid] = local
		r.mu.Unlock()
		r.wg.Go(func() { r.follow(ctx, pid, local, global) })
	}
}

// follow waits for the end of a rank, and reports it if torchrun goes on without it.
func (r *ranks) follow(ctx context.Context, pid int, local, global string) {
	before := r.precede(ctx, pid)
	status, ok := r.fate(ctx, pid)
	r.mu.Lock()
	delete(r.known, pid)
	r.mu.Unlock()
	ended := time.Now()
	end := endOf(pid, global, status, before(ended, status))
	// where a script ends its ranks itself, one that ends well says nothing of the job
	if ok && (end.Rank >= 0 || status != 0) && r.watcher.p.ends != nil {
		r.watcher.p.ends.post(end)
	}
	if !ok || status == 0 {
		return
	}
	if w := r.watcher; w.p.doomed() { // torchrun ends within a second or two, and this process with it
		r.explain.Do(func() {
			w.memory()
			w.p.explain("a rank of this node", func() { w.p.ends.settle(ctx) })
		})
	}
	if local == "" || !r.outlived(ctx, local) { // a script may go on without a rank
		return
	}
	f := finding.Warnf("rank %s of this node ended with status %d at %s, and torchrun has not ended",
		global, status, ended.Format("15:04:05")).Do("%s", meaning(status))
	r.watcher.p.say(f.Named("node.rank"), "")
}

// endOf returns how a rank has ended, after what was seen.
func endOf(pid int, global string, status int, seen prior) rankEnd {
	end := rankEnd{Rank: -1, PID: pid, Status: status}
	if status != 0 {
		end.Prior = seen
	}
	if rank, err := strconv.Atoi(global); err == nil {
		end.Rank, end.PID = rank, 0
	}
	return end
}

// outlived reports whether torchrun goes on without a rank of this node that has failed.
func (r *ranks) outlived(ctx context.Context, local string) bool {
	for _, pause := range []time.Duration{r.soon, r.late - r.soon} {
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // the command has ended too
			return false
		}
		if r.watcher.p.ended.Load() { // it has, and waits for the other nodes
			return false
		}
		r.mu.Lock()
		others := slices.Collect(maps.Values(r.known))
		r.mu.Unlock()
		if slices.Contains(others, local) {
			return false // started again
		}
		if len(others) > 0 {
			return true
		}
	}
	return true
}

// fate waits for the end of a process, and returns its exit status if the kernel reports it.
func (r *ranks) fate(ctx context.Context, pid int) (status int, ok bool) {
	stat, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	defer stat.Close()
	f, err := handoff.Open(pid)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if handoff.Wait(ctx, f) != nil {
		return 0, false
	}
	if status, ok = handoff.ZombieStatus(stat); ok {
		return status, true
	}
	return handoff.Status(int(f.Fd()), statusBudget)
}

// inGroup reports whether a process has threads of a process group of torch: it is a rank, and no worker of one.
func inGroup(pid int) bool {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	return slices.ContainsFunc(names, func(name string) bool {
		comm, _ := os.ReadFile(name)
		return slices.ContainsFunc([]string{"gloo_tcp_loop", "pt_gloo_", "pt_nccl_"}, func(begin string) bool {
			return strings.HasPrefix(string(comm), begin)
		})
	})
}
