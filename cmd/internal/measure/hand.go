package measure

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/sidechannel"

	"launch/preflight/bandwidth"
	"launch/preflight/bench"
)

// byHand is one of two nodes that a person started. The client is rank 0 of the two, and leads.
type byHand struct {
	*Bench
	facts fabric.Node
	node  *bench.Node
	was   []bandwidth.PastRate
	began time.Time // of the bench; on a server, of its client's request
}

// Hand measures between two nodes that a person started, and judges the result.
func (b *Bench) Hand(ctx context.Context, facts fabric.Node, began time.Time) (Result, error) {
	was, err := b.Past(facts.Hostname)
	if err != nil {
		return Result{}, err
	}
	h := &byHand{Bench: b, facts: facts, was: was, began: began}
	h.node = &bench.Node{Name: facts.Hostname, Ways: b.ways(facts)}
	wait, stop := context.WithTimeout(ctx, b.JoinTimeout)
	defer stop()
	if b.Server {
		return h.serve(ctx, wait)
	}
	return h.call(ctx, wait)
}

// serve waits for a client and measures with it.
func (h *byHand) serve(ctx, wait context.Context) (Result, error) {
	n, facts := h.node, h.facts
	n.Asked = make(chan bench.Asking, 1)
	wrong := make(chan error, 1)
	n.Rails = func(from netip.Addr) []bench.Port {
		ports, err := h.ratePorts(wait, facts, from, n.Name)
		if err != nil {
			select {
			case wrong <- err:
			default:
			}
		}
		return ports
	}
	if _, err := h.RailsOf(facts, netip.Addr{}); err != nil {
		return Result{}, err
	}
	if err := h.open(); err != nil {
		return Result{}, err
	}
	defer n.Close()
	h.UI.Note("waiting for a client on port %d until %s; on the other node: launch bench --client %s%s", h.Port,
		time.Now().Add(h.JoinTimeout).Format("15:04:05"), n.Name, h.otherPort())
	for {
		var got bench.Asking
		select {
		case got = <-n.Asked:
		case err := <-wrong:
			return Result{}, err
		case <-wait.Done():
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			return Result{}, exit.Errorf(exit.Missing, "no client connected within %s", h.JoinTimeout).
				Do("on the other node: launch bench --client %s%s", n.Name, h.otherPort())
		}
		h.began = time.Now()
		var all []bench.Meeting
		for _, m := range bench.Match(got.Theirs.Ports, got.Mine) {
			all = append(all, bench.Meeting{Self: 1, Other: 0, Port: got.Mine[m[1]], PeerPort: got.Theirs.Ports[m[0]].Name,
				Wait: maxWait})
		}
		m := h.meter(got.Mine)
		samples := n.Round(ctx, all)
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		absent := []string{bench.CauseLeft, string(sidechannel.Dropped), string(sidechannel.Silent),
			string(sidechannel.Reset)}
		if len(samples) > 0 && !slices.ContainsFunc(samples,
			func(s bench.Sample) bool { return !slices.Contains(absent, s.Cause) }) {
			h.UI.Note("client %s left: %s; waiting for another client", got.Theirs.Name, samples[0].Err)
			continue
		}
		server := bandwidth.Rates{Rank: 1, Name: n.Name, Ports: got.Mine, Disturbed: m.disturbed(n.Name, 1, samples)}
		return h.report(1, [2]bandwidth.Rates{{Name: got.Theirs.Name, Ports: got.Theirs.Ports}, server}, samples)
	}
}

// open listens on all addresses: a client may call any of them.
func (h *byHand) open() error {
	n := h.node
	var keys *tls.Config
	if k := h.Token.Keys(""); k != nil {
		keys = k.Server()
	}
	err := n.Open(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(h.Port)), keys)
	if err != nil { // a kernel without IPv6
		if n.Open(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(h.Port)), keys) == nil {
			return nil
		}
		return exit.Errorf(exit.Unfit, "%v", err).
			Do("ss -ltnp shows which process has it; or choose another port on both nodes: --bench-port %d", h.Port+1)
	}
	return nil
}

// otherPort returns the flag for a port other than the default.
func (b *Bench) otherPort() string {
	if b.Port == DefaultPort {
		return ""
	}
	return " --bench-port " + strconv.Itoa(b.Port)
}

