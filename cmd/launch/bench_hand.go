package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/setting"
	"launch/internal/sidechannel"
	"launch/preflight/bandwidth"
	"launch/preflight/bench"
)

// byHand is one of two nodes that were started by hand, in any order. The client
// is rank 0 of the two, and leads.
type byHand struct {
	*app
	start record.Start
	node  *bench.Node
	was   []bandwidth.PastRate
	began time.Time // the bench, or on a server what its client has asked for
}

// benchHand measures between two nodes.
func (a *app) benchHand(ctx context.Context, began time.Time) (err error) {
	if err := a.tryOutputs(); err != nil { // for nodes of a job readInputs does
		return err
	}
	h := &byHand{app: a, start: record.Start{Job: job.Job{Nodes: setting.Value[int]{V: 1}}}, began: began}
	h.start.Node = a.detect(ctx, job.Job{Nodes: setting.Value[int]{V: 2}})
	h.node = &bench.Node{Name: h.start.Node.Hostname, Ways: a.ways(h.start.Node)}
	if h.was, err = a.history(h.node.Name); err != nil {
		return err
	}
	wait, stop := context.WithTimeout(ctx, a.o.joinTimeout)
	defer stop()
	if a.o.server {
		return h.serve(ctx, wait)
	}
	return h.call(ctx, wait)
}

// serve waits for a client, and measures with it.
func (h *byHand) serve(ctx, wait context.Context) error {
	a, n, facts := h.app, h.node, h.start.Node
	n.Asked = make(chan bench.Asking, 1)
	wrong := make(chan error, 1)
	n.Rails = func(from netip.Addr) []bench.Port {
		ports, err := a.ratePorts(wait, facts, from, n.Name)
		if err != nil {
			select {
			case wrong <- err:
			default:
			}
		}
		return ports
	}
	if _, err := a.rails(facts, netip.Addr{}); err != nil {
		return err
	}
	if err := h.open(); err != nil {
		return err
	}
	defer n.Close()
	a.ui.Note("waiting for a client on port %d, until %s; on the other node: launch bench --client %s%s", a.o.benchPort,
		time.Now().Add(a.o.joinTimeout).Format("15:04:05"), n.Name, a.otherPort())
	for {
		var got bench.Asking
		select {
		case got = <-n.Asked:
		case err := <-wrong:
			return err
		case <-wait.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &exit.Error{Code: exit.Missing, What: fmt.Sprintf("no client came within %s", a.o.joinTimeout), Fix: "on the other node: launch bench --client " + n.Name + a.otherPort()}
		}
		h.began = time.Now()
		var all []bench.Meeting
		for _, m := range bench.Match(got.Theirs.Ports, got.Mine) {
			all = append(all, bench.Meeting{Self: 1, Other: 0, Port: got.Mine[m[1]], PeerPort: got.Theirs.Ports[m[0]].Name, Wait: tardyMost})
		}
		m := a.meter(got.Mine)
		samples := n.Round(ctx, all)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(samples) > 0 && !slices.ContainsFunc(samples, func(s bench.Sample) bool { return !absent(s) }) {
			a.ui.Note("%s asked, and left again: %s; waiting for another", got.Theirs.Name, samples[0].Err)
			continue
		}
		server := bandwidth.Rates{Rank: 1, Name: n.Name, Ports: got.Mine, Disturbed: m.disturbed(n.Name, 1, samples)}
		return h.report(1, [2]bandwidth.Rates{{Name: got.Theirs.Name, Ports: got.Theirs.Ports}, server}, samples)
	}
}

// absent tells whether a sample was not taken since the other end was not there.
func absent(s bench.Sample) bool {
	return slices.Contains([]string{bench.CauseLeft, string(sidechannel.Dropped), string(sidechannel.Silent), string(sidechannel.Reset)}, s.Cause)
}

// open listens for everybody: by which address a client comes is not known.
func (h *byHand) open() error {
	a, n := h.app, h.node
	var keys *tls.Config
	if a.keys != nil {
		keys = a.keys.Server()
	}
	err := n.Open(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(a.o.benchPort)), keys)
	if err != nil { // a kernel without IPv6
		if n.Open(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(a.o.benchPort)), keys) == nil {
			return nil
		}
		return &exit.Error{Code: exit.Unfit, What: err.Error(), Fix: fmt.Sprintf("ss -ltnp shows who has it; or another port, on both nodes: --bench-port %d", a.o.benchPort+1)}
	}
	return nil
}

func (a *app) otherPort() string {
	if a.o.benchPort == defaultBenchPort {
		return ""
	}
	return " --bench-port " + strconv.Itoa(a.o.benchPort)
}

