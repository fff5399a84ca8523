package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/internal/sidechannel"
)

const (
	// again is the pause of the leader before it calls again: the other one may not listen yet.
	again = 50 * time.Millisecond
	// held limits the wait of a caller whose turn has not come; after it the caller has hung up.
	held = 3 * time.Minute
)

// Node is this node's end of its measurements: a listener by which two ends agree on each measurement.
type Node struct {
	Name  string // in words
	Ports []Port
	Ways  []Measurer  // the ways to measure, the best first
	Keys  *tls.Config // for callers; nil: no shared secret
	// Asked, if not nil, receives the ports of each node that asks for this one's. It needs room: a send does not wait.
	Asked chan Asking
	// Rails returns this node's ports for a caller's address, where they are not known before; nil: Ports.
	Rails func(from netip.Addr) []Port

	talks *sidechannel.Talks
	mu    sync.Mutex
	turns map[key]chan *visit
}

// key identifies a measurement for the node that answers.
type key struct {
	round, from int
	port        string // of the node that answers
}

// visit is a caller that waits for a measurement.
type visit struct {
	c    *sidechannel.Conversation
	done chan struct{}
}

// hello is a caller's first message: the measurement that it wants, or with Mine its ports, for the other node's.
type hello struct {
	Mine  *Offer `json:"mine,omitempty"`
	Round int    `json:"round"`
	From  int    `json:"from"`
	Port  string `json:"port"` // of the node that answers
}

// Offer is what a node reports to the others.
type Offer struct {
	Name  string         `json:"name"`
	At    netip.AddrPort `json:"at,omitzero"` // where it listens, if that is not known already
	Ports []Port         `json:"ports"`
}

// longest limits the test of the other side.
const longest = time.Minute

// Open listens at an address and port (0: any port). server is nil without a shared secret.
func (n *Node) Open(at netip.AddrPort, server *tls.Config) (err error) {
	n.Ready()
	n.talks, err = sidechannel.ListenTalks(at, server, n.Name[:min(len(n.Name), 64)], n.take)
	return err
}

// Ready suffices for a node that leads all its measurements and never listens.
func (n *Node) Ready() {
	n.turns = map[key]chan *visit{}
	n.able(n.Ports)
}

// able sets the Measurers of each port.
func (n *Node) able(ports []Port) {
	for i := range ports {
		ports[i].Kinds = nil
		for _, w := range n.Ways {
			if w.Can(ports[i]) {
				ports[i].Kinds = append(ports[i].Kinds, w.Kind)
			}
		}
	}
}

// Port returns the port where it listens.
func (n *Node) Port() int { return n.talks.Port() }

// Close ends the listener and its measurements.
func (n *Node) Close() { n.talks.Close() }

// turn is the queue of the callers of a measurement.
func (n *Node) turn(k key) chan *visit {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turns[k] == nil {
		n.turns[k] = make(chan *visit)
	}
	return n.turns[k]
}

// take reads what a caller wants, and holds it until its turn.
func (n *Node) take(ctx context.Context, c *sidechannel.Conversation) {
	ctx, stop := context.WithTimeout(ctx, held)
	defer stop()
	for {
		var h hello
		if err := receive1(ctx, c, &h); err != nil {
			return
		}
		if h.Mine != nil {
			if n.offer(ctx, c, *h.Mine) != nil {
				return
			}
			continue
		}
		v, k := &visit{c, make(chan struct{})}, key{h.Round, h.From, h.Port}
		select {
		case n.turn(k) <- v:
			<-v.done
		case <-ctx.Done():
			n.mu.Lock()
			delete(n.turns, k)
			n.mu.Unlock()
		}
		return
	}
}

