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

	"launch/internal/job"
	"launch/internal/peer"
	"launch/internal/record"
	"launch/internal/ui"
	"launch/preflight"
	"launch/preflight/bench"
)

// benchHand measures between two nodes that were started by hand, in any order.
// The client is rank 0 of the two, and leads.
func (a *app) benchHand(ctx context.Context, began time.Time) error {
	s := record.Start{Job: job.Job{Nodes: job.Value[int]{V: 1}}}
	s.Node = a.detect(ctx, job.Job{Nodes: job.Value[int]{V: 2}})
	n := &bench.Node{Name: s.Node.Hostname, Ways: a.ways(s.Node)}
	var server *tls.Config
	if a.keys != nil {
		server, n.Keys = a.keys.Server(), a.keys.Client()
	}
	wait, stop := context.WithTimeout(ctx, a.o.joinTimeout)
	defer stop()
	if a.o.server {
		return a.benchServer(ctx, wait, &s, n, server)
	}
	return a.benchClient(ctx, wait, &s, n, began)
}

// benchServer waits for a client, and measures with it.
func (a *app) benchServer(ctx, wait context.Context, s *record.Start, n *bench.Node, keys *tls.Config) error {
	n.Asked = make(chan bench.Asking, 1)
	wrong := make(chan error, 1)
	n.Rails = func(from netip.Addr) []bench.Port {
		ports, err := a.ratePorts(wait, s.Node, from, n.Name)
		if err != nil {
			select {
			case wrong <- err:
			default:
			}
		}
		return ports
	}
	if _, err := preflight.RatePorts(s.Node, netip.Addr{}, a.o.rails); err != nil {
		_, err = a.ratePorts(wait, s.Node, netip.Addr{}, n.Name)
		return err
	}
	if err := a.openHand(n, keys); err != nil {
		return err
	}
	defer n.Close()
	a.ui.Note("waiting for a client on port %d, until %s; on the other node: launch bench --client %s%s", a.o.benchPort,
		time.Now().Add(a.o.joinTimeout).Format("15:04:05"), s.Node.Hostname, a.otherPort())
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
			return &ended{ui.Failure{Code: exitMissing, What: fmt.Sprintf("no client came within %s", a.o.joinTimeout), Fix: "on the other node: launch bench --client " + s.Node.Hostname + a.otherPort()}}
		}
		began := time.Now()
		var all []bench.Meeting
		for _, m := range bench.Match(got.Theirs.Ports, got.Mine) {
			all = append(all, bench.Meeting{Self: 1, Other: 0, Port: got.Mine[m[1]], PeerPort: got.Theirs.Ports[m[0]].Name, Wait: tardyMost})
		}
		samples := n.Round(ctx, all)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		gone := func(s bench.Sample) bool { return s.Cause == string(peer.Dropped) || s.Cause == string(peer.Silent) }
		if len(samples) > 0 && !slices.ContainsFunc(samples, func(s bench.Sample) bool { return !gone(s) }) {
			a.ui.Note("%s asked, and did not come: %s; waiting for another", got.Theirs.Name, samples[0].Err)
			continue
		}
		n.Ports = got.Mine
		return a.handReport(s, 1, began, got.Theirs, bench.Offer{Name: n.Name, Ports: got.Mine}, samples)
	}
}

// openHand listens for everybody: by which address a client comes is not known.
func (a *app) openHand(n *bench.Node, keys *tls.Config) error {
	if a.o.benchPort < 1 || a.o.benchPort > 65535 {
		return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s is %d: a port from 1 to 65535", a.o.from("bench-port"), a.o.benchPort), Fix: fmt.Sprintf("--bench-port %d", defaultBenchPort)}
	}
	err := n.Open(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(a.o.benchPort)), keys)
	if err != nil { // a kernel without IPv6
		if n.Open(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(a.o.benchPort)), keys) == nil {
			return nil
		}
		return &job.Error{Code: exitUnfit, What: err.Error(), Fix: fmt.Sprintf("ss -ltnp shows who has it; or another port, on both nodes: --bench-port %d", a.o.benchPort+1)}
	}
	return nil
}