// call measures with the server at a host.
func (h *byHand) call(ctx, wait context.Context) error {
	a, n := h.app, h.node
	if a.keys != nil {
		n.Keys = a.keys.Client()
	}
	at, from, err := a.serverAt(wait)
	if err != nil {
		return err
	}
	ports, err := a.ratePorts(wait, h.start.Node, from, n.Name)
	if err != nil {
		return err
	}
	n.Ports = ports
	n.Ready()
	theirs, err := a.askServer(ctx, wait, n, at)
	if err != nil {
		return err
	}
	test := a.test(handTest())
	test.GPU = a.o.memory != memoryHost
	var all []bench.Meeting
	for _, m := range bench.Match(n.Ports, theirs.Ports) {
		all = append(all, bench.Meeting{Self: 0, Other: 1, Port: n.Ports[m[0]], PeerPort: theirs.Ports[m[1]].Name, At: at, Lead: true, Wait: tardyMost, Test: test})
	}
	if len(all) == 0 {
		return &exit.Error{Code: exit.Config, What: fmt.Sprintf("the two nodes have no rail in common: %d here, %d on %s", len(n.Ports), len(theirs.Ports), theirs.Name), Fix: "launch fabric   # on both; or name an interface on each: --rails eth0"}
	}
	test.GPU = test.GPU && slices.ContainsFunc(n.Ports, func(p bench.Port) bool { return p.GPU != nil }) // else it takes no time
	a.ui.Note("measuring %s with %s, about %s", ui.Plural(len(all), "rail", "rails"), theirs.Name, test.Takes().Round(100*time.Millisecond))
	m := a.meter(n.Ports)
	samples := n.Round(ctx, all)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !slices.ContainsFunc(samples, func(s bench.Sample) bool { return s.Cause != bench.CauseLeft }) {
		return &exit.Error{Code: exit.Missing, What: fmt.Sprintf("%s left while it was measured", theirs.Name), Fix: "look at what launch printed there; then start both again"}
	}
	client := bandwidth.Rates{Name: n.Name, Ports: n.Ports, Disturbed: m.disturbed(n.Name, 0, samples)}
	return h.report(0, [2]bandwidth.Rates{client, {Rank: 1, Name: theirs.Name, Ports: theirs.Ports}}, samples)
}

// serverAt is the server's address, and this node's towards it.
func (a *app) serverAt(ctx context.Context) (at netip.AddrPort, from netip.Addr, err error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.o.client)
	if err != nil || len(addrs) == 0 {
		return at, from, &exit.Error{Code: exit.Unreachable, What: fmt.Sprintf("--client %s: %v", a.o.client, err), Fix: "check the spelling, or give its address; getent hosts " + a.o.client + " asks this node's resolver"}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	at = netip.AddrPortFrom(addrs[0], uint16(a.o.benchPort))
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", at.String()) // asks for the route, and sends nothing
	if err != nil {
		return at, from, &exit.Error{Code: exit.Unreachable, What: fmt.Sprintf("--client %s: %v", a.o.client, err), Fix: "ip route get " + addrs[0].String()}
	}
	defer c.Close()
	return at, c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// askServer waits for the server, and says why there is none.
func (a *app) askServer(ctx, wait context.Context, n *bench.Node, at netip.AddrPort) (bench.Offer, error) {
	patience := time.AfterFunc(time.Second, func() {
		a.ui.Note("nobody answers at %s yet; waiting, until %s; on that node: launch bench --server%s", at, time.Now().Add(a.o.joinTimeout).Format("15:04:05"), a.otherPort())
	})
	defer patience.Stop()
	theirs, err := n.Ask(wait, at)
	switch cause := sidechannel.CauseOf(err); {
	case err == nil:
		return theirs, nil
	case ctx.Err() != nil:
		return theirs, context.Cause(ctx)
	case cause == sidechannel.Token:
		return theirs, &exit.Error{Code: exit.Config, What: fmt.Sprintf("%s: %v", at, err), Fix: "set the same LAUNCH_TOKEN on both nodes, or on none"}
	case cause == sidechannel.Stranger:
		return theirs, &exit.Error{Code: exit.Config, What: fmt.Sprintf("%s: %v", at, err), Fix: "the same launch on both nodes, and a port that nothing else has: --bench-port"}
	case errors.Is(err, context.Canceled):
		return theirs, err
	default:
		return theirs, &exit.Error{Code: exit.Missing, What: fmt.Sprintf("no server at %s within %s: %s (%v)", at, a.o.joinTimeout, cause, err),
			Fix: fmt.Sprintf("on %s: launch bench --server%s; is TCP port %d open there?", a.o.client, a.otherPort(), a.o.benchPort)}
	}
}

// report judges what two nodes measured, as for a job of two.
func (h *byHand) report(self int, both [2]bandwidth.Rates, samples []bench.Sample) error {
	if both[0].Name == both[1].Name {
		both[0].Name, both[1].Name = both[0].Name+" (client)", both[1].Name+" (server)"
	}
	both[0].Samples, both[self].Was = samples, h.was
	b := bandwidth.Compare(both[:], h.o.thresholds)
	b.Again = nil // with the same two it would be the same
	if len(b.Named) > 0 {
		h.code = exit.Unfit
	}
	return h.benched(&h.start, ui.Benched{Verdict: b, Self: self, Took: time.Since(h.began)}, undisturbed(samples, self, both[self].Disturbed))
}
