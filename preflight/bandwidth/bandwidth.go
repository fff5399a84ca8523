// Package bandwidth judges what preflight/bench measured on all rails: which ports, nodes and paths are slow.
package bandwidth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"launch/internal/finding"
	"launch/preflight/bench"
	"launch/preflight/blame"
	"launch/preflight/threshold"
)

// Rates is what one node measured on its rails, posted for the comparison.
type Rates struct {
	Rank    int            `json:"rank"`
	Name    string         `json:"name"`
	Ports   []bench.Port   `json:"ports,omitempty"`
	Samples []bench.Sample `json:"samples,omitempty"` // of the pairs that it led, repeated ones last
	Was     []PastRate     `json:"was,omitempty"`     // from the history of its rails
	// Disturbed is why a port's measurements do not count, by the port's name; see the function Disturbed.
	Disturbed map[string]string `json:"disturbed,omitempty"`
}

// Verdict is the judgement of the rails of all nodes.
type Verdict struct {
	Nodes    int            `json:"nodes"`
	Rails    []RailRate     `json:"rails"`              // by name
	Ports    []PortRate     `json:"ports"`              // the worst first, maxPorts at most
	Pairs    []PairRate     `json:"pairs,omitempty"`    // the measurements, the worst first, maxPairs at most
	Again    []Meeting      `json:"again,omitempty"`    // the pairs to measure again before the verdict is final
	Named    []int          `json:"named,omitempty"`    // ranks of slow or unmeasurable nodes, or of the ends of a path
	Unnamed  int            `json:"unnamed,omitempty"`  // number of suspects that were fast when measured again
	Measured int            `json:"measured"`           // number of pairs of ports
	Findings finding.Report `json:"findings,omitempty"` // the failures first
}

// RailRate is one rail of all nodes.
type RailRate struct {
	Name    string        `json:"name"`
	Kind    string        `json:"kind"`            // the way of measuring: tcp, verbs
	Ports   int           `json:"ports"`           // number of nodes that have it
	Median  float64       `json:"median"`          // of the ports' best, bytes/s
	Slow    float64       `json:"slow"`            // the bound below which it is slow, bytes/s
	Spread  float64       `json:"spread"`          // of the measurements, as a share of Median
	Floor   float64       `json:"floor,omitempty"` // the minimum by its ports' own facts, bytes/s
	Latency time.Duration `json:"latency"`         // median
	Tail    time.Duration `json:"tail"`
	GPU     *RailGPU      `json:"gpu,omitempty"` // nil: not measured
}

