package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
)

// box is a NUMA node, a root or a switch, with the cards and boxes in it.
type box struct {
	label string
	depth int
	key   string // the bridge's address, the root, the NUMA node
	boxes []*box
	cards []*card

	x, y, w, h int // x and y within the box around it
}

// card is one device.
type card struct {
	class, name, tip string
	lines            []string // two
	numa             int
	addr             string   // of its PCI function
	path             []string // the bridges above it on the PCI bus

	x, y int
}

// boxes returns the NUMA nodes, then the devices whose place on the bus is unknown.
func boxes(n fabric.Node, f rail.Fabric) []*box {
	bands := map[int]*box{}
	elsewhere := &box{label: "place on the PCI bus unknown"}
	for _, c := range cards(n, f) {
		if len(c.path) == 0 {
			elsewhere.cards = append(elsewhere.cards, c)
			continue
		}
		band := bands[c.numa]
		if band == nil {
			band = &box{label: fmt.Sprintf("NUMA node %d", c.numa)}
			if c.numa < 0 {
				band.label = "NUMA node unknown"
			}
			bands[c.numa] = band
		}
		band.add(c, c.path)
	}
	var out []*box
	for _, numa := range slices.Sorted(maps.Keys(bands)) {
		out = append(out, bands[numa].plain(0))
	}
	if len(elsewhere.cards) > 0 {
		out = append(out, elsewhere)
	}
	return out
}

// add puts a card below its bridges.
func (b *box) add(c *card, path []string) {
	if len(path) == 0 {
		b.cards = append(b.cards, c)
		return
	}
	i := slices.IndexFunc(b.boxes, func(in *box) bool { return in.key == path[0] })
	if i < 0 {
		b.boxes = append(b.boxes, &box{key: path[0]})
		i = len(b.boxes) - 1
	}
	b.boxes[i].add(c, path[1:])
}

// plain removes the bridges that hold only one card or one other bridge.
func (b *box) plain(depth int) *box {
	b.depth = depth
	var keep []*box
	for _, in := range b.boxes {
		in = in.plain(depth + 1)
		switch {
		case len(in.boxes) == 0 && len(in.cards) == 1:
			b.cards = append(b.cards, in.cards[0])
		case len(in.boxes) == 1 && len(in.cards) == 0:
			in.boxes[0].lift()
			keep = append(keep, in.boxes[0])
		default:
			in.label = in.title()
			keep = append(keep, in)
		}
	}
	slices.SortFunc(keep, func(a, b *box) int { return strings.Compare(a.key, b.key) })
	b.boxes = keep
	return b
}

// title returns the name of a bridge: the root, a card with several functions, or a switch.
func (b *box) title() string {
	if root, ok := strings.CutPrefix(b.key, "pci"); ok {
		return "PCIe root " + root
	}
	slots := map[string]bool{}
	for _, c := range b.cards {
		slots[slot(c.addr)] = true
	}
	if len(b.boxes) == 0 && len(slots) == 1 {
		return "card " + slot(b.cards[0].addr)
	}
	return "PCIe switch " + b.key
}

// slot returns a PCI address without its function.
func slot(addr string) string {
	s, _, _ := strings.Cut(addr, ".")
	return s
}

func (b *box) lift() {
	b.depth--
	for _, in := range b.boxes {
		in.lift()
	}
}

// fit lays out the content of a box in rows of at most that width, cards first.
func (b *box) fit(width int) {
	x, y, row := gap, labelHeight, 0
	place := func(w, h int) (int, int) {
		if x > gap && x+w+gap > width {
			x, y, row = gap, y+row+gap, 0
		}
		at := x
		x, row = x+w+gap, max(row, h)
		b.w = max(b.w, x)
		return at, y
	}
	b.w = 2*gap + cardWidth
	for _, c := range b.cards {
		c.x, c.y = place(cardWidth, cardHeight)
	}
	for _, in := range b.boxes {
		in.fit(width - 2*gap)
		in.x, in.y = place(in.w, in.h)
	}
	b.h = y + row + gap
}

