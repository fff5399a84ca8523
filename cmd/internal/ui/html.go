package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"launch/internal/finding"
)

// page is what the templates of launch check --html and launch bench --html are
// filled with.
type page struct {
	Sentence, Summary, Job string
	Bad, Many              bool
	Findings, Own          []pageFinding
	Columns                []pageColumn
	Unasked                int // checks that were skipped everywhere
	Rows                   []pageRow
	Picture                *peersPicture
	Rails                  []benchRail
	Heat                   *heatPicture
	Facts                  string
	Version, At, Host      string
}

type pageFinding struct {
	finding.Finding
	Letter, Title string
}

type pageColumn struct{ ID, Title string }

type pageRow struct {
	Name, Who string
	Unfit     bool
	Cells     []pageCell
}

type pageCell struct{ Letter, Sign, Tip string }

// CheckHTML is the outcome as one page that needs nothing else.
func CheckHTML(c Checked) ([]byte, error) {
	t, err := template.New("check").Parse(reportPage)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	p := page{
		Sentence: sentenceCase(c.Sentence()), Summary: Summary(c.Report, c.Took), Job: c.Job,
		Bad: len(c.Unfit()) > 0, Many: len(c.Nodes) > 1, Picture: peersOf(c.Survey),
		Facts: c.facts(), Version: c.Version, At: c.At.Format("2006-01-02 15:04:05 MST"), Host: c.Node.Hostname,
	}
	if c.Bench != nil {
		p.Rails, p.Heat = railsOf(*c.Bench), heatOf(*c.Bench)
		p.Bad = p.Bad || len(c.Bench.Named) > 0
	}
	if len(c.Report) == 0 {
		p.Summary = "nothing to look at in " + round(c.Took)
	}
	for _, f := range gravest(c.Report) {
		p.Findings = append(p.Findings, newPageFinding(f, c.Titles))
	}
	for _, f := range c.Own {
		p.Own = append(p.Own, newPageFinding(f, c.Titles))
	}
	told := telling(c.Survey)
	p.Unasked = len(c.Checks) - len(told.Checks)
	for _, id := range told.Checks {
		p.Columns = append(p.Columns, pageColumn{id, c.Titles[id]})
	}
	p.Rows = rowsOf(told)
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("fill the page: %w", err)
	}
	return b.Bytes(), nil
}

func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func newPageFinding(f finding.Finding, titles map[string]string) pageFinding {
	return pageFinding{f, letterClass(finding.Cell(f.Status)), titles[f.ID]}
}

// gravest is what warns or fails, failures first.
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

// telling is a survey without the checks that no node could make.
func telling(s finding.Survey) finding.Survey {
	out := s
	out.Checks, out.Nodes = nil, slices.Clone(s.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Cells = ""
	}
	for i, id := range s.Checks {
		cell := func(n finding.Surveyed) byte {
			if i < len(n.Cells) {
				return n.Cells[i]
			}
			return '-'
		}
		if !slices.ContainsFunc(s.Nodes, func(n finding.Surveyed) bool { return strings.IndexByte("owf", cell(n)) >= 0 }) {
			continue
		}
		out.Checks = append(out.Checks, id)
		for j := range out.Nodes {
			out.Nodes[j].Cells += string(cell(s.Nodes[j]))
		}
	}
	return out
}

// aloneRows is up to how many nodes each has its row; of more, those that are
// alike share one.
const aloneRows = 64

// rowsOf is the matrix, the unfit first, then those with something to look at.
func rowsOf(s finding.Survey) []pageRow {
	nodes := slices.Clone(s.Nodes)
	weight := func(n finding.Surveyed) int {
		switch {
		case n.Unfit:
			return 0
		case strings.ContainsAny(n.Cells, "wf"):
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
		rows = append(rows, newRow(n, s.Checks))
	}
	for i := range rows {
		if all := names[i]; len(all) > 1 {
			rows[i].Name, rows[i].Who = fmt.Sprintf("%s and %d alike", all[0], len(all)-1), Names(all, len(all))
		}
	}
	return rows
}

func newRow(n finding.Surveyed, checks []string) pageRow {
	r := pageRow{Name: n.Name, Who: fmt.Sprintf("rank %d", n.Rank), Unfit: n.Unfit}
	words := map[byte]string{'o': "ok", 'w': "warn", 'f': "fail", 's': "skip"}
	for i, id := range checks {
		letter := n.Cells[i]
		c := pageCell{Letter: letterClass(letter), Sign: string(letter), Tip: n.Name + ": " + id + " " + words[letter]}
		switch letter {
		case 'f':
			c.Sign = "F"
		case 'o', 'w', 's':
		default:
			c.Sign, c.Tip = "", n.Name+": "+id+" was not asked"
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// letterClass is the page's class for a letter of a survey.
func letterClass(letter byte) string {
	if strings.IndexByte("owfs", letter) >= 0 {
		return string(letter)
	}
	return "none"
}