// PortRate is one rail of one node.
type PortRate struct {
	Rank    int           `json:"rank"`
	Node    string        `json:"node"`
	Rail    string        `json:"rail"`
	Out     float64       `json:"out"`     // the highest speed of sending, bytes/s
	In      float64       `json:"in"`      // the highest speed of receiving
	Share   float64       `json:"share"`   // of the expected speed, in the worse direction
	Latency time.Duration `json:"latency"` // the shortest median of its pairs
	Retrans int           `json:"retrans,omitempty"`
	Slow    string        `json:"slow,omitempty"` // the fault: "port", "out", "in", "node", "way", "rail"
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

// Meeting is a pair of nodes to measure one rail.
type Meeting struct {
	A    int    `json:"a"` // rank; it leads
	B    int    `json:"b"`
	Rail string `json:"rail"` // of A
	With string `json:"with"` // of B
}

// The limits of what is shown: all nodes read it.
const (
	maxPorts = 512
	maxPairs = 512
	// maxAgain limits the repeated measurements: where more ports are slow, no single cable is the cause.
	maxAgain = 256
)

// spreads is the multiple of the measurements' own spread that counts as chance.
// maxSlack limits it, so that a fault of half the speed always counts.
const (
	spreads  = 6
	maxSlack = 0.45
)

// Compare judges the measurements of all nodes. The pairs in Again must be measured first.
func Compare(posts []Rates, thresholds map[string]float64) Verdict {
	c := newRates(posts)
	out := Verdict{Nodes: len(posts), Measured: c.measured}
	slow := 1 - min(max(threshold.Of(thresholds, "bench.slow"), 0), 0.99)
	for _, p := range c.planes {
		p.measure()
	}
	c.refer(slow)
	for _, p := range c.planes {
		p.judge()
	}
	out.Again = c.again()
	out.Unnamed = c.confirm()
	c.merge()
	out.Findings = c.report()
	out.Named = c.named()
	out.Rails, out.Ports, out.Pairs = c.rails(), c.ports(), c.pairs()
	return out
}

type railEnd struct {
	PortRate
	port  bench.Port
	was   []PastRate // from the history of its node
	busy  string     // why its measurements do not count
	usual [2]float64 // the usual speeds of sending and receiving, in units of flow.nominal
}

const (
	sent     = 0
	received = 1
)

// flow is one direction of a measured pair of ports; the ports are numbers within the plane.
type flow struct {
	from, to int
	speed    float64 // bytes/s
	nominal  float64 // the rate of the slower of the two ports, bytes/s; 1 if unknown
	gpu      float64 // between the memories of GPUs, bytes/s
	retrans  int
	latency  time.Duration
	retest   bool
	sample   *bench.Sample
	slow     bool
	lost     string // why there is no measurement
}

func (f flow) share() float64 { return f.speed / f.nominal }

// plane is one rail of all nodes, usually one plane of switches.
type plane struct {
	RailRate
	ends        []*railEnd
	flows, lost []flow
	found       []*suspect
	dead        []int // ranks whose port could not be measured

	usual float64 // the median of the ports' usual speeds, in units of flow.nominal
	refer float64 // the reference for its flows
	slack float64 // the share below the reference that is not slow
}

// rates is all planes of a job.
type rates struct {
	planes   []*plane
	nodes    []Rates
	measured int
}

// newRates sorts samples into planes. Rails of one name, or measured with each other, form one.
func newRates(posts []Rates) *rates {
	c := &rates{nodes: posts}
	groups := blame.Groups[string]{}
	for _, p := range posts {
		for _, s := range p.Samples {
			groups.Unite(s.FromPort, s.ToPort)
		}
	}
	type key struct {
		rank int
		name string
	}
	planes, number := map[string]*plane{}, map[key]int{}
	for _, post := range posts {
		for _, port := range post.Ports {
			name := groups.Of(port.Name)
			p := planes[name]
			if p == nil {
				p = &plane{RailRate: RailRate{Name: name}}
				planes[name] = p
				c.planes = append(c.planes, p)
			}
			number[key{post.Rank, port.Name}] = len(p.ends)
			p.ends = append(p.ends, &railEnd{PortRate: PortRate{Rank: post.Rank, Node: post.Name, Rail: port.Name},
				port: port, was: post.Was, busy: post.Disturbed[port.Name]})
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
			if planes[groups.Of(s.FromPort)].add(s, a, b) {
				met[[2]key{{s.From, s.FromPort}, {s.To, s.ToPort}}] = true
			}
		}
	}
	c.measured = len(met)
	slices.SortFunc(c.planes, func(a, b *plane) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// add takes both directions of a sample; it returns false if they do not count.
func (p *plane) add(s *bench.Sample, a, b int) bool {
	if why := cmp.Or(p.ends[a].busy, p.ends[b].busy); why != "" && s.Cause == "" {
		other := *s
		other.Cause, other.Err = bench.CauseBusy, why
		s = &other
	}
	nominal := 1.0
	if x, y := p.ends[a].port.Rate, p.ends[b].port.Rate; x > 0 && y > 0 {
		nominal = min(x, y) * 1e9 / 8
	}
	there := flow{from: a, to: b, speed: s.Out.Speed, nominal: nominal, retrans: s.Out.Retrans, latency: s.Latency,
		retest: s.Round < 0, sample: s, lost: s.Cause}
	back := there
	back.from, back.to, back.speed, back.retrans = b, a, s.Back.Speed, s.Back.Retrans
	if s.GPU != nil {
		there.gpu, back.gpu = s.GPU.Out, s.GPU.Back
	}
	if s.Cause != "" {
		p.lost = append(p.lost, there, back)
		return false
	}
	p.Kind = cmp.Or(p.Kind, s.Kind)
	p.ends[a].Retrans += s.Out.Retrans
	p.ends[b].Retrans += s.Back.Retrans
	p.flows = append(p.flows, there, back)
	p.Tail = max(p.Tail, s.Tail)
	return true
}

// measure computes the usual speed of each port in each direction: the upper median of its partners.
// With two of three healthy partners a healthy port reaches its full speed, and a slow port never does.
// So the share of slow ports is right, and the median is a healthy port's as long as these are
// the majority. (Of all flows twice as many are slow, since each has two ends.) The spread is the
// difference of flows to the slower of their two ends, and of ports to each other.
func (p *plane) measure() {
	var usual, off []float64
	var latency []time.Duration
	all := make([][2][]float64, len(p.ends))
	for _, f := range p.flows {
		a, b := p.ends[f.from], p.ends[f.to]
		a.Out, b.In = max(a.Out, f.speed), max(b.In, f.speed)
		for _, e := range []*railEnd{a, b} {
			e.Latency = min(cmp.Or(e.Latency, f.latency), f.latency)
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
	p.usual, p.Latency = medianOf(usual), medianOf(latency)
	for _, f := range p.flows {
		if want := min(p.ends[f.from].usual[sent], p.ends[f.to].usual[received]); want > 0 && !f.retest {
			off = append(off, math.Abs(1-f.share()/want))
		}
	}
	// The median of these differences is the MAD; 1.4826 turns it into a standard deviation.
	var ports []float64
	if p.usual > 0 {
		ports = finding.Map(usual, func(v float64) float64 { return math.Abs(1 - v/p.usual) })
	}
	p.Spread = 1.4826 * max(medianOf(off), medianOf(ports))
}

// refer sets the reference of each plane: the fastest comparable one, which finds a plane that is slow as a whole.
func (c *rates) refer(slow float64) {
	for _, p := range c.planes {
		p.refer = p.usual
		for _, o := range c.planes {
			if o.Kind == p.Kind && o.nominal() == p.nominal() {
				p.refer = max(p.refer, o.usual)
			}
		}
		p.slack = max(slow, min(spreads*p.Spread, maxSlack))
	}
}

// nominal returns the rate of most of its ports, Gb/s; 0 if unknown.
func (p *plane) nominal() float64 {
	return medianOf(finding.Map(p.ends, func(e *railEnd) float64 { return e.port.Rate }))
}

// bound returns the speed below which a flow is slow, in bytes/s, by comparable flows and by both ports' facts.
func (p *plane) bound(f flow) float64 {
	floor := min(p.ends[f.from].port.Floor, p.ends[f.to].port.Floor) // 0: unknown
	return max(p.refer*(1-p.slack)*f.nominal, floor)
}

func medianOf[T cmp.Ordered](all []T) (mid T) {
	if len(all) == 0 {
		return mid
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func (e *railEnd) label() string { return fmt.Sprintf("%s of %s", e.Rail, e.Node) }
