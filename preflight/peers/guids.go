package peers

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
)

// guidsOf returns the GUIDs, without colons, by which a subnet manager knows the InfiniBand ports of virtual functions
// that have a link: of each function and of each port, which is the lower half of its first GID. They were set by a
// person or a program, while a card has its own from the factory. Ports of other link layers have GUIDs that no network
// uses.
func guidsOf(n fabric.Node) (out []string) {
	const initialized = 2 // the state of a port with a link (InfiniBand Architecture, PortInfo)
	for _, h := range n.HCAs {
		if !h.VF {
			continue
		}
		for _, p := range h.Ports {
			if p.LinkLayer != "InfiniBand" || p.State < initialized || h.Driver == "efa" {
				continue
			}
			for _, g := range []string{strings.ReplaceAll(h.GUID, ":", ""), portGUID(p)} {
				if g != "" && !slices.Contains(out, g) {
					out = append(out, g)
				}
			}
		}
	}
	return out
}

// portGUID returns the GUID of an InfiniBand port; "" if it is zero or not known.
func portGUID(p fabric.Port) string {
	if len(p.GIDs) == 0 {
		return ""
	}
	b := p.GIDs[0].Addr.As16()
	if slices.Max(b[8:]) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", b[8:])
}

// spelt returns a GUID as the kernel writes it.
func spelt(guid string) string {
	var parts []string
	for part := range slices.Chunk([]byte(guid), 4) {
		parts = append(parts, string(part))
	}
	return strings.Join(parts, ":")
}

// compareGUIDs reports machines whose InfiniBand cards have a GUID in common, as virtual machines do whose virtual
// functions were given the same one. Nodes on one machine may share its cards, and planes of one card their GUIDs.
func compareGUIDs(posts []Post) (out []judged) {
	by := map[string][]Post{}
	var all []string
	for _, p := range posts {
		for _, g := range p.Traits.GUIDs {
			if p.Traits.Machine == "" {
				continue
			}
			if by[g] = append(by[g], p); len(by[g]) == 1 {
				all = append(all, g)
			}
		}
	}
	machine := func(p Post) string { return p.Traits.Machine }
	shared := map[string][]string{} // by the nodes that have them
	var order []string
	for _, g := range all {
		if len(groups(by[g], machine)) < 2 {
			continue
		}
		who := finding.Some(namesOf(by[g]))
		if len(shared[who]) == 0 {
			order = append(order, who)
		}
		shared[who] = append(shared[who], g)
	}
	for _, who := range order[:min(len(order), most)] {
		guids := shared[who]
		nodes := by[guids[0]]
		f := finding.Warnf("InfiniBand cards of %d machines have one GUID (%s): %s", len(groups(nodes, machine)),
			finding.Some(finding.Map(guids, spelt)), who).Named("same.guid").About(namesOf(nodes)).
			Breaking("the subnet manager takes the cards for one: it serves one of them, or packets for one arrive at the " +
				"other, and connections time out (\"error 12\")").
			Do("for a virtual machine, where its card is (another GUID for each):\n" +
				"ip link set PF vf N node_guid GUID; ip link set PF vf N port_guid GUID   # then start the machine again\n" +
				"for a card of the machine itself: flint -d PCI query   # and burn the firmware of the wrong one with its own GUID")
		for _, p := range nodes[:min(len(nodes), finding.MaxSeen)] {
			f = f.See("/sys/class/infiniband of "+p.Name, "%s", spelt(guids[0]))
		}
		out = append(out, judged{Finding: f})
	}
	return out
}
