package truth

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A run of the bench is set by these variables; without them it is the short one of `go test`.
const (
	seedVar    = "TRUTH_SEED"    // one draw, with its changes: 17/drop0; or several, by commas
	drawsVar   = "TRUTH_DRAWS"   // how many draws
	firstVar   = "TRUTH_FIRST"   // their first seed; fresh ones by default
	torchVar   = "TRUTH_TORCH"   // the percentage of them that runs a real torchrun
	backendVar = "TRUTH_BACKEND" // nccl: that torchrun's ranks share this machine's GPU; else gloo
	shrinkVar  = "TRUTH_SHRINK"  // no: a disagreement is repeated, and not made simpler
	outVar     = "TRUTH_OUT"     // a folder for results.jsonl, and for what was printed in each disagreement
)

const (
	fewDraws   = 20
	torchShare = 4 // percent
	// tolerated is how many of the few draws may disagree: at 4 % of hard disagreements, what the first round had,
	// 1 in 100 runs has more of them.
	tolerated = 3
)

// Where a job runs alone, launch lets it run; where it hangs or dies, launch says why. The short run fails only if more
// hard disagreements than are tolerated happen twice: its draws are fresh. `make truth` prints them all.
func TestLaunchIsRightWhereTheJobDecides(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2 minutes")
	}
	for _, tool := range []string{"nft", "tc", "sysctl", "setpriv", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	if _, err := os.Stat(systemPython); err != nil {
		t.Skipf("needs Python: %v", err)
	}
	full := os.Getenv(drawsVar) != ""
	var hard atomic.Int32
	t.Cleanup(func() {
		if n := hard.Load(); n > tolerated {
			t.Errorf("%d draws disagree, each twice; at most %d may", n, tolerated)
		}
	})
	for _, seed := range seeds(t) {
		t.Run(strings.ReplaceAll(seed, "/", "-"), func(t *testing.T) {
			t.Parallel()
			share := 0
			if full && tools.torch != "" {
				share = torchShare
				if s, err := strconv.Atoi(os.Getenv(torchVar)); err == nil {
					share = s
				}
			}
			d, err := newDraw(seed, share)
			if err != nil {
				t.Fatal(err)
			}
			r := try(t, d)
			switch reason, isKnown := known(r); {
			case r.Verdict.good():
			case isKnown:
				r.Known = reason
			case full:
				again := try(t, d)
				if r.Once = again.Verdict != r.Verdict; r.Once {
					break
				}
				r = again
				if os.Getenv(shrinkVar) != "no" {
					r = shrunk(t, r, d)
				}
			case r.Verdict.hard():
				if again := try(t, d); again.Verdict == r.Verdict {
					hard.Add(1)
					t.Logf("%s: %s, twice\n%s", again.Draw, again.Verdict, again.printed())
				}
			}
			results.add(t, r)
		})
	}
}

// seeds returns the seeds of this run.
func seeds(t *testing.T) (all []string) {
	if s := os.Getenv(seedVar); s != "" {
		return strings.Split(s, ",")
	}
	number := func(name string, preset uint64) uint64 {
		n, err := strconv.ParseUint(cmp.Or(os.Getenv(name), fmt.Sprint(preset)), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	first := number(firstVar, rand.Uint64N(1_000_000_000))
	for i := range number(drawsVar, fewDraws) {
		all = append(all, fmt.Sprint(first+i))
	}
	t.Logf("%d draws from %s=%d on", len(all), firstVar, first)
	return all
}

// try runs a draw on both sides.
func try(t *testing.T, d draw) result {
	alone := newBed(t, d, false)
	alone.run(func() bool { return false })
	with := newBed(t, d, true)
	with.run(func() bool { // the right cause is enough of a job that does not run
		if alone.ran() {
			return false
		}
		v, _ := judgeHarmful(d, with, with.statements())
		return v == right
	})
	return judge(d, alone, with)
}

// shrunk returns the simplest draw that shows the same disagreement.
func shrunk(t *testing.T, r result, d draw) result {
	from := r.Seed
	for again := true; again; {
		again = false
		for _, change := range d.simpler() {
			less, err := d.changed(change)
			if err != nil {
				t.Fatal(err)
			}
			if s := try(t, less); s.Verdict == r.Verdict {
				d, r, again = less, s, true
				break
			}
		}
	}
	r.from = from
	return r
}

// printed returns all that both sides of a draw printed.
func (r result) printed() string {
	return fmt.Sprintf("%s=%s  %s\n%s: without launch it %s; with launch: %s\n%s\n%s\n%s", seedVar, r.Seed, r.Draw,
		r.Verdict, r.Alone, r.Launch, r.Why, r.alone.printed(), r.with.printed())
}