// offer answers a node that asks for the ports.
func (n *Node) offer(ctx context.Context, c *sidechannel.Conversation, theirs Offer) error {
	mine := Offer{Name: n.Name, Ports: n.Ports}
	if n.Rails != nil {
		mine.Ports = n.Rails(c.From)
		n.able(mine.Ports)
	}
	if err := send1(ctx, c, mine); err != nil {
		return err
	}
	select {
	case n.Asked <- Asking{theirs, mine.Ports}:
	default:
	}
	return nil
}

// Asking is a node that asked, with the answer that it got.
type Asking struct {
	Theirs Offer
	Mine   []Port
}

// Ask asks the node at an address for its ports, and retries until ctx ends.
func (n *Node) Ask(ctx context.Context, at netip.AddrPort) (o Offer, err error) {
	c, err := n.call(ctx, at)
	if err != nil {
		return o, err
	}
	defer c.Close()
	if err = send1(ctx, c, hello{Mine: &Offer{Name: n.Name, Ports: n.Ports}}); err == nil {
		err = receive1(ctx, c, &o)
	}
	return o, err
}

// Meeting is one pair of ports to measure.
type Meeting struct {
	Round, Self, Other int            // ranks
	Port               Port           // of this side
	PeerPort           string         // of the other side
	At                 netip.AddrPort // where the other side listens, for the leader
	Lead               bool
	Wait               time.Duration // for the other one
	Test               Test          // Streams, Warm, Span, Pings, if it leads
}

// Meet measures one pair of ports, once the other side is ready; either may be first.
// Errors are in the Sample, which is from the view of the leader.
func (n *Node) Meet(ctx context.Context, m Meeting) Sample {
	s := Sample{Round: m.Round, From: m.Self, To: m.Other, FromPort: m.Port.Name, ToPort: m.PeerPort}
	if !m.Lead {
		s.From, s.To, s.FromPort, s.ToPort = s.To, s.From, s.ToPort, s.FromPort
	}
	wait, stop := context.WithTimeout(ctx, m.Wait)
	defer stop()
	var c *sidechannel.Conversation
	var err error
	if m.Lead {
		if c, err = n.call(wait, m.At); err == nil {
			defer c.Close()
			err = send1(wait, c, hello{Round: m.Round, From: m.Self, Port: m.PeerPort})
		}
	} else {
		select {
		case v := <-n.turn(key{m.Round, m.Other, m.Port.Name}):
			defer close(v.done)
			c = v.c
		case <-wait.Done():
			err = fmt.Errorf("no node came for %s within %s: %w", m.Port.Name, m.Wait, context.Cause(wait))
		}
	}
	if err == nil {
		err = n.agree(ctx, wait, c, m, &s)
	}
	if err != nil && s.Cause == "" {
		s.Cause, s.Err = causeOf(err), err.Error()
	}
	return s
}

// agree exchanges the terms and measures by the best common way.
func (n *Node) agree(ctx, wait context.Context, c *sidechannel.Conversation, m Meeting, s *Sample) error {
	mine := m.Test
	mine.Port = m.Port
	var theirs Test
	if err := send1(wait, c, mine); err != nil {
		return err
	}
	if err := receive1(wait, c, &theirs); err != nil {
		return fmt.Errorf("wait for the other end's turn: %w", err)
	}
	for _, p := range []Port{mine.Port, theirs.Port} {
		if p.Busy != "" {
			s.Cause, s.Err = CauseBusy, p.Busy
			return nil
		}
	}
	t, lead, other := mine, mine.Port, theirs.Port
	if !m.Lead {
		t, lead, other = theirs, other, lead
	}
	i := -1
	if k := slices.IndexFunc(lead.Kinds, func(kind string) bool { return slices.Contains(other.Kinds, kind) }); k >= 0 {
		i = slices.IndexFunc(n.Ways, func(w Measurer) bool { return w.Kind == lead.Kinds[k] })
	}
	if i < 0 {
		return errors.New(noWay(lead, other))
	}
	t.Port, t.Peer, t.Lead = mine.Port, theirs.Port, m.Lead
	t = t.bounded()
	limit, stop := context.WithTimeout(ctx, t.limit())
	defer stop()
	var gone error
	r, err := n.Ways[i].Run(limit, t, func(ctx context.Context, mine []byte) (theirs []byte, err error) {
		if ctx.Err() != nil { // later errors are due to this
			return nil, context.Cause(ctx)
		}
		if err = c.Send(ctx, mine); err == nil {
			theirs, err = c.Receive(ctx)
		}
		if ctx.Err() == nil {
			gone = cmp.Or(gone, err)
		}
		return theirs, err
	})
	switch {
	case err != nil && gone != nil: // the cause of any other error
		s.Cause, s.Err = CauseLeft, fmt.Sprintf("the other end was gone before %s was measured", m.Port.Name)
		return nil
	case err != nil:
		return err
	}
	if s.Kind, s.Result = n.Ways[i].Kind, r; !m.Lead {
		s.Out, s.Back, s.GPU = r.Back, r.Out, r.GPU.turned()
	}
	return nil
}

