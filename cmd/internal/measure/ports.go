package measure

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/internal/exit"

	"launch/preflight/bandwidth"
	"launch/preflight/bench"
)

// idleCheck is how long the ports' counters are watched first: a training job sends several times within it.
const idleCheck = 200 * time.Millisecond

// RailsOf returns this node's rails, or those that --rails names.
func (b *Bench) RailsOf(n fabric.Node, addr netip.Addr) ([]bench.Port, error) {
	ports, err := bandwidth.Ports(n, addr, b.Rails)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "%s: %v", b.From("rails"), err).
			Do("launch fabric   # on this node prints what it has")
	}
	if b.Memory != MemoryHost {
		bandwidth.NearestGPUs(n, ports, b.Memory == MemoryGPU)
	}
	return ports, nil
}

// ratePorts returns the rails to measure, each with what uses it already.
func (b *Bench) ratePorts(ctx context.Context, n fabric.Node, addr netip.Addr, name string) ([]bench.Port, error) {
	ports, err := b.RailsOf(n, addr)
	m := b.meter(ports)
	if err != nil || m == nil {
		return ports, err
	}
	select {
	case <-time.After(idleCheck):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for i, p := range ports {
		if t, took, ok := m.moved(i); ok { // else it is unknown whether the port is in use
			ports[i].Busy = bandwidth.Busy(p, name, float64(t.Sent)/took.Seconds(), float64(t.Received)/took.Seconds())
		}
	}
	return ports, nil
}

// meter has the traffic counters of ports at one moment.
type meter struct {
	ports []bench.Port
	was   []fabric.Traffic
	errs  []error
	at    time.Time
}

// meter reads the counters of ports. It returns nil with --force.
func (b *Bench) meter(ports []bench.Port) *meter {
	if b.Force {
		return nil
	}
	m := &meter{ports: ports, was: make([]fabric.Traffic, len(ports)), errs: make([]error, len(ports)), at: time.Now()}
	for i := range ports {
		m.was[i], m.errs[i] = m.read(i)
	}
	return m
}

// read returns the counters of a port now.
func (m *meter) read(i int) (fabric.Traffic, error) {
	return fabric.ReadTraffic(fabric.Live().Sys, m.ports[i].Netdev, m.ports[i].HCA, m.ports[i].Num)
}

// moved returns the traffic since the meter was read, and the time; false: unreadable counters, or a reset.
func (m *meter) moved(i int) (t fabric.Traffic, took time.Duration, ok bool) {
	now, err := m.read(i)
	if err != nil || m.errs[i] != nil || now.Sent < m.was[i].Sent || now.Received < m.was[i].Received {
		return t, 0, false
	}
	return fabric.Traffic{Sent: now.Sent - m.was[i].Sent, Received: now.Received - m.was[i].Received}, time.Since(m.at),
		true
}

// disturbed returns the ports that other programs used during the samples, each with the reason.
func (m *meter) disturbed(name string, rank int, own []bench.Sample) map[string]string {
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for i, p := range m.ports {
		if t, took, ok := m.moved(i); ok {
			if why := bandwidth.Disturbed(p, name, rank, t, took, own); why != "" {
				out[p.Name] = why
			}
		}
	}
	return out
}

// undisturbed returns the samples of a node during which its own port was not disturbed.
func undisturbed(all []bench.Sample, rank int, disturbed map[string]string) []bench.Sample {
	return slices.DeleteFunc(slices.Clone(all), func(s bench.Sample) bool {
		own := s.FromPort
		if s.From != rank {
			own = s.ToPort
		}
		return disturbed[own] != ""
	})
}

// ways returns what can measure here, the best first. Only node type 1 has reliable
// connections without a connection manager: neither EFA nor iWARP does.
func (b *Bench) ways(n fabric.Node) []bench.Measurer {
	if b.TCP {
		return []bench.Measurer{bench.TCP()}
	}
	const channelAdapter = 1
	opens := func(hca string) bool {
		return slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool {
			return h.Name == hca &&
				h.NodeType == channelAdapter
		}) &&
			slices.ContainsFunc(n.Verbs.Devices, func(d verbs.Device) bool { return d.Name == hca && d.Opens })
	}
	return []bench.Measurer{bench.Verbs(opens), bench.TCP()}
}
