package bandwidth

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight/bench"
)

// The share of a link's rate that must arrive as payload. It is no limit of any product:
// bytes of the headers over bytes of the packet, and a share that a healthy card exceeds.
const (
	// A RoCE v2 packet has 82 bytes in addition to its payload: preamble, Ethernet, gap (38), IPv4
	// (20), UDP (8), BTH (12) and ICRC (4). InfiniBand's has 30. (IBTA volume 1, 5.2 and annex A17.) A
	// TCP segment has 90: 38, IPv4 (20), TCP with timestamps (32), of which 52 are within the MTU.
	roceHeaders, ibHeaders, tcpHeaders, tcpInside = 82, 30, 90, 52
	// pcieShare is the share of a PCIe link that TLP headers, acknowledgements and
	// 128b/130b leave with the smallest payload of 128 bytes (PCIe base specification).
	pcieShare = 0.8
	// floorShare is the share of that which is the minimum for a healthy port.
	floorShare = 0.8
	// tcpCore is the rate in Gb/s up to which one processor saturates a port over TCP. Above it the processor is
	// measured, and the port is not judged.
	tcpCore = 10
)

// Ports returns the rails of this node as launch bench measures them, or the ones named
// by HCA or interface. The error names a missing one.
func Ports(n fabric.Node, addr netip.Addr, only []string) ([]bench.Port, error) {
	f := rail.Of(n, addr)
	out := finding.Map(f.Rails, func(r rail.Rail) bench.Port { return ratePort(n, r, f.Name(r)) })
	if len(only) == 0 {
		return out, nil
	}
	var picked []bench.Port
	for _, name := range only {
		i := slices.IndexFunc(out, func(p bench.Port) bool { return p.Name == name || p.Netdev == name })
		if i >= 0 {
			picked = append(picked, out[i])
			continue
		}
		p, ok := otherPort(n, name)
		if !ok {
			return nil, fmt.Errorf("no rail %q on this node, which has %s", name, strings.Join(portNames(n, out), ", "))
		}
		picked = append(picked, p)
	}
	return picked, nil
}

// otherPort returns a device that is not a rail but was named.
func otherPort(n fabric.Node, name string) (bench.Port, bool) {
	for _, h := range n.HCAs {
		for _, p := range h.Ports {
			if h.Name == name || fmt.Sprintf("%s:%d", h.Name, p.Num) == name {
				return ratePort(n, rail.Rail{HCA: h.Name, PCI: h.PCI, Port: p.Num, Netdev: p.Netdev, Link: p.LinkLayer,
					Rate: p.Rate, GID: firstGID(p)}, name), true
			}
		}
	}
	if i, ok := n.Interface(name); ok {
		return ratePort(n, rail.Rail{PCI: i.PCI, Netdev: name, Link: "Ethernet", Rate: float64(i.Speed) / 1000, GID: -1},
			name), true
	}
	return bench.Port{}, false
}

// firstGID returns the first RoCE v2 entry that others can reach, or -1.
func firstGID(p fabric.Port) int {
	for _, g := range p.GIDs {
		if g.Type == rail.RoCEv2 && !g.Addr.IsLinkLocalUnicast() {
			return g.Index
		}
	}
	return -1
}

func portNames(n fabric.Node, rails []bench.Port) []string {
	out := finding.Map(rails, func(p bench.Port) string { return p.Name })
	for _, i := range n.Interfaces {
		if i.Up && i.Kind != "loopback" && !slices.Contains(out, i.Name) {
			out = append(out, i.Name)
		}
	}
	return out
}

func ratePort(n fabric.Node, r rail.Rail, name string) bench.Port {
	p := bench.Port{Name: name, Netdev: r.Netdev, HCA: r.HCA, Num: r.Port, GID: r.GID, Link: r.Link, Rate: r.Rate}
	i, ok := n.Interface(r.Netdev)
	if ok {
		p.MTU = i.MTU
		p.Net = reachedAt(i)
	}
	for _, h := range n.HCAs {
		for _, o := range h.Ports {
			if h.Name == r.HCA && o.Num == r.Port {
				p.Lanes = o.Lanes
			}
		}
	}
	if madeUp(n, r, i) {
		p.Rate = 0
	}
	p.Floor = floor(n, r, p)
	return p
}

// reachedAt returns the address of an interface for others: IPv4 before IPv6, and none that is link-local.
func reachedAt(i fabric.Interface) (best netip.Prefix) {
	for _, a := range i.Addrs {
		if a.Addr().IsLinkLocalUnicast() {
			continue
		}
		if !best.IsValid() || a.Addr().Is4() && !best.Addr().Is4() {
			best = a
		}
	}
	return best
}

