package faultbench

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oddity is something that is unusual and harmless.
type oddity struct {
	name  string
	takes string // words, none of which another oddity of the start may have
	needs string // a program or a file; without it the oddity is left out
	make  func(s *healthy)
}

// healthy is one start with a few oddities.
type healthy struct {
	*trial
	r      *rand.Rand
	six    bool // the hosts have no IPv4 address
	naming naming
}

// oddities returns all oddities in the order in which a start makes them: first what
// others build on.
func oddities() []oddity {
	return slices.Concat(machineOddities(), networkOddities(), processOddities(), lineOddities(), storeOddities())
}

// some calls f for one, a few or all of the hosts.
func (s *healthy) some(f func(*host)) {
	switch s.r.IntN(3) {
	case 0:
		f(s.hosts[s.r.IntN(len(s.hosts))])
	case 1:
		for _, i := range s.r.Perm(len(s.hosts))[:1+s.r.IntN(len(s.hosts))] {
			f(s.hosts[i])
		}
	default:
		s.each(f)
	}
}

// one returns one of several values.
func one[T any](s *healthy, of ...T) T { return of[s.r.IntN(len(of))] }

// healthyStart is the plan of one healthy start.
type healthyStart struct {
	name  string
	r     *rand.Rand
	hosts int
	odd   []oddity
}

// draw returns the start of a seed: the number of hosts, and one to four oddities
// that are possible together.
func draw(seed uint64) healthyStart {
	r := rand.New(rand.NewPCG(seed, 0))
	st := healthyStart{name: fmt.Sprint(seed), r: r, hosts: 2 + r.IntN(4)}
	all := oddities()
	n := 1 + r.IntN(4)
	var picked []int
	taken := map[string]bool{}
	order := r.Perm(len(all))
	if r.IntN(3) == 0 { // with GPUs more checks run
		order = append([]int{r.IntN(len(machineOddities()))}, order...)
	}
	for _, i := range order {
		takes := strings.Fields(all[i].takes)
		if len(picked) == n || slices.Contains(picked, i) ||
			slices.ContainsFunc(takes, func(t string) bool { return taken[t] }) {
			continue
		}
		for _, t := range takes {
			taken[t] = true
		}
		picked = append(picked, i)
	}
	slices.Sort(picked)
	for _, i := range picked {
		st.odd = append(st.odd, all[i])
	}
	return st
}

// seeds returns the seeds of this run: 200 from LAUNCH_FAULTBENCH_SEED on, or the 12
// of them with the most oddities.
func seeds() []uint64 {
	first := uint64(1)
	if s := os.Getenv("LAUNCH_FAULTBENCH_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	var all []uint64
	for i := range uint64(200) {
		all = append(all, first+i)
	}
	if full {
		return all
	}
	var few []uint64
	seen := map[string]bool{}
	fresh := func(seed uint64) (n int) {
		for _, o := range draw(seed).odd {
			if !seen[o.name] {
				n++
			}
		}
		return n
	}
	for range 12 {
		best := slices.MaxFunc(all, func(a, b uint64) int { return cmp.Compare(fresh(a), fresh(b)) })
		few = append(few, best)
		for _, o := range draw(best).odd {
			seen[o.name] = true
		}
	}
	return few
}

// together are oddities that caused an alarm in combination, which few seeds draw.
var together = [][]string{{"the default route by another interface", "the own name on 127.0.1.1"},
	{"containers of one machine, with host names of their own", "a name server that answers for any name"},
	{"an NCCL for a later minor release of CUDA than the driver's"},
	{"two interfaces in one network, strict rp_filter"}}

// chosen returns a few starts with them, where "some" is the first host alone, and one with each oddity that no other
// one fits.
func chosen(t *testing.T) (out []healthyStart) {
	all := oddities()
	for i, o := range lonelyOddities() {
		out = append(out, healthyStart{fmt.Sprintf("alone-%d", i), rand.New(first{}), 3, []oddity{o}})
	}
	for i, names := range together {
		var odd []oddity
		for _, name := range names {
			at := slices.IndexFunc(all, func(o oddity) bool { return o.name == name })
			if at < 0 {
				t.Fatalf("no oddity is called %q", name)
			}
			odd = append(odd, all[at])
		}
		for hosts := range 4 {
			out = append(out, healthyStart{fmt.Sprintf("together-%d-%d", i, 2+hosts), rand.New(first{}), 2 + hosts, odd})
		}
	}
	return out
}

// first is a source of randomness that always draws the first of several.
type first struct{}

func (first) Uint64() uint64 { return 1 << 32 } // with 0 rand draws again, for ever

// A healthy start with a few oddities prints no warning, and runs. For one seed:
// -run 'Healthy.*/^17$' with LAUNCH_FAULTBENCH=full.
func TestHealthyStartsGiveNoAlarm(t *testing.T) {
	starts := chosen(t)
	for _, seed := range seeds() {
		starts = append(starts, draw(seed))
	}
	for _, st := range starts {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			s := &healthy{trial: newTrial(t, st.hosts), r: st.r}
			s.each(func(h *host) {
				h.line = []string{"torchrun", "--nnodes", fmt.Sprint(st.hosts), "--nproc-per-node", "2", tools.script}
			})
			var names []string
			for _, o := range st.odd {
				if o.missing() {
					t.Logf("left out: %s needs %s", o.name, o.needs)
					continue
				}
				o.make(s)
				names = append(names, o.name)
			}
			s.name()
			s.run()
			alarm, took := s.alarm(), s.overhead()
			kept.Lock()
			kept.starts = append(kept.starts, started{names, took})
			if alarm != "" {
				kept.alarms = append(kept.alarms, fmt.Sprintf("%s (%s): %s", st.name, strings.Join(names, ", "), alarm))
			}
			kept.Unlock()
			if alarm != "" {
				t.Errorf("%s: %s\n%s", strings.Join(names, ", "), alarm, s.printed())
			}
		})
	}
}