// bounded returns the test with times within reason: the other side may say anything.
func (t Test) bounded() Test {
	t.Warm, t.Span = min(max(t.Warm, 0), longest), min(max(t.Span, time.Millisecond), longest)
	return t
}

// limit returns the time that a measurement may take in all.
func (t Test) limit() time.Duration {
	if t.GPU {
		return t.hostLimit() + t.GPULimit()
	}
	return t.hostLimit()
}

// hostLimit returns that time without the measurement between GPUs.
func (t Test) hostLimit() time.Duration {
	return 2*(t.Warm+t.Span+joinBudget+2*lateBudget) + pingBudget
}

// Takes returns the time that a successful measurement takes.
func (t Test) Takes() time.Duration {
	if t.GPU {
		return 2*(t.Warm+t.Span) + 2*pingBudget + 2*(t.Warm+t.Span)/gpuShare + cudaStart
	}
	return 2*(t.Warm+t.Span) + 2*pingBudget
}

// Within returns the test extended to take d, but not shortened and at most the given number of times longer.
func (t Test) Within(d time.Duration, most int) Test {
	t.Span = min(max(t.Span+(d-t.Takes())/2, t.Span), time.Duration(most)*t.Span)
	return t
}

func noWay(a, b Port) string {
	for _, p := range []Port{a, b} {
		if len(p.Kinds) == 0 {
			return fmt.Sprintf("%s has no address in this network namespace for TCP, and no HCA that opens", p.Name)
		}
	}
	return fmt.Sprintf("no common way: %s can be measured by %q, %s by %q", a.Name, a.Kinds, b.Name, b.Kinds)
}

// Round measures several pairs of ports at once and returns their samples in order. No port may be in two of them.
func (n *Node) Round(ctx context.Context, all []Meeting) []Sample {
	out := make([]Sample, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { out[i] = n.Meet(ctx, m) })
	}
	wg.Wait()
	return out
}

// call retries until the other side answers, or until the node that answers is the wrong one.
func (n *Node) call(ctx context.Context, at netip.AddrPort) (*sidechannel.Conversation, error) {
	var why error
	for {
		c, err := sidechannel.Talk(ctx, at, n.Keys, netip.Addr{})
		if cause := sidechannel.CauseOf(err); err == nil || cause == sidechannel.Token || cause == sidechannel.Stranger ||
			cause == sidechannel.Version {
			return c, err
		}
		end, limited := ctx.Deadline() // a try observes it, perhaps before ctx does
		cut := ctx.Err() != nil || limited && !time.Now().Before(end)
		if why == nil || !cut { // the error of a try that was cut off says less than the one before
			why = err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, why
		}
	}
}

func send1(ctx context.Context, c *sidechannel.Conversation, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Send(ctx, b)
}

func receive1(ctx context.Context, c *sidechannel.Conversation, v any) error {
	b, err := c.Receive(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