// madeUp reports whether the driver of a virtual interface or of a software RDMA device invents the rate.
func madeUp(n fabric.Node, r rail.Rail, i fabric.Interface) bool {
	if r.HCA == "" {
		return i.Kind != "physical" && i.Kind != "bond" && i.Kind != "vlan" || n.Cloud.Virtual
	}
	k := slices.IndexFunc(n.HCAs, func(h fabric.HCA) bool { return h.Name == r.HCA })
	return k >= 0 && n.HCAs[k].PCI == ""
}

// floor returns the minimum payload of a port in bytes/s by its own rate, MTU and PCIe link; 0: unknown.
func floor(n fabric.Node, r rail.Rail, p bench.Port) float64 {
	if p.Rate <= 0 || r.HCA == "" && p.Rate > tcpCore {
		return 0
	}
	mtu := float64(cmp.Or(p.MTU, 1500))
	wire := 0.0
	switch {
	case r.HCA == "":
		wire = (mtu - tcpInside) / (mtu - tcpInside + tcpHeaders)
	case r.Link == "Ethernet":
		payload := float64(cmp.Or(rail.RoCEMTU(p.MTU), 1024))
		wire = payload / (payload + roceHeaders)
	default:
		wire = 2048.0 / (2048 + ibHeaders) // the minimum that a subnet manager sets
	}
	gbit := p.Rate * wire
	if own, ok := n.Function(r.PCI); ok && !n.Cloud.Virtual { // a guest does not see the real link
		if bus := fabric.PCIeRate(cmp.Or(own.Gen, own.MaxGen), own.Lanes) * pcieShare; bus > 0 {
			gbit = min(gbit, bus)
		}
	}
	return floorShare * gbit * 1e9 / 8
}

// The use that counts as another job: 5 % of the port; if its rate is not known, more than monitoring and logs send.
const (
	busyShare   = 0.05
	busyUnknown = 5e6 // bytes/s
)

// The share of a port's counters that a test adds to its payload: headers, 5 % of a TCP
// segment of 1500 bytes and 8 % of a RoCE packet of 1024, and acknowledgements, at most
// 4 % of the other direction. Up to twice that is no other job.
const ownHeaders, ownAnswers = 0.16, 0.08

// othersShare is the share of a port's traffic that is another job where its rate is not known.
const othersShare = 0.2

// inUse returns the bytes per second from which on a port carries another job.
func inUse(p bench.Port) float64 {
	if p.Rate > 0 {
		return busyShare * p.Rate * 1e9 / 8
	}
	return busyUnknown
}

// Busy returns why a port must not be disturbed, by its traffic in either direction in bytes/s, or "".
func Busy(p bench.Port, node string, sent, received float64) string {
	if max(sent, received) <= inUse(p) {
		return ""
	}
	return fmt.Sprintf("%s of %s is in use: it sends %s and receives %s",
		p.Name, node, finding.Speed(sent), finding.Speed(received))
}

// Disturbed returns why the measurements of a port do not count: while the samples were taken it carried clearly
// more than they did. moved is what it counted. It returns "" if it did not, or if that is not known.
func Disturbed(p bench.Port, node string, rank int, moved fabric.Traffic, took time.Duration,
	own []bench.Sample) string {
	if p.Net.Addr().IsLoopback() { // it counts both ends
		return ""
	}
	var out, back, best float64
	for _, s := range own {
		there, here := s.Out.Carried, s.Back.Carried
		switch {
		case s.From == rank && s.FromPort == p.Name:
		case s.To == rank && s.ToPort == p.Name:
			there, here = here, there
		default:
			continue
		}
		if s.Cause == bench.CauseBusy {
			continue
		}
		if there <= 0 || here <= 0 { // it failed midway, or an old kernel does not count
			return ""
		}
		out, back, best = out+there, back+here, max(best, s.Out.Speed, s.Back.Speed)
	}
	others := func(moved uint64, ours, answered float64) float64 {
		return max(0, float64(moved)-(1+ownHeaders)*ours-ownAnswers*answered) / took.Seconds()
	}
	sent, received, most := others(moved.Sent, out, back), others(moved.Received, back, out), inUse(p)
	if p.Rate <= 0 {
		most = min(most, othersShare*best)
	}
	if out == 0 || max(sent, received) <= most {
		return ""
	}
	return fmt.Sprintf("others used %s of %s while it was measured: they sent %s and received %s",
		p.Name, node, finding.Speed(sent), finding.Speed(received))
}
