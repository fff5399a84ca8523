package rdma

import (
	"context"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaLink reports cards like the rails that have no link. Where no rail is left, it reports ports
// with a cable that nothing brings up: an InfiniBand fabric without a subnet manager. So it does where another network
// takes the place of the rails.
func rdmaLink(_ context.Context, in preflight.Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := rail.PortsOf(in.Node, f)
	var out []finding.Finding
	var idle []fabric.HCA // with ports that nothing brings up, for one cause
	var down []fabric.HCA // without a link
	for _, nic := range f.NICs {
		i := slices.IndexFunc(in.Node.HCAs, func(h fabric.HCA) bool { return h.Name == nic.Name })
		if !nic.HCA || i < 0 {
			if f, bad := cardless(in, nic); bad {
				out = append(out, f)
			}
			continue
		}
		h := in.Node.HCAs[i]
		if f, bad := wrongMode(in.Node, h, nic, ports); bad {
			out = append(out, f)
			continue
		}
		out = append(out, partly(in.Node, h, nic)...)
		held, bad := barred(in.Node, h, nic)
		waiting := rail.Unserved(h)
		switch gone := nic.Missing || len(ports) == 0 || slices.Contains(f.Down, h.Name); {
		case bad && gone:
			out = append(out, held)
		case waiting > 0 && gone:
			idle = append(idle, h)
		default:
			if f, bad := linkless(in, h, nic, ports); bad {
				out = append(out, f)
			} else if nic.Missing {
				down = append(down, h)
			}
		}
	}
	out = append(out, unplugged(f, down)...)
	out = append(out, unserved(in.Node, idle)...)
	if f, bad := dark(in, f); bad {
		out = append(out, f)
	}
	out = append(out, slices.Concat(recovering(ports), oneLegged(in, ports))...)
	if f, bad := unrailed(in, f); bad && len(out) == 0 {
		out = append(out, f)
	}
	if why := noRails(in); len(out) == 0 && why != "" && f.Kind != rail.Slingshot {
		return finding.Skips(why)
	}
	return preflight.OrPass(out, "%s", described(f))
}

// cardless finds a missing rail that shows no RDMA device: a link of Slingshot, and a card without a driver.
func cardless(in preflight.Input, nic rail.NIC) (finding.Finding, bool) {
	if nic.HCA {
		return refused(in, nic)
	}
	return finding.Warnf("%s is a link of this node's fabric and has no carrier", nic.Name).
		See("/sys/class/net/"+nic.Name, "%s", nic.Why).
		Breaking(oneLess).
		Do("ethtool %s   # inspect its cable and the switch's port\nif it has no cable on purpose: --skip rdma.link",
			nic.Name), nic.Missing
}

// linkless finds an HCA that would be a rail if it answered, had both halves of its cable, or were a full member of a
// partition.
func linkless(in preflight.Input, h fabric.HCA, nic rail.NIC, ports []rail.Port) (finding.Finding, bool) {
	if f, bad := outside(h, nic, ports); bad {
		return f, true
	}
	if f, bad := halfOff(h, nic, ports); bad {
		return f, true
	}
	like := func(p rail.Port) bool { return p.Card.Type == h.Type && h.Type != "" && p.Card.VF == h.VF }
	if why := silent(in, h); why != "" && !slices.ContainsFunc(h.Ports, fabric.Port.Active) &&
		slices.ContainsFunc(ports, like) {
		return finding.Warnf("%s is like the rails of this node and does not answer: %s", h.Name, why).
			See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, nic.Why).
			Breaking("this node has one rail less; programs that ask this card may hang").
			Do("dmesg | grep -e mlx5 -e %s\nmlxfwreset -d %s r   # or take this node out and power it off and on", h.PCI,
				h.PCI), true
	}
	return finding.Finding{}, false
}

// unplugged reports the cards like the rails that have no link, one finding for each state of their ports.
func unplugged(f rail.Fabric, down []fabric.HCA) (out []finding.Finding) {
	by := map[string][]fabric.HCA{}
	var states []string
	for _, h := range down {
		i := slices.IndexFunc(f.NICs, func(n rail.NIC) bool { return n.HCA && n.Name == h.Name })
		why := f.NICs[i].Why
		if by[why] == nil {
			states = append(states, why)
		}
		by[why] = append(by[why], h)
	}
	for _, why := range states {
		names := finding.Some(finding.Map(by[why], func(h fabric.HCA) string { return h.Name }))
		w := finding.Warnf("%s is like the rails of this node and has no link: %s", names, why).Breaking(oneLess)
		if n := len(by[why]); n > 1 {
			w = finding.Warnf("%s are like the rails of this node and have no link: %s", names, why).
				Breaking("this node has %d rails less; the GPUs next to them share others", n)
		}
		for _, h := range by[why][:min(len(by[why]), finding.MaxSeen)] {
			w = w.See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, why)
		}
		out = append(out, w.Do("ibstat %s   # inspect its cable and the switch's port\n"+
			"if it has no cable on purpose: --skip rdma.link", by[why][0].Name))
	}
	return out
}

// described returns the training fabric in one line, and whether it is a guess.
func described(f rail.Fabric) string {
	if f.Guess() != "" {
		return f.Why + " (a guess)"
	}
	return f.Why
}

// silent returns why something of an HCA could not be read, or "".
func silent(in preflight.Input, h fabric.HCA) string {
	at := "class/infiniband/" + h.Name
	for _, u := range in.Node.Unknown {
		if u.What == at || strings.HasPrefix(u.What, at+"/") {
			return strings.TrimPrefix(u.What, "class/infiniband/") + ": " + u.Why
		}
	}
	return ""
}
