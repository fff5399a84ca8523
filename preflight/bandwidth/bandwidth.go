// Package bandwidth judges what preflight/bench measured on the rails of all
// nodes: which ports, nodes and paths are slow.
package bandwidth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/bench"
)

// Rates is what one node measured of its rails, for all to be compared.
type Rates struct {
	Rank    int            `json:"rank"`
	Name    string         `json:"name"`
	Ports   []bench.Port   `json:"ports,omitempty"`
	Samples []bench.Sample `json:"samples,omitempty"` // of the pairs that it led, the retested ones last
	Was     []PastRate     `json:"was,omitempty"`     // what its history says of its rails
	// Disturbed is why what was measured at a port says nothing of it, by the port's
	// name (PortDisturbed).
	Disturbed map[string]string `json:"disturbed,omitempty"`
}

// Bandwidth is the verdict about the rails of all nodes.
type Verdict struct {
	Nodes    int            `json:"nodes"`
	Rails    []RailRate     `json:"rails"`              // by name
	Ports    []PortRate     `json:"ports"`              // the worst first, maxPorts at most
	Pairs    []PairRate     `json:"pairs,omitempty"`    // what was measured, the worst first, maxPairs at most
	Again    []Meeting      `json:"again,omitempty"`    // what has to be measured once more before the verdict holds
	Named    []int          `json:"named,omitempty"`    // ranks of the nodes that are slow or could not be measured, or the ends of a way
	Unnamed  int            `json:"unnamed,omitempty"`  // how many suspects were as fast as others when they were measured again
	Measured int            `json:"measured"`           // how many pairs of ports
	Findings finding.Report `json:"findings,omitempty"` // the failures first
}

// RailRate is one rail of all nodes together.
type RailRate struct {
	Name    string        `json:"name"`
	Kind    string        `json:"kind"`            // how it was measured: tcp, verbs
	Ports   int           `json:"ports"`           // of how many nodes
	Median  float64       `json:"median"`          // of the ports' best, bytes/s
	Slow    float64       `json:"slow"`            // below this is slow, bytes/s
	Spread  float64       `json:"spread"`          // of the measurements, as a share of Median
	Floor   float64       `json:"floor,omitempty"` // the least that its ports are good for by their own facts, bytes/s
	Latency time.Duration `json:"latency"`         // median
	Tail    time.Duration `json:"tail"`
	GPU     *RailGPU      `json:"gpu,omitempty"` // nil: not measured
}

// PortRate is one rail of one node.
type PortRate struct {
	Rank    int           `json:"rank"`
	Node    string        `json:"node"`
	Rail    string        `json:"rail"`
	Out     float64       `json:"out"`     // the best that it sent, bytes/s
	In      float64       `json:"in"`      // the best that it received
	Share   float64       `json:"share"`   // of what is expected, of the worse of both
	Latency time.Duration `json:"latency"` // the shortest median of its pairs
	Retrans int           `json:"retrans,omitempty"`
	Slow    string        `json:"slow,omitempty"` // why it is named: "port", "out", "in", "node", "way", "rail"
}

// PairRate is one direction between two ports.
type PairRate struct {
	From     int           `json:"from"` // rank
	To       int           `json:"to"`
	Rail     string        `json:"rail"`
	Speed    float64       `json:"speed"` // bytes/s
	Expected float64       `json:"expected"`
	Latency  time.Duration `json:"latency"`
	Slow     bool          `json:"slow,omitempty"`
}

// Meeting is two nodes that are to measure one rail.
type Meeting struct {
	A    int    `json:"a"` // rank; it leads
	B    int    `json:"b"`
	Rail string `json:"rail"` // of A
	With string `json:"with"` // of B
}

// What is shown of many: all nodes read it.
const (
	maxPorts = 512
	maxPairs = 512
	// maxAgain bounds what is measured once more: where more is slow than that, it
	// is no single cable's doing.
	maxAgain = 256
)

// spreads is how many times the measurements' own spread is taken for chance.
// maxSlack keeps a fault of half the speed from being taken for it in any case.
const (
	spreads  = 6
	maxSlack = 0.45
)