// call measures with the server of --client.
func (h *byHand) call(ctx, wait context.Context) (Result, error) {
	n := h.node
	n.Keys = h.Token.Keys("").Client()
	at, from, err := h.serverAt(wait)
	if err != nil {
		return Result{}, err
	}
	ports, err := h.ratePorts(wait, h.facts, from, n.Name)
	if err != nil {
		return Result{}, err
	}
	n.Ports = ports
	n.Ready()
	theirs, err := h.askServer(ctx, wait, n, at)
	if err != nil {
		return Result{}, err
	}
	test := h.test(handTest())
	test.GPU = h.Memory != MemoryHost
	var all []bench.Meeting
	for _, m := range bench.Match(n.Ports, theirs.Ports) {
		all = append(all, bench.Meeting{Self: 0, Other: 1, Port: n.Ports[m[0]], PeerPort: theirs.Ports[m[1]].Name, At: at,
			Lead: true, Wait: maxWait, Test: test})
	}
	if len(all) == 0 {
		return Result{}, exit.Errorf(exit.Config, "the two nodes have no rail in common: %d here, %d on %s", len(n.Ports),
			len(theirs.Ports), theirs.Name).
			Do("launch fabric   # on both; or name an interface on each: --rails eth0")
	}
	// without a GPU the test takes no time
	test.GPU = test.GPU && slices.ContainsFunc(n.Ports, func(p bench.Port) bool { return p.GPU != nil })
	h.UI.Note("measuring %s with %s, about %s", finding.Plural(len(all), "rail", "rails"), theirs.Name, test.Takes().
		Round(100*time.Millisecond))
	m := h.meter(n.Ports)
	samples := n.Round(ctx, all)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if !slices.ContainsFunc(samples, func(s bench.Sample) bool { return s.Cause != bench.CauseLeft }) {
		return Result{}, exit.Errorf(exit.Missing, "%s left during the measurement", theirs.Name).
			Do("see the output of launch there; then start both again")
	}
	client := bandwidth.Rates{Name: n.Name, Ports: n.Ports, Disturbed: m.disturbed(n.Name, 0, samples)}
	return h.report(0, [2]bandwidth.Rates{client, {Rank: 1, Name: theirs.Name, Ports: theirs.Ports}}, samples)
}

// serverAt returns the server's address, and this node's address towards it.
func (b *Bench) serverAt(ctx context.Context) (at netip.AddrPort, from netip.Addr, err error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", b.Client)
	if err != nil || len(addrs) == 0 {
		return at, from, exit.Errorf(exit.Unreachable, "--client %s: %v", b.Client, err).
			Do("check the spelling, or give its address; getent hosts %s asks this node's resolver", b.Client)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	at = netip.AddrPortFrom(addrs[0], uint16(b.Port))
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", at.String()) // asks for the route, and sends nothing
	if err != nil {
		return at, from, exit.Errorf(exit.Unreachable, "--client %s: %v", b.Client, err).
			Do("ip route get %s", addrs[0].String())
	}
	defer c.Close()
	return at, c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// askServer waits for the server and returns its offer.
func (b *Bench) askServer(ctx, wait context.Context, n *bench.Node, at netip.AddrPort) (bench.Offer, error) {
	patience := time.AfterFunc(time.Second, func() {
		b.UI.Note("no server at %s yet; waiting until %s; on that node: launch bench --server%s", at, time.Now().
			Add(b.JoinTimeout).Format("15:04:05"), b.otherPort())
	})
	defer patience.Stop()
	theirs, err := n.Ask(wait, at)
	switch cause := sidechannel.CauseOf(err); {
	case err == nil:
		return theirs, nil
	case ctx.Err() != nil:
		return theirs, context.Cause(ctx)
	case cause == sidechannel.Token:
		return theirs, exit.Errorf(exit.Config, "%s: %v", at, err).Do("set the same LAUNCH_TOKEN on both nodes, or on none")
	case cause == sidechannel.Stranger, cause == sidechannel.Version:
		return theirs, exit.Errorf(exit.Config, "%s: %v", at, err).
			Do("install the same launch on both nodes, or choose a free port: --bench-port")
	case errors.Is(err, context.Canceled):
		return theirs, err
	default:
		return theirs, exit.Errorf(exit.Missing, "no bench server answers at %s within %s: %s (%v)", at, b.JoinTimeout, cause,
			err).
			Do("on %s: launch bench --server%s; is TCP port %d open there?", b.Client, b.otherPort(), b.Port)
	}
}

// report returns the judged samples of two nodes, as for a job of two nodes.
func (h *byHand) report(self int, both [2]bandwidth.Rates, samples []bench.Sample) (Result, error) {
	if both[0].Name == both[1].Name {
		both[0].Name, both[1].Name = both[0].Name+" (client)", both[1].Name+" (server)"
	}
	both[0].Samples, both[self].Was = samples, h.was
	judged := bandwidth.Compare(both[:], h.Thresholds)
	judged.Again = nil // with the same two nodes it would be the same
	own := undisturbed(samples, self, both[self].Disturbed)
	return Result{Verdict: judged, Self: self, Own: own, Took: time.Since(h.began)}, nil
}