// missing reports whether this machine cannot make the oddity.
func (o oddity) missing() bool {
	if o.needs == "" {
		return false
	}
	_, err := os.Stat(o.needs)
	if !strings.HasPrefix(o.needs, "/") {
		_, err = exec.LookPath(o.needs)
	}
	return err != nil
}

// alarm returns what a healthy start should not have printed or done.
func (s *healthy) alarm() string {
	ranks := map[string]int{}
	size := 0
	for _, h := range s.hosts {
		for _, l := range h.Lines() {
			if l.Said.Type == "finding" && (l.Said.Status == "warn" || l.Said.Status == "fail") {
				return fmt.Sprintf("%s: %s %s: %s", h.Name, l.Said.Status, l.Said.ID, l.Said.What)
			}
		}
		if h.Status != 0 {
			return fmt.Sprintf("%s ended with %d", h.Name, h.Status)
		}
		ran := 0
		for line := range strings.Lines(h.Out.String()) {
			var rank, of int
			if n, _ := fmt.Sscanf(line, "rank %d of %d", &rank, &of); n == 2 {
				ranks[fmt.Sprintf("%d of %d", rank, of)]++
				size, ran = of, ran+1
			}
		}
		if ran == 0 {
			return h.Name + " ran no rank"
		}
	}
	for i := range size {
		if ranks[fmt.Sprintf("%d of %d", i, size)] != 1 || len(ranks) != size {
			return fmt.Sprintf("a rank does not run exactly once: %v", ranks)
		}
	}
	return ""
}

// overhead returns the time from the last host's start to its first rank.
func (s *healthy) overhead() time.Duration {
	last := slices.MaxFunc(s.hosts, func(a, b *host) int { return a.Begun.Compare(b.Begun) })
	return last.Out.First().Sub(last.Begun)
}

// started is the outcome of one healthy start.
type started struct {
	names []string
	took  time.Duration
}

func printHealthy(w io.Writer, all []started, alarms []string) {
	if len(all) == 0 {
		return
	}
	times := map[string]int{}
	for _, o := range oddities() {
		times[o.name] = 0
	}
	var took []time.Duration
	for _, s := range all {
		for _, n := range s.names {
			times[n]++
		}
		if s.took > 0 {
			took = append(took, s.took)
		}
	}
	slices.Sort(took)
	rarest, most := len(all), 0
	var never []string
	for name, n := range times {
		rarest, most = min(rarest, n), max(most, n)
		if n == 0 {
			never = append(never, name)
		}
	}
	slices.Sort(never)
	fmt.Fprintf(w, "\n%d healthy starts, %d false alarms; %d oddities, each in %d to %d of them\n", len(all), len(alarms),
		len(times), rarest, most)
	if len(never) > 0 && full {
		fmt.Fprintln(w, "  never made:", strings.Join(never, "; "))
	}
	if len(took) > 0 {
		fmt.Fprintf(w, "from the last node's start to its first rank: %.2f s in the median, %.2f s in nine of ten\n",
			took[len(took)/2].Seconds(), took[len(took)*9/10].Seconds())
	}
	for _, a := range alarms {
		fmt.Fprintln(w, "  "+a)
	}
}