// CompareRates judges what all nodes measured. Where Again is not empty its
// meetings have to be measured and the samples be compared once more.
func Compare(posts []Rates, thresholds map[string]float64) Verdict {
	c := newRates(posts)
	out := Verdict{Nodes: len(posts), Measured: c.measured}
	slow := 1 - min(max(preflight.ThresholdOf(thresholds, "bench.slow"), 0), 0.99)
	for _, p := range c.planes {
		p.measure()
	}
	c.refer(slow)
	for _, p := range c.planes {
		p.judge()
	}
	c.merge()
	out.Again = c.again()
	out.Unnamed = c.confirm()
	out.Findings = c.report()
	out.Named = c.named()
	out.Rails, out.Ports, out.Pairs = c.rails(), c.ports(), c.pairs()
	return out
}

// railEnd is one rail of one node.
type railEnd struct {
	rank    int
	node    string
	port    bench.Port
	busy    string     // why what was measured at it says nothing
	usual   [2]float64 // what it sent and received, in units of flow.nominal
	speed   [2]float64 // and at most, in bytes/s
	latency time.Duration
	retrans int
	verdict string
}

const (
	sent     = 0
	received = 1
)

// flow is one direction of a measured pair of ports, by their numbers within
// the plane.
type flow struct {
	from, to int
	speed    float64 // bytes/s
	nominal  float64 // what the slower of the two ports is made for, bytes/s; 1 where that is not known
	latency  time.Duration
	retest   bool
	sample   *bench.Sample
	slow     bool
	lost     string // why nothing was measured
}

func (f flow) share() float64 { return f.speed / f.nominal }

// plane is one rail of all nodes: as a rule one plane of switches.
type plane struct {
	name  string
	kind  string
	ends  []*railEnd
	flows []flow
	lost  []flow
	found []suspect
	dead  []int // ranks whose port could not be measured

	median  float64 // of the ports' usual, in units of flow.nominal
	spread  float64
	refer   float64 // what its flows are held against
	slack   float64 // and how much less is not slow
	latency time.Duration
	tail    time.Duration
}

// rates is all planes.
type rates struct {
	planes   []*plane
	nodes    []Rates
	measured int
}

// newRates sorts samples into planes. Rails of one name are one plane, and rails
// of several names are where they met.
func newRates(posts []Rates) *rates {
	c := &rates{nodes: posts}
	group := map[string]string{}
	var root func(string) string
	root = func(s string) string {
		if up, ok := group[s]; ok && up != s {
			return root(up)
		}
		return s
	}
	for _, p := range posts {
		for _, s := range p.Samples {
			if a, b := root(s.FromPort), root(s.ToPort); a != b {
				group[max(a, b)] = min(a, b)
			}
		}
	}
	type key struct {
		rank int
		name string
	}
	planes, number := map[string]*plane{}, map[key]int{}
	for _, post := range posts {
		for _, port := range post.Ports {
			name := root(port.Name)
			p := planes[name]
			if p == nil {
				p = &plane{name: name}
				planes[name] = p
				c.planes = append(c.planes, p)
			}
			number[key{post.Rank, port.Name}] = len(p.ends)
			p.ends = append(p.ends, &railEnd{rank: post.Rank, node: post.Name, port: port, busy: post.Disturbed[port.Name]})
		}
	}
	met := map[[2]key]bool{}
	for _, post := range posts {
		for i := range post.Samples {
			s := &post.Samples[i]
			a, okA := number[key{s.From, s.FromPort}]
			b, okB := number[key{s.To, s.ToPort}]
			if !okA || !okB || s.From == s.To {
				continue
			}
			if planes[root(s.FromPort)].add(s, a, b) {
				met[[2]key{{s.From, s.FromPort}, {s.To, s.ToPort}}] = true
			}
		}
	}
	c.measured = len(met)
	slices.SortFunc(c.planes, func(a, b *plane) int { return cmp.Compare(a.name, b.name) })
	return c
}

