package ui

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"launch/internal/finding"
	"launch/internal/outfile"
)

// Metrics are values for node_exporter's textfile collector.
type Metrics interface{ registry() *prometheus.Registry }

// WriteMetrics replaces a file of metrics; see outfile.Write.
func WriteMetrics(file string, m Metrics) error {
	text, err := textOf(m)
	if err == nil {
		err = outfile.Write(file, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// PrintMetrics writes metrics, as data.
func (u *UI) PrintMetrics(m Metrics) error {
	text, err := textOf(m)
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	u.Print(text)
	return nil
}

// ServeMetrics answers HTTP requests for /metrics until ctx ends. It reads once for each request, and one after the
// other: a reading opens all devices.
func ServeMetrics(ctx context.Context, l net.Listener, read func(context.Context) (Metrics, error)) error {
	var one sync.Mutex
	gather := func() ([]*dto.MetricFamily, error) {
		one.Lock()
		defer one.Unlock()
		m, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return m.registry().Gather()
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// textOf returns what prometheus writes into a file.
func textOf(m Metrics) (string, error) {
	families, err := m.registry().Gather()
	var b strings.Builder
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&b, f) // a Builder does not fail
	}
	return b.String(), err
}

// registry returns the outcome for this node.
func (c Checked) registry() *prometheus.Registry {
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
	return s.registry()
}

// level returns the number of an outcome; -1: skipped.
func level(s finding.Status) float64 {
	return float64(slices.Index([]finding.Status{finding.Pass, finding.Warn, finding.Fail}, s))
}
