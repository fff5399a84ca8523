package bandwidth

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"launch/preflight/bench"
)

// simulated is a cluster whose flows are drawn: each port is as fast as its like
// but for noise, and sick ones are slower.
type simulated struct {
	r       *rand.Rand
	nodes   int
	rails   int
	noise   float64             // standard deviation of a flow, as a share
	hiccups float64             // how many flows lose much for another reason
	sick    map[sickPort]factor // what a port sends and receives of what it should
	ways    map[[2]int]float64  // slow ways on rail 0, from lower to higher rank
}

type sickPort struct{ rank, rail int }

type factor struct{ out, in float64 }

// speed draws a flow.
func (s *simulated) speed(from, to, rail int) float64 {
	v := 1 - max(0, s.r.NormFloat64()*s.noise+s.noise)
	if s.r.Float64() < s.hiccups {
		v *= 0.3 + 0.5*s.r.Float64()
	}
	if f, ok := s.sick[sickPort{from, rail}]; ok {
		v = min(v, f.out*(1+s.r.NormFloat64()*s.noise))
	}
	if f, ok := s.sick[sickPort{to, rail}]; ok {
		v = min(v, f.in*(1+s.r.NormFloat64()*s.noise))
	}
	if f, ok := s.ways[[2]int{from, to}]; ok && rail == 0 {
		v = min(v, f*(1+s.r.NormFloat64()*s.noise))
	}
	return 12.1e9 * max(v, 0.001)
}

func (s *simulated) sample(round, a, b, rail int) bench.Sample {
	name := fmt.Sprintf("mlx5_%d", rail)
	return bench.Sample{Round: round, From: a, To: b, FromPort: name, ToPort: name, Kind: "verbs",
		Result: bench.Result{Out: bench.Flow{Speed: s.speed(a, b, rail)}, Back: bench.Flow{Speed: s.speed(b, a, rail)}, Latency: 2000}}
}

// run measures and judges as launch bench does, with what is retested.
func (s *simulated) run(nonce string) (first, last Verdict) {
	posts, first := s.measure(nonce)
	return first, Compare(posts, nil)
}

// measure is what all nodes have measured in the end, and what was to be measured
// again.
func (s *simulated) measure(nonce string) (posts []Rates, first Verdict) {
	posts = make([]Rates, s.nodes)
	for rank := range posts {
		posts[rank] = Rates{Rank: rank, Name: fmt.Sprintf("node-%04d", rank)}
		for rail := range s.rails {
			posts[rank].Ports = append(posts[rank].Ports, bench.Port{Name: fmt.Sprintf("mlx5_%d", rail), HCA: fmt.Sprintf("mlx5_%d", rail), Rate: 100, Link: "InfiniBand"})
		}
	}
	for i, round := range bench.Rounds(s.nodes, nonce, bench.QuickRounds) {
		for rank := range posts {
			if other, ok := bench.Partner(rank, s.nodes, round); ok && rank < other {
				for rail := range s.rails {
					posts[rank].Samples = append(posts[rank].Samples, s.sample(i, rank, other, rail))
				}
			}
		}
	}
	first = Compare(posts, nil)
	for i, turn := range Turns(first.Again) {
		for _, m := range turn {
			rail, _ := strconv.Atoi(m.Rail[len("mlx5_"):])
			posts[m.A].Samples = append(posts[m.A].Samples, s.sample(-1-i, m.A, m.B, rail))
		}
	}
	return posts, first
}

// score is how a verdict was: sick ports that were not named, or named for
// another reason, and healthy ones that were.
type score struct{ sick, missed, mistaken, healthy, accused int }

func (s *simulated) score(b Verdict) score {
	named := map[sickPort]string{}
	for _, p := range b.Ports {
		rail, _ := strconv.Atoi(p.Rail[len("mlx5_"):])
		named[sickPort{p.Rank, rail}] = p.Slow
	}
	var out score
	for rank := range s.nodes {
		whole := 0
		for rail := range s.rails {
			if _, ok := s.sick[sickPort{rank, rail}]; ok {
				whole++
			}
		}
		for rail := range s.rails {
			p := sickPort{rank, rail}
			f, sick := s.sick[p]
			got := named[p]
			want := map[bool]string{true: "node", false: "port"}[whole == s.rails && s.rails > 1]
			switch {
			case !sick:
				continue
			case f.out == 1:
				want = "in"
			case f.in == 1:
				want = "out"
			}
			out.sick++
			switch got {
			case want:
			case "":
				out.missed++
			default:
				out.mistaken++
			}
		}
	}
	touched := map[int]bool{}
	for w := range s.ways {
		touched[w[0]], touched[w[1]] = true, true
	}
	out.healthy = s.nodes*s.rails - len(s.sick)
	for p, word := range named {
		if _, sick := s.sick[p]; !sick && word != "" && !(word == "way" && touched[p.rank]) {
			out.accused++
		}
	}
	return out
}

