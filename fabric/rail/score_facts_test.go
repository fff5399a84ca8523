package rail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"launch/fabric"
)

// TestScoreOnTheFactsAlone interprets every recorded machine with named devices, also those recorded
// as the output of tools, without a tree. testdata/recorded.jsonl has what was seen on each, one a line,
// and an expert's answer. The test builds the facts from it, and puts bridges between GPUs and NICs so
// that their distances are as recorded. So it judges only the interpretation.
func TestScoreOnTheFactsAlone(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "recorded.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	b := &board{t: t, fields: map[string]*score{}}
	machines := 0
	for line := range bytes.Lines(data) {
		var e expected
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		machines++
		b.name = e.Name
		f := Of(e.node(), netip.Addr{})
		if e.Fabric.Kind != nil {
			b.mark("kind", "fabric", *e.Fabric.Kind, f.Kind)
		}
		for _, want := range e.Devices {
			b.role(want, f)
		}
		if e.Best != nil {
			b.mark("best", "rails", sorted(*e.Best), railNames(f, *e.Best))
		}
		for i, g := range e.GPUs.Devices {
			if len(g.Nearest) > 0 && len(g.Distance) > 0 && len(f.Rails) > 0 && f.Rails[0].HCA != "" {
				b.mark("nearest", fmt.Sprint("GPU ", i), sorted(g.Nearest), sorted(f.GPUs[i].Rails))
			}
		}
	}
	b.report(machines, factFloors)
}

// node is a machine that consists of the expectation only.
func (e expected) node() fabric.Node {
	n := fabric.Node{Interfaces: []fabric.Interface{{Name: "lo", Kind: "loopback"}}}
	for i := range max(deref(e.GPUs.Count), len(e.GPUs.Devices)) {
		n.Cards = append(n.Cards, fabric.Card{PCI: gpuName(i)})
	}
	for _, d := range e.Devices {
		if len(d.Ports) > 0 && d.Ports[0].Num == 0 { // an interface, as NCCL lists it
			n.Interfaces = append(n.Interfaces, netif(deref(d.Name), "physical", "10.0.0.1/24"))
			continue
		}
		h := fabric.HCA{Name: deref(d.Name), Driver: deref(d.Driver), Type: deref(d.Type),
			Firmware: deref(d.Firmware), Board: deref(d.Board), VF: deref(d.VF), NUMA: -1}
		if d.Driver != nil || d.PCI != nil {
			h.PCI = h.Name // it is somewhere on the bus
		}
		for _, p := range d.Ports {
			h.Ports = append(h.Ports, p.port(&n))
		}
		n.HCAs = append(n.HCAs, h)
	}
	e.wire(&n)
	return n
}

// port is a port of the expectation. A port whose state is unknown counts as active, as
// in the trees.
func (p expectedPort) port(n *fabric.Node) fabric.Port {
	out := fabric.Port{Num: p.Num, State: map[string]int{"DOWN": 1, "ACTIVE": 4, "": 4}[deref(p.State)],
		LinkLayer: deref(p.LinkLayer),
		Rate:      deref(p.Rate), LID: deref(p.LID), SMLID: deref(p.SMLID), Netdev: deref(p.Netdev)}
	if out.Netdev != "" {
		n.Interfaces = append(n.Interfaces, fabric.Interface{Name: out.Netdev, Kind: "physical"})
	}
	for _, g := range p.GIDs {
		if addr, err := netip.ParseAddr(deref(g.GID)); err == nil {
			typ := map[string]string{"v1": "IB/RoCE v1", "v2": RoCEv2}[deref(g.Type)]
			out.GIDs = append(out.GIDs, fabric.GID{Index: g.Index, Addr: addr.Unmap(), Type: typ, Netdev: deref(g.Netdev)})
		}
	}
	return out
}

func gpuName(i int) string { return fmt.Sprint("gpu ", i) }

// levels are what two devices have in common, by their distance.
func levels(distance string) []string {
	all := []string{"switch", "above", "pci", "numa"}
	from := map[string]int{"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3}
	if i, ok := from[distance]; ok {
		return all[i:]
	}
	return nil
}

// wire puts GPUs and NICs below roots and bridges.
func (e expected) wire(n *fabric.Node) {
	shared := map[string][]string{} // by level and device: what it shares with others
	for i, g := range e.GPUs.Devices {
		for nic, d := range g.Distance {
			for _, level := range levels(d) {
				a, b := level+gpuName(i), level+nic
				shared[a], shared[b] = append(shared[a], b), append(shared[b], a)
			}
		}
	}
	var first func(at string, seen map[string]bool) string
	first = func(at string, seen map[string]bool) string { // the first name of a group represents it
		seen[at] = true
		best := at
		for _, next := range shared[at] {
			if !seen[next] {
				best = min(best, first(next, seen))
			}
		}
		return best
	}
	nodes := map[string]int{}
	add := func(name, class string) {
		var path []string
		for _, level := range []string{"pci", "above", "switch"} {
			path = append(path, first(level+name, map[string]bool{}))
		}
		node := first("numa"+name, map[string]bool{})
		if _, ok := nodes[node]; !ok {
			nodes[node] = len(nodes)
		}
		n.PCI = append(n.PCI, fabric.PCI{Addr: name, Class: class, NUMA: nodes[node], Path: append(path, "port of "+name)})
	}
	for i := range e.GPUs.Devices {
		add(gpuName(i), "0x0302")
	}
	for _, h := range n.HCAs {
		add(h.Name, "")
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