// cards returns GPUs, HCAs, hardware without an RDMA device, NVSwitches, and interfaces that carry traffic.
func cards(n fabric.Node, f rail.Fabric) (out []*card) {
	for _, g := range f.GPUs {
		c := &card{class: "gpu", name: fmt.Sprintf("GPU %d", g.Index), numa: g.NUMA}
		c.lines, c.tip = []string{cmp.Or(g.Name, g.PCI), ""}, strings.TrimSpace(g.PCI+" "+g.Name)
		if len(g.Own) > 0 {
			c.lines[1] = fmt.Sprintf("%s to %s", g.Distance, g.Own[0])
			if more := len(g.Own) - 1; more > 0 {
				c.lines[1] += fmt.Sprintf(" +%d", more)
			}
			c.tip += fmt.Sprintf("; nearest rails, %s: %s", g.Distance, strings.Join(g.Rails, ", "))
		}
		out = append(out, c.at(n, g.PCI))
	}
	drawn := map[string]bool{} // interfaces of a drawn HCA
	for _, nic := range f.NICs {
		if !nic.HCA {
			continue
		}
		i := slices.IndexFunc(n.HCAs, func(h fabric.HCA) bool { return h.Name == nic.Name })
		if i < 0 {
			out = append(out, nicCard(nic, "no RDMA device", "").at(n, nic.Name))
			continue
		}
		h := n.HCAs[i]
		for _, p := range h.Ports {
			drawn[p.Netdev] = true
		}
		c := nicCard(nic, portLine(h), gidLine(f, h))
		c.numa = h.NUMA
		out = append(out, c.at(n, h.PCI))
	}
	switches := 0
	for _, p := range n.PCI {
		if p.Vendor == "0x10de" && strings.HasPrefix(p.Class, "0x0680") {
			c := &card{class: "switch", name: fmt.Sprintf("NVSwitch %d", switches), tip: "NVSwitch " + p.Device}
			c.lines = []string{p.Addr}
			out = append(out, c.at(n, p.Addr))
			switches++
		}
	}
	return append(out, interfaceCards(n, f, drawn)...)
}

// interfaceCards returns the interfaces that carry traffic and belong to no HCA.
func interfaceCards(n fabric.Node, f rail.Fabric, drawn map[string]bool) (out []*card) {
	for _, nic := range f.NICs {
		i, ok := n.Interface(nic.Name)
		if nic.HCA || !ok || drawn[nic.Name] {
			continue
		}
		switch nic.Role {
		case rail.Peer, rail.Management, rail.Compute, rail.Storage:
			line := i.Kind
			if i.Speed > 0 {
				line = speed(float64(i.Speed)/1000) + " " + line
			}
			c := nicCard(nic, line, "")
			for _, r := range f.Rails {
				if r.HCA == "" && r.Netdev == i.Name {
					c.class = "rail" // also where its role is that the other nodes use its address
				}
			}
			c.numa = i.NUMA
			out = append(out, c.at(n, i.PCI))
		}
	}
	return out
}

// nicCard returns the card of an HCA or an interface.
func nicCard(nic rail.NIC, first, second string) *card {
	class := map[rail.Role]string{
		rail.Compute: "rail", rail.Storage: "storage", rail.Management: "management", rail.Peer: "management",
	}[nic.Role]
	switch {
	case nic.Missing:
		class = "missing"
	case class == "":
		class = "unusable"
	}
	word := strings.Replace(roleWord(nic), string(rail.Compute), "rail", 1)
	if class != "rail" || second == "" {
		second = strings.TrimSpace(word + " " + second)
	}
	tip := nic.Name + ": " + word + ": " + nic.Why
	return &card{class: class, name: nic.Name, tip: tip, numa: -1, lines: []string{first, second}}
}

// at sets the place of a card on the bus.
func (c *card) at(n fabric.Node, addr string) *card {
	if p, ok := n.Function(addr); ok {
		c.addr, c.numa, c.path = addr, p.NUMA, p.Path
		if c.class != "gpu" {
			c.tip += " (" + addr + ")"
		}
	}
	return c
}

// portLine returns the rates and links of the ports of an HCA, equal ports once.
func portLine(h fabric.HCA) string {
	var words []string
	count := map[string]int{}
	for _, p := range h.Ports {
		link, word := linkWord(p.LinkLayer, h.Driver, ""), "no link"
		switch {
		case p.State == 0 || p.Active() && p.Rate == 0:
			word = cmp.Or(link, h.Driver)
		case p.Active():
			word = strings.TrimSpace(speed(p.Rate) + " " + link)
		}
		if count[word]++; count[word] == 1 {
			words = append(words, word)
		}
	}
	for i, word := range words {
		if n := count[word]; n > 1 {
			words[i] = fmt.Sprintf("%d x %s", n, word)
		}
	}
	return strings.Join(words, ", ")
}

// gidLine returns the GIDs and interfaces of the rails of an HCA.
func gidLine(f rail.Fabric, h fabric.HCA) string {
	var words []string
	for _, r := range f.Rails {
		if r.HCA != h.Name {
			continue
		}
		if r.GID >= 0 {
			words = append(words, fmt.Sprintf("GID %d", r.GID))
		}
		if r.Netdev != "" {
			words = append(words, r.Netdev)
		}
	}
	return strings.Join(words, " · ")
}
