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
	// again is how long who leads waits before it calls again: the other one may
	// not listen yet.
	again = 50 * time.Millisecond
	// held bounds how long a caller is kept that comes before its turn: it has
	// hung up by then.
	held = 3 * time.Minute
)

// Node is this node's end of its measurements: a listener for the conversations
// in which two ends agree on each of them.
type Node struct {
	Name  string // for people
	Ports []Port
	Ways  []Measurer  // what can measure, the best first
	Keys  *tls.Config // of who calls; nil: no secret is shared
	// Asked is told, where it is not nil, what a node has that asks for this one's
	// ports. It is not waited for: it should have room.
	Asked chan Asking
	// Rails is what this node has for who asks from an address, where that is not
	// known before; nil: Ports.
	Rails func(from netip.Addr) []Port

	talks *sidechannel.Talks
	mu    sync.Mutex
	turns map[key]chan *visit
}

// key is one measurement, as who answers knows it.
type key struct {
	round, from int
	port        string // who answers
}

// visit is a caller that has come for a measurement.
type visit struct {
	c    *sidechannel.Conversation
	done chan struct{}
}

// hello is the first message of who calls: for which measurement it comes; one
// with Mine says what it has, and wants to know the same first.
type hello struct {
	Mine  *Offer `json:"mine,omitempty"`
	Round int    `json:"round"`
	From  int    `json:"from"`
	Port  string `json:"port"` // of who answers
}

// Offer is what a node says of itself to the others.
type Offer struct {
	Name  string         `json:"name"`
	At    netip.AddrPort `json:"at,omitzero"` // where it listens, where that is not known already
	Ports []Port         `json:"ports"`
}

// terms is what each side says before a measurement. The test is the leading
// side's.
type terms struct {
	Port    Port          `json:"port"`
	Streams int           `json:"streams"`
	Warm    time.Duration `json:"warm"`
	Span    time.Duration `json:"span"`
	Pings   int           `json:"pings"`
	GPU     bool          `json:"gpu,omitempty"`
}

// longest bounds what the other side may ask for.
const longest = time.Minute

// Open begins to listen at an address and port (0: of its own choice). server
// is nil where no secret is shared.
func (n *Node) Open(at netip.AddrPort, server *tls.Config) (err error) {
	n.Ready()
	n.talks, err = sidechannel.ListenTalks(at, server, n.Name[:min(len(n.Name), 64)], n.take)
	return err
}

// Ready is enough for a node that leads all its measurements, and never listens.
func (n *Node) Ready() {
	n.turns = map[key]chan *visit{}
	n.able(n.Ports)
}

// able fills in what can measure ports.
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

// Port is where it listens.
func (n *Node) Port() int { return n.talks.Port() }

// Close ends the listener and what it is in.
func (n *Node) Close() { n.talks.Close() }

// turn is where the callers of a measurement wait for it.
func (n *Node) turn(k key) chan *visit {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turns[k] == nil {
		n.turns[k] = make(chan *visit)
	}
	return n.turns[k]
}

// take hears for what a caller comes, and keeps it until it is its turn.
func (n *Node) take(ctx context.Context, c *sidechannel.Conversation) {
	ctx, stop := context.WithTimeout(ctx, held)
	defer stop()
	for {
		var h hello
		if err := receive1(ctx, c, &h); err != nil {
			return
		}
		if h.Mine != nil {
			if n.tell(ctx, c, *h.Mine) != nil {
				return
			}
			continue
		}
		v := &visit{c, make(chan struct{})}
		select {
		case n.turn(key{h.Round, h.From, h.Port}) <- v:
			<-v.done
		case <-ctx.Done():
			n.mu.Lock()
			delete(n.turns, key{h.Round, h.From, h.Port})
			n.mu.Unlock()
		}
		return
	}
}

