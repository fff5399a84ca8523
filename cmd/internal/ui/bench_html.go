package ui

import (
	"bytes"
	"fmt"
	"html/template"

	"launch/internal/finding"
)

// benchRail is one row of the table of rails.
type benchRail struct {
	Name, Kind, Median, Slow, Latency, Tail, Spread string
	Ports                                           int
}

// heatPicture is a grid for each rail of who sends to whom, or one of nodes and
// rails.
type heatPicture struct {
	Width, Height int
	Cells         []heatCell
	Words         []heatWord
	Says          string
}

type heatCell struct {
	X, Y, W, H int
	Level      int // 0 to 9, share of what is expected in tenths; 10: all of it
	Slow       bool
	Text, Tip  string
}

type heatWord struct {
	X, Y   int
	Anchor string
	Text   string
}

// BenchHTML is the outcome as one page that needs nothing else.
func BenchHTML(b Benched) ([]byte, error) {
	t, err := template.New("bench").Parse(pageTop + benchBody + pageEnd)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	p := page{
		Sentence: sentenceCase(b.Sentence()), Summary: b.tail(), Job: b.Job, Bad: len(b.Named) > 0,
		Rails: railsOf(b), Heat: heatOf(b),
		Version: b.Version, At: b.At.Format("2006-01-02 15:04:05 MST"), Host: b.Node.Hostname,
	}
	for _, f := range append(gravest(b.Findings), of(b.Findings, finding.Skip)...) { // what was not judged, too
		p.Findings = append(p.Findings, newPageFinding(f, b.Titles))
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("fill the page: %w", err)
	}
	return out.Bytes(), nil
}

// railsOf is a row for each rail.
func railsOf(b Benched) []benchRail {
	var out []benchRail
	for _, r := range b.Rails {
		if r.Kind == "" {
			out = append(out, benchRail{Name: r.Name, Kind: "not measured", Ports: r.Ports})
			continue
		}
		out = append(out, benchRail{r.Name, r.Kind, gigabytes(r.Median), gigabytes(max(r.Slow, r.Floor)), micros(r.Latency), micros(r.Tail), fmt.Sprintf("%.1f %%", 100*r.Spread), r.Ports})
	}
	return out
}

// Sizes of the picture, in pixels. gridDrawn is up to how many nodes pairs are
// drawn; heatDrawn is how many nodes are rows otherwise.
const (
	cellWide, cellHigh   = 26, 20
	nameWide, headHigh   = 190, 40
	gridDrawn, heatDrawn = 24, 128
)

// heatOf draws the measured pairs; nil: there are none.
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
		p.Words = append(p.Words, heatWord{0, y + 16, "start", r.Name + ": row sends to column (rank)"})
		y += headHigh
		for to := range b.Nodes {
			p.Words = append(p.Words, heatWord{nameWide + to*cellWide + cellWide/2, y - 6, "middle", fmt.Sprint(to)})
		}
		for from := range b.Nodes {
			p.Words = append(p.Words, heatWord{0, y + from*cellHigh + 15, "start", cut(fmt.Sprintf("%d %s", from, names[from]), 28)})
		}
		for _, pair := range b.Pairs {
			if pair.Rail != r.Name || pair.Expected <= 0 {
				continue
			}
			tip := fmt.Sprintf("%s to %s: %s of %s GB/s, %s µs", names[pair.From], names[pair.To], gigabytes(pair.Speed), gigabytes(pair.Expected), micros(pair.Latency))
			p.cell(nameWide+pair.To*cellWide, y+pair.From*cellHigh, pair.Speed/pair.Expected, pair.Slow, tip)
		}
		y += b.Nodes*cellHigh + 16
	}
	p.Width, p.Height = nameWide+b.Nodes*cellWide+10, y
	p.Says = "each measured pair of ports, in percent of what is expected"
}

// nodes draws a row for each node, the slowest first, and two cells for each
// rail.
func (p *heatPicture) nodes(b Benched) {
	column, row := map[string]int{}, map[int]int{}
	median := map[string]float64{}
	for i, r := range b.Rails {
		column[r.Name], median[r.Name] = i, r.Median
		p.Words = append(p.Words, heatWord{nameWide + (2*i+1)*cellWide, 16, "middle", cut(r.Name, 7)}, heatWord{nameWide + 2*i*cellWide + cellWide/2, 34, "middle", "out"}, heatWord{nameWide + (2*i+1)*cellWide + cellWide/2, 34, "middle", "in"})
	}
	for _, port := range b.Ports {
		at, known := row[port.Rank]
		if !known {
			if len(row) == heatDrawn {
				continue
			}
			at = len(row)
			row[port.Rank] = at
			p.Words = append(p.Words, heatWord{0, headHigh + at*cellHigh + 15, "start", cut(port.Node, 28)})
		}
		i, ok := column[port.Rail]
		if !ok || median[port.Rail] == 0 {
			continue
		}
		for k, v := range []float64{port.Out, port.In} {
			word := []string{"sends", "receives"}[k]
			p.cell(nameWide+(2*i+k)*cellWide, headHigh+at*cellHigh, v/median[port.Rail], port.Slow != "", fmt.Sprintf("%s, %s: %s %s GB/s, median %s", port.Node, port.Rail, word, gigabytes(v), gigabytes(median[port.Rail])))
		}
	}
	p.Width, p.Height = nameWide+2*len(b.Rails)*cellWide+10, headHigh+len(row)*cellHigh+10
	p.Says = "the best of each rail of each node, in percent of the median"
	if more := b.Nodes - len(row); more > 0 {
		p.Says += fmt.Sprintf("; %s not drawn, which are no slower", Plural(more, "node is", "nodes are"))
	}
}

func (p *heatPicture) cell(x, y int, share float64, slow bool, tip string) {
	level := min(max(int(10*share+0.05), 0), 10)
	p.Cells = append(p.Cells, heatCell{x, y, cellWide - 1, cellHigh - 1, level, slow, fmt.Sprintf("%.0f", min(100*share, 999)), tip})
}

// benchBody is what was measured, on the page of launch bench, and on that of
// launch check --bench.
const benchBody = `{{if .Rails}}<h2>Rails</h2>
<div class="scroll"><table><thead><tr><th>rail</th><th>by</th><th>ports</th><th>median GB/s</th><th>slow below</th><th>µs</th><th>99 % µs</th><th>spread</th></tr></thead><tbody>
{{range .Rails}}<tr><th>{{.Name}}</th><td>{{.Kind}}</td><td>{{.Ports}}</td><td>{{.Median}}</td><td>{{.Slow}}</td><td>{{.Latency}}</td><td>{{.Tail}}</td><td>{{.Spread}}</td></tr>
{{end}}</tbody></table></div>
{{with .Heat}}<h2>How fast</h2><figure style="margin:0"><div class="scroll"><svg viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" style="max-width:none" role="img" aria-label="{{.Says}}">
{{range .Cells}}<g><title>{{.Tip}}</title><rect class="heat{{.Level}}{{if .Slow}} slow{{end}}" x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}"/><text x="{{.X}}" y="{{.Y}}" dx="13" dy="14" text-anchor="middle">{{.Text}}</text></g>
{{end}}{{range .Words}}<text x="{{.X}}" y="{{.Y}}" text-anchor="{{.Anchor}}">{{.Text}}</text>
{{end}}</svg></div><figcaption>{{.Says}}; what is named as slow has a frame</figcaption></figure>{{end}}{{end}}
`
