package ui

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
)

// FabricSVG draws a node: NUMA nodes, the PCIe switches in them, GPUs and NICs below these, each NIC with its rate and
// role. The same facts give the same bytes; the picture refers to nothing outside itself.
func FabricSVG(n fabric.Node, f rail.Fabric) []byte {
	all := boxes(n, f)
	p := picture{used: map[string]bool{}}
	y := margin + titleHeight
	for _, b := range all {
		b.fit(pictureWidth - 2*margin)
		b.w = max(b.w, pictureWidth-2*margin) // the outermost are bands
		p.box(b, margin, y)
		y += b.h + gap
	}
	p.legend(y)
	height := y + legendHeight + margin

	var head picture
	fmt.Fprintf(&head.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"`,
		pictureWidth, height, pictureWidth, height)
	head.b.WriteString(` font-family="Helvetica, Arial, sans-serif">` + "\n")
	fmt.Fprintf(&head.b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", pictureWidth, height)
	host := cmp.Or(n.Hostname, "this node") + prefixed(" · ", n.Product)
	head.text(margin, margin+18, 18, "#1a202c", true, cut(host, 90))
	head.text(margin, margin+38, 12, "#4a5568", false, cut("fabric "+kindWord(f)+": "+f.Why, 160))
	return []byte(head.b.String() + p.b.String() + "</svg>\n")
}

// Sizes in pixels.
const (
	pictureWidth = 1120
	margin       = 20
	gap          = 10
	titleHeight  = 54
	legendHeight = 24
	labelHeight  = 20 // of a box, above its content
	cardWidth    = 154
	cardHeight   = 62
)

// paint is the look of a card.
type paint struct{ fill, stroke, dash, label string }

// paintOf returns the paint of a class of cards.
func paintOf(class string) paint {
	return map[string]paint{
		"gpu":        {"#edf7e0", "#5a8f1e", "", "GPU"},
		"rail":       {"#e3eefb", "#2563a8", "", "rail"},
		"storage":    {"#fdf4dd", "#b7791f", "", "storage"},
		"management": {"#f0f1f3", "#6b7280", "", "management"},
		"missing":    {"#fdeaea", "#c53030", "5 3", "missing rail"},
		"unusable":   {"#fafafa", "#a0a6b0", "3 3", "not usable"},
		"switch":     {"#f3ecfb", "#7b4bb3", "", "NVSwitch"},
	}[class]
}

// picture is the SVG written so far.
type picture struct {
	b    strings.Builder
	used map[string]bool // classes, for the legend
}

// box draws a box with its label, then its content.
func (p *picture) box(b *box, x, y int) {
	fill := []string{"#ffffff", "#f8fafc", "#eef2f7", "#e5ebf2"}[min(b.depth, 3)]
	fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="%s" stroke="#c5cedb"/>`+"\n",
		x, y, b.w, b.h, fill)
	p.text(x+gap, y+14, 11, "#64748b", b.depth == 0, cut(b.label, (b.w-2*gap)/6))
	for _, in := range b.boxes {
		p.box(in, x+in.x, y+in.y)
	}
	for _, c := range b.cards {
		p.card(c, x+c.x, y+c.y)
	}
}

// card draws one device.
func (p *picture) card(c *card, x, y int) {
	p.used[c.class] = true
	look := paintOf(c.class)
	fmt.Fprintf(&p.b, `<g class="device" data-name="%s"><title>%s</title>`, escaped(c.name), escaped(c.tip))
	p.rect(x, y, cardWidth, cardHeight, look)
	fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="4" height="%d" rx="2" fill="%s"/>`+"\n",
		x+4, y+6, cardHeight-12, look.stroke)
	p.text(x+14, y+17, 12, "#1a202c", true, cut(c.name, 16))
	for i, line := range c.lines {
		p.text(x+14, y+31+13*i, 10, "#475569", false, cut(line, 23))
	}
	p.b.WriteString("</g>\n")
}

func (p *picture) rect(x, y, w, h int, look paint) {
	dash := ""
	if look.dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, look.dash)
	}
	fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="%s"%s/>`+"\n",
		x, y, w, h, look.fill, look.stroke, dash)
}

// legend names the colours in use.
func (p *picture) legend(y int) {
	x := margin
	for _, class := range []string{"gpu", "rail", "storage", "management", "missing", "unusable", "switch"} {
		if !p.used[class] {
			continue
		}
		look := paintOf(class)
		p.rect(x, y+4, 16, 12, look)
		p.text(x+22, y+14, 11, "#475569", false, look.label)
		x += 44 + 7*len(look.label)
	}
}

func (p *picture) text(x, y, size int, colour string, bold bool, s string) {
	weight := ""
	if bold {
		weight = ` font-weight="bold"`
	}
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" font-size="%d" fill="%s"%s>%s</text>`+"\n",
		x, y, size, colour, weight, escaped(s))
}

// escaped returns text escaped for XML.
func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(visible(s))) // a Builder does not fail
	return b.String()
}
