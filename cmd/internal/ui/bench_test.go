package ui

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"launch/internal/finding"
	"launch/preflight/bandwidth"
)

// measured returns a bench in which every node sends to all others and node 1 is slow.
func measured(nodes, rails int) Benched {
	b := Benched{Verdict: bandwidth.Verdict{Nodes: nodes, Named: []int{1}, Measured: nodes * (nodes - 1) / 2 * rails}}
	for r := range rails {
		rail := fmt.Sprintf("mlx5_%d", r)
		b.Rails = append(b.Rails, bandwidth.RailRate{Name: rail, Kind: "verbs", Ports: nodes, Median: 48.7e9, Slow: 38.9e9,
			Spread: 0.004, Latency: 1900, Tail: 3200})
		for from := range nodes {
			share, slow := 1.0, ""
			if from == 1 {
				share, slow = 0.41, "node"
			}
			b.Ports = append(b.Ports, bandwidth.PortRate{Rank: from, Node: fmt.Sprintf("node-with-a-long-name-%04d <1>", from),
				Rail: rail, Out: share * 48.7e9, In: 48.7e9, Share: share, Slow: slow})
			for to := range min(nodes, 30) {
				if from != to && len(b.Pairs) < 512 {
					b.Pairs = append(b.Pairs, bandwidth.PairRate{From: from, To: to, Rail: rail, Speed: share * 48.7e9,
						Expected: 48.7e9, Slow: share < 1})
				}
			}
		}
	}
	b.Findings = finding.Report{finding.Warnf("node-1 is slow").Named("bench.node")}
	return b
}

func TestTheHeatMapFitsATerminalAndShowsTheSlowNode(t *testing.T) {
	for _, size := range [][2]int{{2, 1}, {8, 2}, {12, 6}, {13, 8}, {64, 8}, {1024, 8}} {
		var out bytes.Buffer
		New(&out, &out, Options{Env: func(string) string { return "" }}).Bench(measured(size[0], size[1]))
		_, rest, _ := strings.Cut(out.String(), "\nrail ")
		for line := range strings.Lines(rest) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.HasPrefix(line, "launch:") {
				t.Errorf("%v: %d columns: %s", size, n, line)
			}
		}
		if !strings.Contains(rest, " 41") || strings.Count(rest, "\n") > 120 {
			t.Errorf("%v:\n%s", size, rest)
		}
	}
}

func TestThePageOfABenchHasItsPictureAndNothingFromElsewhere(t *testing.T) {
	for _, size := range [][2]int{{2, 1}, {8, 2}, {1024, 8}} {
		page, err := BenchHTML(measured(size[0], size[1]))
		if err != nil {
			t.Fatal(err)
		}
		text := string(page)
		from, to := strings.Index(text, "<svg "), strings.Index(text, "</svg>")
		if from < 0 || to < from {
			t.Fatalf("%v: no picture", size)
		}
		if err := xml.Unmarshal([]byte(text[from:to+len("</svg>")]), new(struct{})); err != nil {
			t.Errorf("%v: %v", size, err)
		}
		for _, never := range []string{"http:", "https:", "<script", "-long-name-0001 <1>", "ZgotmplZ"} {
			if strings.Contains(text, never) {
				t.Errorf("%v: %q is in the page", size, never)
			}
		}
		if !strings.Contains(text, "bench.node") || !strings.Contains(text, ">41<") || !strings.Contains(text, ` slow"`) {
			t.Errorf("%v: the slow node is not shown", size)
		}
	}
}

func TestABenchThatMeasuredNothingReportsIt(t *testing.T) {
	b := Benched{Verdict: bandwidth.Verdict{Nodes: 2, Rails: []bandwidth.RailRate{{Name: "eth0", Ports: 2}},
		Findings: finding.Report{finding.Skipf("eth0 is used").Named("bench.busy")}}}
	show := func() string {
		var out bytes.Buffer
		New(&out, &out, Options{Env: func(string) string { return "" }}).Bench(b)
		page, err := BenchHTML(b)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(page), "eth0 is used") || !strings.Contains(string(page), "not measured") {
			t.Errorf("%s", page)
		}
		return out.String()
	}
	if text := show(); !strings.Contains(text, "nothing was measured") || !strings.Contains(text, "not measured") ||
		strings.Contains(text, "0.0") {
		t.Error(text)
	}
	b.Measured = 2
	if text := show(); !strings.Contains(text, "no rail of the 2 nodes is slow; rails that others use were not judged") {
		t.Error(text)
	}
}
