package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/preflight/bandwidth"
)

// Benched is the outcome of one launch bench.
type Benched struct {
	bandwidth.Verdict
	Outcome
}

// Sentence returns the outcome in one line.
func (b Benched) Sentence() string {
	names := b.names()
	busy := func(f finding.Finding) bool { return f.ID == "bench.busy" }
	named := finding.Map(b.Named, func(rank int) string { return names[rank] })
	switch {
	case b.Measured == 0:
		return "nothing was measured"
	case len(named) == 0 && slices.ContainsFunc(b.Findings, busy):
		return fmt.Sprintf("no rail of the %d nodes is slow; rails that others use were not judged", b.Nodes)
	case len(named) == 0:
		return fmt.Sprintf("no rail of the %d nodes is slow", b.Nodes)
	case len(named) == b.Nodes && b.Nodes > 2:
		return fmt.Sprintf("a rail is slow on all %d nodes", b.Nodes)
	}
	return fmt.Sprintf("%d of %d nodes slow: %s", len(named), b.Nodes, Names(named, len(named)))
}

// names returns the names of the known nodes by rank.
func (b Benched) names() map[int]string {
	out := map[int]string{}
	for _, p := range b.Ports {
		out[p.Rank] = p.Node
	}
	return out
}

// Bench writes what was measured, as data. Every node writes the same.
func (u *UI) Bench(b Benched) {
	if u.json {
		for _, f := range b.Findings {
			u.Emit(true, "finding", f)
		}
		u.bandwidth(true, b)
		u.Emit(true, "summary", benchSummary{b.Sentence(), b.Took.Seconds(), b.Nodes})
		return
	}
	u.findings(u.out, b.Findings)
	u.Print(b.text())
}

// Rails writes, in a start, how fast the rails are. Findings writes the findings.
func (u *UI) Rails(b Benched) {
	if u.json {
		u.bandwidth(false, b)
	}
	u.Note("%s; %s", b.Sentence(), b.tail())
}

// bandwidth writes what was measured as a JSON line, without the findings.
func (u *UI) bandwidth(out bool, b Benched) {
	b.Verdict.Findings = nil
	u.Emit(out, "bench", b.Verdict)
}

// text returns the rates of the rails, and the outcome.
func (b Benched) text() string {
	return railTable(b) + heat(b) + "launch: " + visible(b.Sentence()) + "; " + b.tail() + "\n"
}

// benchSummary is the last JSON line of launch bench.
type benchSummary struct {
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	Nodes   int     `json:"nodes"`
}

// tail returns how much was measured.
func (b Benched) tail() string {
	text := fmt.Sprintf("%s measured in %s", finding.Plural(b.Measured, "pair of ports", "pairs of ports"), round(b.Took))
	if b.Unnamed > 0 {
		suspects := finding.Plural(b.Unnamed, "suspect was", "suspects were")
		text += fmt.Sprintf(", %s slow once, but not when measured again", suspects)
	}
	return text
}

// gigabytes returns a speed in GB/s (1e9 bytes a second) with enough digits to see 1 %.
func gigabytes(v float64) string {
	switch v /= 1e9; {
	case v >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.95:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// bound returns the speed below which a rail is slow.
func bound(r bandwidth.RailRate) string { return gigabytes(max(r.Slow, r.Floor)) }

// spread returns how far the measurements of a rail differ.
func spread(r bandwidth.RailRate) string { return fmt.Sprintf("%.1f", 100*r.Spread) }

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Nanoseconds())/1e3) }

// maxRails is the most rails that the table shows.
const maxRails = 16

// railTable returns a row for each rail of all nodes.
func railTable(b Benched) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%-12s %-5s %5s %12s %12s %9s %9s %6s\n",
		"rail", "kind", "ports", "median GB/s", "slow below", "µs", "99 % µs", "±")
	for i, r := range b.Rails {
		if i == maxRails {
			fmt.Fprintf(&t, "and %d more rails\n", len(b.Rails)-maxRails)
			break
		}
		if r.Kind == "" {
			fmt.Fprintf(&t, "%-12s %-5s %5d not measured\n", cut(visible(r.Name), 12), "-", r.Ports)
			continue
		}
		fmt.Fprintf(&t, "%-12s %-5s %5d %12s %12s %9s %9s %5s%%\n", cut(visible(r.Name), 12), visible(r.Kind), r.Ports,
			gigabytes(r.Median), bound(r), micros(r.Latency), micros(r.Tail), spread(r))
	}
	return t.String()
}

