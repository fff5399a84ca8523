package nccl

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/starts"
)

// patience is how long a start may take: torch and CUDA start, NCCL connects, a sum.
const patience = 40 * time.Second

// Where the plain start runs, launch must start it. Where it hangs or dies, launch must say something of it,
// or make it run.
func TestStartsOfNCCL(t *testing.T) {
	needGPU(t)
	var mu sync.Mutex
	for _, c := range all() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plain := start(t, c, false)
			with := start(t, c, true)
			ran, said := summed(plain), words(with)
			how := judge(ran, summed(with), said)
			mu.Lock()
			results.add("start\t%s\t%s\t%s\t%s\t%s", c.name, ends(plain), ends(with), how, cmp.Or(said, "-"))
			mu.Unlock()
			if how == "false" || how == "silent" {
				t.Errorf("%s: plain: %s; launch: %s; %s", how, ends(plain), ends(with), said)
			}
		})
	}
}

// judge compares how the plain start ended with what launch did and said. That GPUs are busy is no word: these tests
// share one. A node's loss alone is vague.
func judge(ran, ranWith bool, said string) string {
	why, lost := false, false
	for word := range strings.SplitSeq(said, "; ") {
		switch {
		case word == "" || strings.Contains(word, "gpu.busy"):
		case strings.Contains(word, "node.failed") || strings.Contains(word, "job.hangs"):
			lost = true
		default:
			why = true
		}
	}
	switch {
	case ran && ranWith && why:
		return "warned"
	case ran && ranWith:
		return "quiet"
	case ran:
		return "false"
	case ranWith:
		return "prevented"
	case why:
		return "right"
	case lost:
		return "vague"
	}
	return "silent"
}

// start starts both hosts, and returns how it went on each.
func start(t *testing.T, c one, launch bool) []*starts.Start {
	t.Helper()
	lab := netns.New(t, 2)
	lab.MayLeave("*")
	if c.before != nil {
		c.before(lab.Hosts)
	}
	out := []*starts.Start{{}, {}}
	var wg sync.WaitGroup
	for i, h := range lab.Hosts {
		env := slices.Concat(tools.torch.Env, c.both)
		if i == 1 {
			env = append(env, c.odd...)
		}
		path := "PATH=" + filepath.Dir(tools.torch.Python) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		env = append(env, path, "LD_LIBRARY_PATH="+os.Getenv("LD_LIBRARY_PATH"))
		per := strconv.Itoa(max(c.per, 1))
		argv := []string{"torchrun", "--nnodes", "2", "--nproc_per_node", per}
		if launch {
			argv = append([]string{tools.launch, "--store", "host0", "--join-timeout", "20s", "--hang-after", "5s"}, argv...)
		} else {
			argv = append(argv, "--node_rank", strconv.Itoa(i), "--master_addr", "10.77.0.1", "--master_port", "29500")
		}
		wg.Go(func() { out[i].Exec(t, h, patience, env, h.Named(append(argv, tools.script)...)...) })
	}
	wg.Wait()
	if record != "" {
		var b strings.Builder
		for i, s := range out {
			fmt.Fprintf(&b, "== host%d\n%s%s\n", i, s.Printed(), s.Out.String())
		}
		name := strings.ReplaceAll(c.name, " ", "-") + map[bool]string{true: ".launch", false: ".plain"}[launch]
		if err := os.WriteFile(filepath.Join(record, name), []byte(b.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
	return out
}

// summed reports whether all ranks have summed and the start has ended well.
func summed(all []*starts.Start) bool {
	return !slices.ContainsFunc(all, func(s *starts.Start) bool {
		return s.Status != 0 || !strings.Contains(s.Out.String(), " summed")
	})
}

// ends says how the two ended: "0 0 6 s".
func ends(all []*starts.Start) string {
	var b strings.Builder
	var last time.Duration
	for _, s := range all {
		fmt.Fprintf(&b, "%d ", s.Status)
		last = max(last, s.Ended.Sub(s.Begun))
	}
	return fmt.Sprintf("%s%.0f s", &b, last.Seconds())
}

// words returns what launch said of trouble: "fail env.ifname host1 +3.1 s".
func words(all []*starts.Start) string {
	var out []string
	for i, s := range all {
		for _, l := range s.Lines() {
			about := ""
			switch d := l.Said; {
			case d.Type == "finding" && (d.Status == "fail" || d.Status == "warn"):
				about = d.Status + " " + d.ID
			case d.Type == "error", d.Type == "doctor", d.Type == "verdict":
				about = d.Type + " " + cmp.Or(d.ID, d.What)
			}
			if about != "" && !slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(o, about+" host") }) {
				out = append(out, fmt.Sprintf("%s host%d +%.1f s", about, i, l.At.Sub(s.Begun).Seconds()))
			}
		}
	}
	return strings.Join(out, "; ")
}
