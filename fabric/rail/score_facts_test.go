package rail

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"launch/fabric"
)

// TestScoreOnMachinesWithoutATree asks what is made of the machines that were
// recorded as the output of tools: their facts are those that the expectation
// holds, so that only the interpretation is judged.
func TestScoreOnMachinesWithoutATree(t *testing.T) {
	folder, trees := recorded(t)
	files, err := filepath.Glob(filepath.Join(folder, "*", "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	b := &board{t: t, fields: map[string]*score{}}
	machines := 0
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		e := readExpected(t, folder, name)
		if trees[name] != "" || len(e.Devices) == 0 || e.Devices[0].Name == nil {
			continue
		}
		machines++
		b.name = name
		n := e.node()
		f := Of(n, netip.Addr{})
		if e.Fabric.Kind != nil {
			b.mark("kind", "fabric", *e.Fabric.Kind, f.Kind)
		}
		for _, want := range e.Devices {
			b.role(want, f)
		}
		if e.Best != nil {
			b.mark("best", "rails", sorted(*e.Best), railNames(f, *e.Best))
		}
	}
	b.report(machines, factFloors)
}

// node is a machine of nothing but what the expectation says of it.
func (e expected) node() fabric.Node {
	n := fabric.Node{Interfaces: []fabric.Interface{{Name: "lo", Kind: "loopback"}}}
	for i := range deref(e.GPUs.Count) {
		n.Cards = append(n.Cards, fabric.Card{PCI: fmt.Sprintf("gpu %d", i)})
	}
	for _, d := range e.Devices {
		if len(d.Ports) > 0 && d.Ports[0].Num == 0 { // an interface, as NCCL lists it
			n.Interfaces = append(n.Interfaces, fabric.Interface{Name: deref(d.Name), Kind: "physical", Up: true, Running: true,
				Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}})
			continue
		}
		h := fabric.HCA{Name: deref(d.Name), Driver: deref(d.Driver), NodeType: 1, PCI: deref(d.PCI), Type: deref(d.Type),
			Firmware: deref(d.Firmware), Board: deref(d.Board), VF: deref(d.VF), NUMA: -1}
		for _, p := range d.Ports {
			state := map[string]int{"DOWN": 1, "ACTIVE": 4, "": 4}[deref(p.State)]
			h.Ports = append(h.Ports, fabric.Port{Num: p.Num, State: state, LinkLayer: deref(p.LinkLayer), Rate: deref(p.Rate),
				LID: deref(p.LID), SMLID: deref(p.SMLID)})
		}
		n.HCAs = append(n.HCAs, h)
	}
	return n
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
