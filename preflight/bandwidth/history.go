package bandwidth

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"launch/internal/finding"
	"launch/preflight/bench"
	"launch/preflight/blame"
)

// PastRate is the past speed of a rail of a node: one line of the file of --history.
type PastRate struct {
	At      time.Time     `json:"at"`
	Node    string        `json:"node"`
	Rail    string        `json:"rail"`
	Kind    string        `json:"kind"`
	Nodes   int           `json:"nodes"` // number of nodes of the job that measured it
	Out     float64       `json:"out"`   // bytes/s
	In      float64       `json:"in"`
	Latency time.Duration `json:"latency"`
}

// PastOf returns the entries of a node's history for its own samples: the best speed of
// each rail in both directions.
func PastOf(host string, rank, nodes int, own []bench.Sample, at time.Time) []PastRate {
	var out []PastRate
	for _, s := range own {
		rail, sent, got := s.FromPort, s.Out.Speed, s.Back.Speed
		if s.From != rank {
			rail, sent, got = s.ToPort, s.Back.Speed, s.Out.Speed
		}
		if s.Cause != "" {
			continue
		}
		i := slices.IndexFunc(out, func(p PastRate) bool { return p.Rail == rail && p.Kind == s.Kind })
		if i < 0 {
			i, out = len(out), append(out, PastRate{At: at, Node: host, Rail: rail, Kind: s.Kind, Nodes: nodes,
				Latency: s.Latency})
		}
		out[i].Out, out[i].In, out[i].Latency = max(out[i].Out, sent), max(out[i].In, got), min(out[i].Latency, s.Latency)
	}
	return out
}

// maxHistory limits what is read, from the end: years of runs of one node, or one run of thousands.
const maxHistory = 4 << 20

// The median of the latest usualRuns is the usual speed of a rail. So a gradual decline shows, and a lucky or
// disturbed run counts for little. asBefore is the share of that speed from which on a run still had it.
const (
	usualRuns = 15
	asBefore  = 0.9
)

// ReadHistory returns the usual speed of each of a node's rails, for each direction alone;
// At is when the rail last had it. It skips and counts lines that are no records, as a full
// disk leaves them. The error reports a file with lines and no record.
func ReadHistory(r io.ReadSeeker, node string) (was []PastRate, others int, err error) {
	size, err := r.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.Seek(max(0, size-maxHistory), io.SeekStart)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the history: %w", err)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxHistory)
	if size > maxHistory {
		lines.Scan() // the rest of one
	}
	type rail struct{ name, kind string }
	var rails []rail
	runs, records, stranger := map[rail][]PastRate{}, 0, ""
	for lines.Scan() {
		var p PastRate
		if json.Unmarshal(lines.Bytes(), &p) != nil || p.Node == "" || p.Rail == "" || p.At.IsZero() {
			if len(bytes.TrimSpace(lines.Bytes())) > 0 {
				others++
				stranger = cmp.Or(stranger, lines.Text()[:min(len(lines.Text()), 40)])
			}
			continue
		}
		records++
		k := rail{p.Rail, p.Kind}
		if p.Node != node {
			continue
		}
		if runs[k] == nil {
			rails = append(rails, k)
		}
		runs[k] = append(runs[k], p)
	}
	if err := lines.Err(); err != nil {
		return nil, others, fmt.Errorf("read the history: %w", err)
	}
	if records == 0 && others > 0 {
		return nil, others, fmt.Errorf("not a history of launch bench: it has the line %q", stranger)
	}
	for _, k := range rails {
		was = append(was, usual(runs[k])...)
	}
	return was, others, nil
}

// usual returns the latest runs of a rail, in the order of the file, for each direction.
func usual(runs []PastRate) (out []PastRate) {
	runs = runs[max(0, len(runs)-usualRuns):]
	for _, way := range []func(p *PastRate) *float64{func(p *PastRate) *float64 { return &p.Out },
		func(p *PastRate) *float64 { return &p.In }} {
		mid := medianOf(finding.Map(runs, func(p PastRate) float64 { return *way(&p) }))
		for _, p := range slices.Backward(runs) {
			if mid > 0 && *way(&p) >= asBefore*mid {
				was := PastRate{At: p.At, Node: p.Node, Rail: p.Rail, Kind: p.Kind, Nodes: p.Nodes}
				*way(&was) = mid
				out = append(out, was)
				break
			}
		}
	}
	return out
}

// lost reports rails that are slower than they were.
func (c *rates) lost() (out finding.Report) {
	for _, p := range c.planes {
		for _, e := range p.ends {
			other := func(w PastRate) bool { return w.Rail != e.Rail || w.Kind != p.Kind }
			out = append(out, e.than(slices.DeleteFunc(slices.Clone(e.was), other), p.slack)...)
		}
	}
	return out
}

// than compares a rail with its past and reports the direction that lost most.
func (e *railEnd) than(past []PastRate, slack float64) finding.Report {
	way, now, then, at := "", 0.0, 0.0, time.Time{}
	speed := [...]float64{sent: e.Out, received: e.In}
	for _, was := range past {
		for i, v := range []float64{sent: was.Out, received: was.In} {
			if s := speed[i]; s > 0 && s < v*(1-slack) && (way == "" || s/v < now/then) {
				way, now, then, at = []string{sent: "sending", received: "receiving"}[i], s, v, was.At
			}
		}
	}
	if way == "" {
		return nil
	}
	return finding.Report{finding.Warnf("rail %s lost %.0f %% since %s: %s instead of %s when %s", e.label(),
		100*(1-now/then), since(at, time.Now()), finding.Speed(now), finding.Speed(then), way).
		Named("bench.history").Breaking("%s", slowestWaits).Do("%s", e.look(blame.ToAndFrom))}
}

// since returns a moment in the past as people name it.
func since(at, now time.Time) string {
	at = at.In(now.Location())
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch {
	case !at.Before(today):
		return at.Format("15:04")
	case !at.Before(today.AddDate(0, 0, -6)):
		return at.Format("Monday 15:04")
	}
	return at.Format(time.DateOnly)
}
