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

// WriteMetrics writes the outcome for this node in the format of node_exporter's textfile collector. It replaces the
// file as a whole; it writes into anything but a regular file (/dev/stdout, a pipe).
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
		s.gauge("launch_check_status", "Outcome of a check: 0 ok, 1 warn, 2 fail, -1 skip (unknown).", level(outcome),
			"id", id, "node", node)
	}
	gauge("launch_node_fit", "1: fit. 0: a check found a fault that hangs or kills a job.", flag(!c.self().Unfit))
	gauge("launch_check_nodes", "Number of nodes that were checked together.", float64(len(c.Nodes)))
	gauge("launch_check_unfit_nodes", "Number of these nodes that are unfit.", float64(len(c.Unfit())))
	gauge("launch_check_duration_seconds", "Duration of the checks.", c.Took.Seconds())
	gauge("launch_check_timestamp_seconds", "Time at which the checks ended, in seconds since 1970.",
		float64(c.At.UnixMilli())/1000)
	if err := writeText(file, s.registry()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// writeText replaces a regular file, and writes into a device, a pipe or the target of a link.
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

// textOf returns what prometheus writes into a file.
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