// tell answers who asks for the ports.
func (n *Node) tell(ctx context.Context, c *sidechannel.Conversation, theirs Offer) error {
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

// Asking is a node that asked, with what it was told.
type Asking struct {
	Theirs Offer
	Mine   []Port
}

// Ask asks the node at an address for its ports, again until ctx ends.
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

// Meeting is one pair of ports to be measured.
type Meeting struct {
	Round, Self, Other int            // ranks
	Port               Port           // this side's
	PeerPort           string         // the other's
	At                 netip.AddrPort // where the other one listens, for who leads
	Lead               bool
	Wait               time.Duration // for the other one
	Test               Test          // Streams, Warm, Span, Pings, if it leads
}

// Meet measures one pair of ports, once the other side is there, in no order. What
// goes wrong is in the Sample, which is from the view of who leads.
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
			err = fmt.Errorf("nobody came for %s within %s: %w", m.Port.Name, m.Wait, context.Cause(wait))
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

// agree exchanges the terms and has the best way measure that both have.
func (n *Node) agree(ctx, wait context.Context, c *sidechannel.Conversation, m Meeting, s *Sample) error {
	mine := terms{Port: m.Port, Streams: m.Test.Streams, Warm: m.Test.Warm, Span: m.Test.Span, Pings: m.Test.Pings, GPU: m.Test.GPU}
	var theirs terms
	if err := send1(wait, c, mine); err != nil {
		return err
	}
	if err := receive1(wait, c, &theirs); err != nil {
		return fmt.Errorf("wait for the other end's turn: %w", err)
	}
	for _, p := range []Port{m.Port, theirs.Port} {
		if p.Busy != "" {
			s.Cause, s.Err = CauseBusy, p.Busy
			return nil
		}
	}
	lead, other := m.Port, theirs.Port
	if !m.Lead {
		lead, other = other, lead
	}
	i := -1
	if k := slices.IndexFunc(lead.Kinds, func(kind string) bool { return slices.Contains(other.Kinds, kind) }); k >= 0 {
		i = slices.IndexFunc(n.Ways, func(w Measurer) bool { return w.Kind == lead.Kinds[k] })
	}
	if i < 0 {
		return errors.New(noWay(lead, other))
	}
	if m.Lead {
		theirs.Streams, theirs.Warm, theirs.Span, theirs.Pings, theirs.GPU = mine.Streams, mine.Warm, mine.Span, mine.Pings, mine.GPU
	}
	t := Test{Port: m.Port, Peer: theirs.Port, Lead: m.Lead, Streams: theirs.Streams, Pings: theirs.Pings, GPU: theirs.GPU,
		Warm: min(max(theirs.Warm, 0), longest), Span: min(max(theirs.Span, time.Millisecond), longest)}
	limit, stop := context.WithTimeout(ctx, t.limit())
	defer stop()
	var gone error
	r, err := n.Ways[i].Run(limit, t, func(ctx context.Context, mine []byte) (theirs []byte, err error) {
		if ctx.Err() != nil { // what went wrong here since then is nobody else's doing
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
	case err != nil && gone != nil: // whatever else went wrong, that is why
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

// limit is how long a measurement may take in all.
func (t Test) limit() time.Duration {
	if t.GPU {
		return t.hostLimit() + t.GPULimit()
	}
	return t.hostLimit()
}

// hostLimit is without what is measured between GPUs.
func (t Test) hostLimit() time.Duration {
	return 2*(t.Warm+t.Span+joinBudget+2*lateBudget) + pingBudget
}

// Takes is how long a measurement takes where all is well.
func (t Test) Takes() time.Duration { return 2*(t.Warm+t.Span) + 2*pingBudget + t.gpuTakes() }

// Within is the test as long as takes d, but at least as long as it is and at most
// so many times.
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
	return fmt.Sprintf("%s can be measured by %q, %s by %q: no way is common", a.Name, a.Kinds, b.Name, b.Kinds)
}

// Round measures several pairs of ports at the same time, and returns a sample of
// each in their order. No port may be in two of them.
func (n *Node) Round(ctx context.Context, all []Meeting) []Sample {
	out := make([]Sample, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { out[i] = n.Meet(ctx, m) })
	}
	wg.Wait()
	return out
}

// call calls until the other one is there, or who answers is not meant.
func (n *Node) call(ctx context.Context, at netip.AddrPort) (*sidechannel.Conversation, error) {
	var why error
	for {
		c, err := sidechannel.Talk(ctx, at, n.Keys, netip.Addr{})
		if cause := sidechannel.CauseOf(err); err == nil || cause == sidechannel.Token || cause == sidechannel.Stranger {
			return c, err
		}
		end, limited := ctx.Deadline() // which a try heeds by itself, and may do before ctx
		cut := ctx.Err() != nil || limited && !time.Now().Before(end)
		if why == nil || !cut { // one that is cut off says less than the one before
			why = err
		}
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
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