// faulty draws the faults of a cluster: ports one way or both, and whole nodes.
func (s *simulated) faulty(share float64) {
	s.sick = map[sickPort]factor{}
	n := int(share*float64(s.nodes*s.rails) + s.r.Float64())
	for len(s.sick) < n {
		rank, f := s.r.IntN(s.nodes), 0.25+0.5*s.r.Float64()
		switch kind := s.r.IntN(6); {
		case kind == 0 && n-len(s.sick) >= s.rails && s.rails > 1:
			for rail := range s.rails {
				s.sick[sickPort{rank, rail}] = factor{f, f}
			}
		case kind == 1:
			s.sick[sickPort{rank, s.r.IntN(s.rails)}] = factor{f, 1}
		case kind == 2:
			s.sick[sickPort{rank, s.r.IntN(s.rails)}] = factor{1, f}
		default:
			s.sick[sickPort{rank, s.r.IntN(s.rails)}] = factor{f, f}
		}
	}
}

func (s score) plus(o score) score {
	return score{s.sick + o.sick, s.missed + o.missed, s.mistaken + o.mistaken, s.healthy + o.healthy, s.accused + o.accused}
}

// TestTheRuleNamesWhoIsSlow holds the error rates of the rule, by simulation;
// RATES=1000 repeats it more often, and -v prints the table of docs/benchmarks.md.
func TestTheRuleNamesWhoIsSlow(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("RATES"))
	runs = max(runs, 4)
	for _, size := range []struct{ nodes, rails, times int }{{8, 2, 8}, {64, 8, 1}, {1024, 1, 1}} {
		for _, share := range []float64{0, 0.01, 0.05} {
			for _, noise := range []float64{0.01, 0.04} {
				var total score
				retested, cleared := 0, 0
				for seed := range runs * size.times {
					s := simulated{r: rand.New(rand.NewPCG(uint64(seed), uint64(size.nodes))), nodes: size.nodes, rails: size.rails, noise: noise, hiccups: 0.005}
					s.faulty(share)
					first, last := s.run(fmt.Sprint(seed))
					total = total.plus(s.score(last))
					retested += len(first.Again)
					cleared += last.Unnamed
				}
				percent := func(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }
				t.Logf("| %d | %d | %g %% | %g %% | %d | %.2f %% | %.2f %% | %.4f %% | %d | %d |", size.nodes, size.rails, 100*share, 100*noise, total.sick,
					percent(total.missed, total.sick), percent(total.mistaken, total.sick), percent(total.accused, total.healthy), retested, cleared)
				// One or two of a few runs are no rate.
				if percent(total.missed-1, total.sick) > 2 || percent(total.mistaken-1, total.sick) > 4 || percent(total.accused-2, total.healthy) > 0.1 {
					t.Errorf("%d nodes, %g %% sick: %+v", size.nodes, 100*share, total)
				}
			}
		}
	}
}

func TestASlowWayIsNotBlamedOnItsEnds(t *testing.T) {
	for seed := range 40 {
		s := simulated{r: rand.New(rand.NewPCG(uint64(seed), 1)), nodes: 8, rails: 2, noise: 0.02}
		round := bench.Rounds(s.nodes, fmt.Sprint(seed), bench.QuickRounds)[1]
		b, ok := bench.Partner(2, s.nodes, round)
		if !ok {
			continue
		}
		s.ways = map[[2]int]float64{{2, b}: 0.5}
		_, last := s.run(fmt.Sprint(seed))
		var ids []string
		for _, f := range last.Findings {
			ids = append(ids, f.ID)
		}
		if want := []int{min(2, b), max(2, b)}; !slices.Equal(last.Named, want) || !slices.Equal(ids, []string{"bench.way"}) {
			t.Errorf("seed %d: %v are named by %v, want %v", seed, last.Named, ids, want)
		}
	}
}
