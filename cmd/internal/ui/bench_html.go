package ui

import (
	"fmt"

	"launch/internal/finding"
)

// heatPicture is a grid of senders and receivers for each rail, or one grid of nodes and rails.
type heatPicture struct {
	Width, Height int
	Cells         []heatCell
	Words         []heatWord
	Caption       string
}

type heatCell struct {
	X, Y      int
	Level     int // 0 to 9, share of the expected speed in tenths; 10: all of it
	Slow      bool
	Text, Tip string
}

type heatWord struct {
	X, Y   int
	Anchor string
	Text   string
}

// BenchHTML returns the outcome of launch bench as one page.
func BenchHTML(b Benched) ([]byte, error) {
	shown := append(gravest(b.Findings), of(b.Findings, finding.Skip)...)
	return page{
		Outcome: b.Outcome, Sentence: sentenceCase(b.Sentence()), Summary: b.tail(), Bad: len(b.Named) > 0,
		Findings: shown, Rails: b.Rails, Heat: heatOf(b),
	}.render("bench")
}

// Sizes in pixels; page.html has those within a cell. gridDrawn is the most nodes whose pairs are drawn; of
// more nodes, heatDrawn are rows.
const (
	cellWide, cellHigh   = 26, 20
	nameWide, headHigh   = 190, 40
	gridDrawn, heatDrawn = 24, 128
)

// heatOf draws the measured pairs; it returns nil where there are none.
func heatOf(b Benched) *heatPicture {
	if len(b.Pairs) == 0 {
		return nil
	}
	p := &heatPicture{}
	if b.Nodes <= gridDrawn {
		p.grids(b)
	} else {
		p.nodes(b)
	}
	return p
}

// grids draws one grid for each rail, below each other.
func (p *heatPicture) grids(b Benched) {
	names := b.names()
	y := 0
	for _, r := range b.Rails {
		p.word(0, y+16, "start", r.Name+": row sends to column (node rank)")
		y += headHigh
		for to := range b.Nodes {
			p.word(nameWide+to*cellWide+cellWide/2, y-6, "middle", fmt.Sprint(to))
		}
		for from := range b.Nodes {
			p.word(0, y+from*cellHigh+15, "start", cut(fmt.Sprintf("%d %s", from, names[from]), 28))
		}
		for _, pair := range b.Pairs {
			if pair.Rail != r.Name || pair.Expected <= 0 {
				continue
			}
			tip := fmt.Sprintf("%s to %s: %s of %s GB/s, %s µs", names[pair.From], names[pair.To],
				gigabytes(pair.Speed), gigabytes(pair.Expected), micros(pair.Latency))
			p.cell(nameWide+pair.To*cellWide, y+pair.From*cellHigh, pair.Speed/pair.Expected, pair.Slow, tip)
		}
		y += b.Nodes*cellHigh + 16
	}
	p.Width, p.Height = nameWide+b.Nodes*cellWide+10, y
	p.Caption = "each measured pair of ports, in percent of the expected speed"
}

// nodes draws a row for each node, the slowest first, and two cells for each rail.
func (p *heatPicture) nodes(b Benched) {
	column, row := map[string]int{}, map[int]int{}
	median := map[string]float64{}
	for i, r := range b.Rails {
		column[r.Name], median[r.Name] = i, r.Median
		x := nameWide + 2*i*cellWide
		p.word(x+cellWide, 16, "middle", cut(r.Name, 7))
		p.word(x+cellWide/2, 34, "middle", "out")
		p.word(x+cellWide+cellWide/2, 34, "middle", "in")
	}
	for _, port := range b.Ports {
		at, known := row[port.Rank]
		if !known {
			if len(row) == heatDrawn {
				continue
			}
			at = len(row)
			row[port.Rank] = at
			p.word(0, headHigh+at*cellHigh+15, "start", cut(port.Node, 28))
		}
		i, ok := column[port.Rail]
		if !ok || median[port.Rail] == 0 {
			continue
		}
		for k, v := range []float64{port.Out, port.In} {
			verb := []string{"sends", "receives"}[k]
			tip := fmt.Sprintf("%s, %s: %s %s GB/s, median %s", port.Node, port.Rail, verb,
				gigabytes(v), gigabytes(median[port.Rail]))
			p.cell(nameWide+(2*i+k)*cellWide, headHigh+at*cellHigh, v/median[port.Rail], port.Slow != "", tip)
		}
	}
	p.Width, p.Height = nameWide+2*len(b.Rails)*cellWide+10, headHigh+len(row)*cellHigh+10
	p.Caption = "best speed of each rail of each node, in percent of the median"
	if more := b.Nodes - len(row); more > 0 {
		p.Caption += fmt.Sprintf("; %s not drawn, none of them slower", finding.Plural(more, "node is", "nodes are"))
	}
}

func (p *heatPicture) word(x, y int, anchor, text string) {
	p.Words = append(p.Words, heatWord{x, y, anchor, text})
}

func (p *heatPicture) cell(x, y int, share float64, slow bool, tip string) {
	level := min(max(int(10*share+0.05), 0), 10)
	p.Cells = append(p.Cells, heatCell{x, y, level, slow, fmt.Sprintf("%.0f", min(100*share, 999)), tip})
}
