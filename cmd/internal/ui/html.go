package ui

import (
	"bytes"
	"cmp"
	_ "embed" // the templates
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode"

	"launch/internal/finding"
	"launch/preflight/bandwidth"
)

// templates are the pages of --html. A page is one file without scripts that refers to nothing outside itself.
//
//go:embed page.html
var templates string

// page fills a template.
type page struct {
	Outcome
	Sentence, Summary string
	Bad, Many         bool
	Findings, Own     finding.Report
	Checks            []string // the columns
	Skipped           int      // checks that were skipped on every node
	Rows              []pageRow
	Picture           *peersPicture
	Rails             []bandwidth.RailRate
	Heat              *heatPicture
	Facts             string
	Doctor            *doctorPage // launch doctor's
}

// pageRow is a node, or several with the same outcome.
type pageRow struct {
	finding.Surveyed
	Label, Nodes string
}

// render returns the page that a template and its values make.
func (p page) render(name string) ([]byte, error) {
	t, err := template.New("").Funcs(template.FuncMap{"letter": statusClass, "gigabytes": gigabytes, "micros": micros,
		"bound": bound, "spread": spread}).Parse(templates + doctorTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, p); err != nil {
		return nil, fmt.Errorf("fill the page: %w", err)
	}
	return bytes.Map(graphic, out.Bytes()), nil
}

// graphic returns a character of a file for people, or the replacement character for one that controls a
// terminal or reverses text.
func graphic(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// CheckHTML returns the outcome of launch check as one page.
func CheckHTML(c Checked) ([]byte, error) {
	p := page{
		Outcome: c.Outcome, Sentence: sentenceCase(c.Sentence()), Summary: c.summary(),
		Bad: len(c.Unfit()) > 0, Many: len(c.Nodes) > 1, Picture: peersOf(c.Survey),
		Findings: gravest(c.Report), Own: c.Own, Facts: c.facts(),
	}
	if c.Bench != nil {
		p.Rails, p.Heat = c.Bench.Rails, heatOf(*c.Bench)
		p.Bad = p.Bad || len(c.Bench.Named) > 0
	}
	made := madeChecks(c.Survey)
	p.Checks, p.Skipped, p.Rows = made.Checks, len(c.Checks)-len(made.Checks), rowsOf(made.Nodes)
	return p.render("check")
}

func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// gravest returns the failures, then the warnings.
func gravest(r finding.Report) finding.Report {
	return append(of(r, finding.Fail), of(r, finding.Warn)...)
}

func of(r finding.Report, s finding.Status) (out finding.Report) {
	for _, f := range r {
		if f.Status == s {
			out = append(out, f)
		}
	}
	return out
}

// madeChecks returns a survey without the checks that every node skipped.
func madeChecks(s finding.Survey) finding.Survey {
	out := s
	out.Checks, out.Nodes = nil, slices.Clone(s.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Cells = nil
	}
	for i, id := range s.Checks {
		cell := func(n finding.Surveyed) finding.Status {
			if i < len(n.Cells) {
				return n.Cells[i]
			}
			return ""
		}
		made := func(n finding.Surveyed) bool { return cell(n) != "" && cell(n) != finding.Skip }
		if !slices.ContainsFunc(s.Nodes, made) {
			continue
		}
		out.Checks = append(out.Checks, id)
		for j := range out.Nodes {
			out.Nodes[j].Cells = append(out.Nodes[j].Cells, cell(s.Nodes[j]))
		}
	}
	return out
}

// aloneRows is the most nodes that each have a row; of more nodes, those with the same outcome share one.
const aloneRows = 64

// rowsOf returns the rows of the matrix: unfit nodes first, then nodes with a warning or failure.
func rowsOf(nodes []finding.Surveyed) []pageRow {
	weight := func(n finding.Surveyed) int {
		switch {
		case n.Unfit:
			return 0
		case slices.Contains(n.Cells, finding.Warn) || slices.Contains(n.Cells, finding.Fail):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(nodes, func(a, b finding.Surveyed) int { return weight(a) - weight(b) })
	var rows []pageRow
	alike := map[string]int{}
	names := map[int][]string{}
	for _, n := range nodes {
		key := fmt.Sprint(n.Unfit, n.Cells)
		if i, ok := alike[key]; ok && len(nodes) > aloneRows {
			names[i] = append(names[i], n.Name)
			continue
		}
		alike[key] = len(rows)
		names[len(rows)] = []string{n.Name}
		rows = append(rows, pageRow{n, n.Name, fmt.Sprintf("node rank %d", n.Rank)})
	}
	for i := range rows {
		if all := names[i]; len(all) > 1 {
			rows[i].Label, rows[i].Nodes = fmt.Sprintf("%s and %d alike", all[0], len(all)-1), Names(all, len(all))
		}
	}
	return rows
}

// statusClass returns the CSS class of a status, which is its letter.
func statusClass(s finding.Status) string {
	classes := map[finding.Status]string{finding.Pass: "o", finding.Warn: "w", finding.Fail: "f", finding.Skip: "s"}
	return cmp.Or(classes[s], "none")
}