// add takes a sample's two directions; false: it says nothing of its ports.
func (p *plane) add(s *bench.Sample, a, b int) bool {
	if why := cmp.Or(p.ends[a].busy, p.ends[b].busy); why != "" && s.Cause == "" {
		other := *s
		other.Cause, other.Err = bench.CauseBusy, why
		s = &other
	}
	retest := s.Round < 0
	nominal := 1.0
	if x, y := p.ends[a].port.Rate, p.ends[b].port.Rate; x > 0 && y > 0 {
		nominal = min(x, y) * 1e9 / 8
	}
	there := flow{from: a, to: b, speed: s.Out.Speed, nominal: nominal, latency: s.Latency, retest: retest, sample: s, lost: s.Cause}
	back := there
	back.from, back.to, back.speed = b, a, s.Back.Speed
	if s.Cause != "" {
		p.lost = append(p.lost, there, back)
		return false
	}
	p.kind = cmp.Or(p.kind, s.Kind)
	p.ends[a].retrans += s.Out.Retrans
	p.ends[b].retrans += s.Back.Retrans
	p.flows = append(p.flows, there, back)
	if p.tail < s.Tail {
		p.tail = s.Tail
	}
	return true
}

// measure takes of each port what it usually did in either direction, the upper
// median of those that it met: a healthy one is as fast as it can be with two of
// three partners that are healthy, a slow one with none. So the share of ports
// that are slow by this is the share that are, and the median is a healthy one's
// while these are the most. (Of all flows twice as many are slow, since each has
// two ends.) The spread is by how much flows differ from the slower of their two
// ends, and ports from each other.
func (p *plane) measure() {
	var usual, off []float64
	var latency []time.Duration
	all := make([][2][]float64, len(p.ends))
	for _, f := range p.flows {
		a, b := p.ends[f.from], p.ends[f.to]
		a.speed[sent], b.speed[received] = max(a.speed[sent], f.speed), max(b.speed[received], f.speed)
		for _, e := range []*railEnd{a, b} {
			if e.latency == 0 || f.latency < e.latency {
				e.latency = f.latency
			}
		}
		latency = append(latency, f.latency)
		if !f.retest {
			all[f.from][sent] = append(all[f.from][sent], f.share())
			all[f.to][received] = append(all[f.to][received], f.share())
		}
	}
	for i, e := range p.ends {
		for k, v := range all[i] {
			if len(v) > 0 {
				e.usual[k] = medianOf(v)
				usual = append(usual, e.usual[k])
			}
		}
	}
	p.median, p.latency = medianOf(usual), medianOf(latency)
	for _, f := range p.flows {
		if want := min(p.ends[f.from].usual[sent], p.ends[f.to].usual[received]); want > 0 && !f.retest {
			off = append(off, math.Abs(1-f.share()/want))
		}
	}
	// The median of what is off is the MAD; 1.4826 makes a standard deviation of it.
	p.spread = 1.4826 * medianOf(off)
	off = nil
	for _, v := range usual {
		off = append(off, math.Abs(1-v/p.median))
	}
	p.spread = max(p.spread, 1.4826*medianOf(off))
}

// refer says what each plane is held against: the fastest of the planes that
// are made alike, so that a plane which is slow as a whole is seen beside others.
func (c *rates) refer(slow float64) {
	for _, p := range c.planes {
		p.refer = p.median
		for _, o := range c.planes {
			if o.kind == p.kind && o.nominal() == p.nominal() {
				p.refer = max(p.refer, o.median)
			}
		}
		p.slack = max(slow, min(spreads*p.spread, maxSlack))
	}
}

// nominal is the rate that most of its ports have, Gb/s; 0 not known.
func (p *plane) nominal() float64 {
	var all []float64
	for _, e := range p.ends {
		all = append(all, e.port.Rate)
	}
	return medianOf(all)
}

// bound is below what a flow is slow, in bytes/s: less than its like, or than
// both its ports have to reach by their own facts.
func (p *plane) bound(f flow) float64 {
	floor := p.ends[f.from].port.Floor
	if other := p.ends[f.to].port.Floor; floor == 0 || other == 0 {
		floor = 0
	} else {
		floor = min(floor, other)
	}
	return max(p.refer*(1-p.slack)*f.nominal, floor)
}

func medianOf[T cmp.Ordered](all []T) (mid T) {
	if len(all) == 0 {
		return mid
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// label is a port in words.
func (e *railEnd) label() string { return fmt.Sprintf("%s of %s", e.port.Name, e.node) }