func (a *app) otherPort() string {
	if a.o.benchPort == defaultBenchPort {
		return ""
	}
	return " --bench-port " + strconv.Itoa(a.o.benchPort)
}

// benchClient measures with the server at a host.
func (a *app) benchClient(ctx, wait context.Context, s *record.Start, n *bench.Node, began time.Time) error {
	at, from, err := a.serverAt(wait)
	if err != nil {
		return err
	}
	ports, err := a.ratePorts(wait, s.Node, from, n.Name)
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
	var all []bench.Meeting
	for _, m := range bench.Match(n.Ports, theirs.Ports) {
		all = append(all, bench.Meeting{Self: 0, Other: 1, Port: n.Ports[m[0]], PeerPort: theirs.Ports[m[1]].Name, At: at, Lead: true, Wait: tardyMost, Test: test})
	}
	if len(all) == 0 {
		return &job.Error{Code: exitConfig, What: fmt.Sprintf("the two nodes have no rail in common: %d here, %d on %s", len(n.Ports), len(theirs.Ports), theirs.Name), Fix: "launch fabric   # on both; or name an interface on each: --rails eth0"}
	}
	a.ui.Note("measuring %s with %s, about %s", ui.Plural(len(all), "rail", "rails"), theirs.Name, test.Takes().Round(100*time.Millisecond))
	samples := n.Round(ctx, all)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.handReport(s, 0, began, bench.Offer{Name: n.Name, Ports: n.Ports}, theirs, samples)
}

// serverAt is the server's address, and this node's towards it.
func (a *app) serverAt(ctx context.Context) (at netip.AddrPort, from netip.Addr, err error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.o.client)
	if err != nil || len(addrs) == 0 {
		return at, from, &job.Error{Code: exitUnreachable, What: fmt.Sprintf("--client %s: %v", a.o.client, err), Fix: "check the spelling, or give its address; getent hosts " + a.o.client + " asks this node's resolver"}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	at = netip.AddrPortFrom(addrs[0], uint16(a.o.benchPort))
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", at.String()) // asks for the route, and sends nothing
	if err != nil {
		return at, from, &job.Error{Code: exitUnreachable, What: fmt.Sprintf("--client %s: %v", a.o.client, err), Fix: "ip route get " + addrs[0].String()}
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
	switch cause := peer.CauseOf(err); {
	case err == nil:
		return theirs, nil
	case ctx.Err() != nil:
		return theirs, context.Cause(ctx)
	case cause == peer.Token:
		return theirs, &job.Error{Code: exitConfig, What: fmt.Sprintf("%s: %v", at, err), Fix: "set the same LAUNCH_TOKEN on both nodes, or on none"}
	case cause == peer.Stranger:
		return theirs, &job.Error{Code: exitConfig, What: fmt.Sprintf("%s: %v", at, err), Fix: "the same launch on both nodes, and a port that nothing else has: --bench-port"}
	case errors.Is(err, context.Canceled):
		return theirs, err
	default:
		return theirs, &ended{ui.Failure{Code: exitMissing, What: fmt.Sprintf("no server at %s within %s: %s (%v)", at, a.o.joinTimeout, cause, err),
			Fix: fmt.Sprintf("on %s: launch bench --server%s; is TCP port %d open there?", a.o.client, a.otherPort(), a.o.benchPort)}}
	}
}

// handReport judges what two nodes measured, as for a job of two.
func (a *app) handReport(s *record.Start, self int, began time.Time, client, server bench.Offer, samples []bench.Sample) error {
	posts := []preflight.Rates{{Rank: 0, Name: client.Name, Ports: client.Ports, Samples: samples}, {Rank: 1, Name: server.Name, Ports: server.Ports}}
	if client.Name == server.Name {
		posts[0].Name, posts[1].Name = client.Name+" (client)", server.Name+" (server)"
	}
	was, err := a.history(s.Node.Hostname)
	if err != nil {
		return err
	}
	posts[self].Was = was
	b := preflight.CompareRates(posts, a.o.thresholds)
	b.Again = nil // with the same two it would be the same
	if len(b.Named) > 0 {
		a.code = exitUnfit
	}
	return a.benched(s, ui.Benched{Bandwidth: b, Self: self, Took: time.Since(began)}, samples)
}