const (
	// gridNodes is the most nodes for which each rail is a grid of senders and receivers, in 80 columns.
	gridNodes = 12
	// heatNodes is the most rows of the grid of nodes and rails, which has the slowest nodes first.
	heatNodes = 24
	// heatRails is the most columns of that grid.
	heatRails = 6
)

// heat returns the heat map as text: percent of the expected speed.
func heat(b Benched) string {
	switch {
	case len(b.Pairs) == 0:
		return ""
	case b.Nodes <= gridNodes && len(b.Rails) <= heatRails:
		return grids(b)
	}
	return nodesByRails(b)
}

// percent returns a share in three columns.
func percent(share float64) string { return fmt.Sprintf("%3.0f", min(100*share, 999)) }

// grids returns, for each rail, a row for each sender and a column for each receiver.
func grids(b Benched) string {
	var t strings.Builder
	names := b.names()
	for _, r := range b.Rails {
		cells := cellsOf(b, r.Name)
		fmt.Fprintf(&t, "%% of expected, %s\n", cut(visible(r.Name), 20))
		fmt.Fprintf(&t, "%-26s", "  sender, to node rank:")
		for to := range b.Nodes {
			fmt.Fprintf(&t, " %3d", to)
		}
		t.WriteByte('\n')
		for from := range b.Nodes {
			fmt.Fprintf(&t, "  %2d %-21s", from, cut(visible(names[from]), 21))
			for to := range b.Nodes {
				text := "  ."
				if c, ok := cells[[2]int{from, to}]; ok {
					text = percent(c)
				}
				t.WriteString(" " + text)
			}
			t.WriteByte('\n')
		}
	}
	return t.String()
}

// cellsOf returns the shares of the pairs of a rail, the best of each pair that was measured again.
func cellsOf(b Benched, rail string) map[[2]int]float64 {
	out := map[[2]int]float64{}
	for _, p := range b.Pairs {
		if p.Rail == rail && p.Expected > 0 {
			k := [2]int{p.From, p.To}
			out[k] = max(out[k], p.Speed/p.Expected)
		}
	}
	return out
}

// nodesByRails returns a row for each node, the slowest first, with the best speed in and out of each rail.
func nodesByRails(b Benched) string {
	rails := b.Rails[:min(len(b.Rails), heatRails)]
	var t strings.Builder
	fmt.Fprintf(&t, "%-24s", "% of expected, out/in")
	for _, r := range rails {
		fmt.Fprintf(&t, " %8s", cut(visible(r.Name), 8))
	}
	t.WriteByte('\n')
	shown, order := map[int]bool{}, []int{}
	for _, p := range b.Ports {
		if !shown[p.Rank] && len(order) < heatNodes {
			shown[p.Rank] = true
			order = append(order, p.Rank)
		}
	}
	names := b.names()
	for _, rank := range order {
		fmt.Fprintf(&t, "%-24s", cut(visible(names[rank]), 24))
		for _, r := range rails {
			i := slices.IndexFunc(b.Ports, func(p bandwidth.PortRate) bool {
				return p.Rank == rank && p.Rail == r.Name
			})
			if i < 0 || r.Median == 0 {
				fmt.Fprintf(&t, " %8s", ".")
				continue
			}
			mark := " "
			if b.Ports[i].Slow != "" {
				mark = "!"
			}
			fmt.Fprintf(&t, " %s/%s%s", percent(b.Ports[i].Out/r.Median), percent(b.Ports[i].In/r.Median), mark)
		}
		t.WriteByte('\n')
	}
	if more := b.Nodes - len(order); more > 0 {
		fmt.Fprintf(&t, "and %d more nodes, none of them slower\n", more)
	}
	if more := len(b.Rails) - len(rails); more > 0 {
		fmt.Fprintf(&t, "and %d more rails: see --json\n", more)
	}
	return t.String()
}
