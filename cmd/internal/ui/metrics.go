package ui

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"launch/internal/finding"
)

// WriteMetrics writes the outcome for this node as node_exporter's textfile
// collector reads it: the file is there whole, or as it was. What is no file
// (/dev/stdout, a pipe) is written to.
func WriteMetrics(file string, c Checked) error {
	node := c.Node.Hostname
	s := &samples{}
	gauge := func(name, help string, value float64) { s.gauge(name, help, value, "node", node) }
	all := c.Own.Outcomes()
	if len(c.Nodes) > 1 {
		found := c.Report.Outcomes()
		for _, id := range c.Peers {
			all[id] = cmp.Or(found[id], finding.Pass)
			if slices.Contains(c.NotJudged, id) {
				all[id] = finding.Skip
			}
		}
	}
	for id, outcome := range all {
		s.gauge("launch_check_status", "Outcome of a check: 0 ok, 1 warn, 2 fail, -1 skip (could not tell).", level(outcome), "id", id, "node", node)
	}
	gauge("launch_node_fit", "1: the checks found nothing of which a job is certain to hang or die on this node.", flag(!c.self().Unfit))
	gauge("launch_check_nodes", "Number of nodes that were checked together.", float64(len(c.Nodes)))
	gauge("launch_check_unfit_nodes", "How many of them are not fit.", float64(len(c.Unfit())))
	gauge("launch_check_duration_seconds", "How long the checks took.", c.Took.Seconds())
	gauge("launch_check_timestamp_seconds", "When they ended, in seconds since 1970.", float64(c.At.UnixMilli())/1000)
	if err := writeText(file, s.registry()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// writeText puts a new file in the place of an old one, which must not happen to a
// device or a link.
func writeText(file string, reg *prometheus.Registry) error {
	if info, err := os.Lstat(file); err != nil || info.Mode().IsRegular() {
		return prometheus.WriteToTextfile(file, reg)
	}
	text, err := textOf(reg)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o666)
}

// textOf is what prometheus would write into a file.
func textOf(reg *prometheus.Registry) (string, error) {
	dir, err := os.MkdirTemp("", "launch-metrics-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "text")
	if err := prometheus.WriteToTextfile(file, reg); err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	return string(b), err
}

func level(s finding.Status) float64 {
	switch s {
	case finding.Pass:
		return 0
	case finding.Warn:
		return 1
	case finding.Fail:
		return 2
	}
	return -1
}
