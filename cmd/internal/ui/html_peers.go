package ui

import (
	"fmt"
	"math"

	"launch/internal/finding"
)

// maxDrawn is the most nodes that a picture shows legibly.
const maxDrawn = 32

// peersPicture is the calls between nodes, the nodes on an ellipse.
type peersPicture struct {
	Width, Height int
	Nodes         []drawnNode
	Edges         []drawnEdge
	Caption       string
}

type drawnNode struct {
	Name, Tip, Anchor string
	Bad               bool
	X, Y, TX, TY      int
}

type drawnEdge struct {
	Bad, Tip               string
	X1, Y1, X2, Y2, LX, LY int
}

// peersOf draws the calls; it returns nil where there are none. Of many nodes it draws those whose calls failed.
func peersOf(s finding.Survey) *peersPicture {
	bad, touched := 0, map[int]bool{}
	for _, c := range s.Calls {
		if c.Bad != "" {
			bad++
			touched[c.From], touched[c.To] = true, true
		}
	}
	if len(s.Calls) == 0 {
		return nil
	}
	var drawn []finding.Surveyed
	for _, n := range s.Nodes {
		if (len(s.Nodes) <= maxDrawn || touched[n.Rank]) && len(drawn) < maxDrawn {
			drawn = append(drawn, n)
		}
	}
	calls := finding.Plural(len(s.Calls), "call", "calls")
	p := &peersPicture{Width: 760, Height: 300, Caption: calls + ", all answered"}
	if bad > 0 {
		p.Caption = fmt.Sprintf("%d of %s failed", bad, calls)
	}
	if more := len(s.Nodes) - len(drawn); more > 0 {
		p.Caption += fmt.Sprintf("; %s not drawn", finding.Plural(more, "node is", "nodes are"))
	}
	if len(drawn) == 0 {
		return nil
	}
	if len(drawn) > 8 {
		p.Height = 560
	}
	p.place(drawn, touched)
	at := map[int]drawnNode{}
	for i, n := range drawn {
		at[n.Rank] = p.Nodes[i]
	}
	for _, c := range s.Calls {
		from, ok1 := at[c.From]
		to, ok2 := at[c.To]
		if ok1 && ok2 && c.From != c.To {
			p.Edges = append(p.Edges, newEdge(from, to, c.Bad))
		}
	}
	return p
}

// place puts the nodes on an ellipse, starting at the left.
func (p *peersPicture) place(nodes []finding.Surveyed, touched map[int]bool) {
	cx, cy := float64(p.Width)/2, float64(p.Height)/2
	for i, n := range nodes {
		angle := math.Pi + 2*math.Pi*float64(i)/float64(len(nodes))
		x, y := cx+(cx-210)*math.Cos(angle), cy+(cy-40)*math.Sin(angle)
		d := drawnNode{
			Name: cut(n.Name, 30), Tip: fmt.Sprintf("node rank %d: %s", n.Rank, n.Name), Anchor: "middle", Bad: n.Unfit,
			X: int(x), Y: int(y), TX: int(x), TY: int(y) + 4,
		}
		switch c := math.Cos(angle); {
		case c > 0.1:
			d.TX, d.Anchor = d.TX+16, "start"
		case c < -0.1:
			d.TX, d.Anchor = d.TX-16, "end"
		case math.Sin(angle) < 0:
			d.TY -= 18
		default:
			d.TY += 20
		}
		if touched[n.Rank] && !n.Unfit {
			d.Tip += ", some of its calls failed"
		}
		p.Nodes = append(p.Nodes, d)
	}
}

// newEdge returns an arrow that leaves room for the arrow back. The label is closer to the caller.
func newEdge(from, to drawnNode, bad string) drawnEdge {
	dx, dy := float64(to.X-from.X), float64(to.Y-from.Y)
	length := max(math.Hypot(dx, dy), 1)
	ux, uy := dx/length, dy/length
	const aside, short = 5, 12
	at := func(along float64) (int, int) {
		return int(float64(from.X) + ux*along - uy*aside), int(float64(from.Y) + uy*along + ux*aside)
	}
	e := drawnEdge{Bad: bad, Tip: fmt.Sprintf("%s calls %s: %s", from.Name, to.Name, bad)}
	if bad == "" {
		e.Tip += "ok"
	}
	e.X1, e.Y1 = at(short)
	e.X2, e.Y2 = at(length - short)
	e.LX, e.LY = at(length * 0.38)
	e.LY += 13
	if ux < 0 {
		e.LY -= 20
	}
	return e
}
