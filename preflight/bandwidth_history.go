package preflight

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"launch/internal/finding"
	"launch/preflight/bench"
)

// PastRate is how fast a rail of a node was: one line of the file of --history.
type PastRate struct {
	At      time.Time     `json:"at"`
	Node    string        `json:"node"`
	Rail    string        `json:"rail"`
	Kind    string        `json:"kind"`
	Nodes   int           `json:"nodes"` // of the job that it was measured in
	Out     float64       `json:"out"`   // bytes/s
	In      float64       `json:"in"`
	Latency time.Duration `json:"latency"`
}

// PastOf is what a node's own samples leave for its history: of each rail the best
// both ways.
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
			i, out = len(out), append(out, PastRate{At: at, Node: host, Rail: rail, Kind: s.Kind, Nodes: nodes, Latency: s.Latency})
		}
		out[i].Out, out[i].In, out[i].Latency = max(out[i].Out, sent), max(out[i].In, got), min(out[i].Latency, s.Latency)
	}
	return out
}

// maxHistory is how much of a history is read, from its end: years of runs of
// one node, or one run of thousands.
const maxHistory = 4 << 20

// ReadHistory returns of each of a node's rails the last line of a history.
// Lines that are none are passed over: a disk was full, or another wrote there.
func ReadHistory(r io.ReadSeeker, node string) ([]PastRate, error) {
	if size, err := r.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	} else if _, err = r.Seek(max(0, size-maxHistory), io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	var out []PastRate
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxHistory)
	for lines.Scan() {
		var p PastRate
		if json.Unmarshal(lines.Bytes(), &p) != nil || p.Node != node || p.Rail == "" || p.At.IsZero() {
			continue
		}
		i := slices.IndexFunc(out, func(o PastRate) bool { return o.Rail == p.Rail && o.Kind == p.Kind })
		if i < 0 {
			i, out = len(out), append(out, p)
		}
		out[i] = p
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return out, nil
}

// lost says which rails are slower than they were.
func lost(c *rates) (out finding.Report) {
	for _, p := range c.planes {
		for _, e := range p.ends {
			for _, post := range c.nodes {
				if post.Rank != e.rank {
					continue
				}
				for _, was := range post.Was {
					if was.Rail == e.port.Name && was.Kind == p.kind {
						out = append(out, e.than(was, p.slack)...)
					}
				}
			}
		}
	}
	return out
}

// than compares a rail with its past.
func (e *railEnd) than(was PastRate, slack float64) finding.Report {
	way, now, then := "", 0.0, 0.0
	for i, w := range []struct {
		way  string
		then float64
	}{{"sending", was.Out}, {"receiving", was.In}} {
		if e.speed[i] > 0 && w.then > 0 && e.speed[i] < w.then*(1-slack) && (way == "" || e.speed[i]/w.then < now/then) {
			way, now, then = w.way, e.speed[i], w.then
		}
	}
	if way == "" {
		return nil
	}
	return finding.Report{finding.Warnf("rail %s lost %.0f %% since %s: %s in place of %s when %s", e.label(), 100*(1-now/then), was.At.Format(time.DateOnly), gbps(now), gbps(then), way).
		Named("bench.history").Breaking("%s", slowestWaits).Do("%s", e.look(toAndFrom))}
}
