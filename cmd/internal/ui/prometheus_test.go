package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Prometheus asks launch metrics of a node with a value for each metric, and launch check. Each panel of the
// dashboard then has data.
func TestPrometheusFillsTheDashboard(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs prometheus in PATH (package prometheus)")
	}
	if testing.Short() {
		t.Skip("waits for four questions of Prometheus")
	}
	seen := uint64(0)
	node := served(t, func(context.Context) (Metrics, error) {
		m := sick(t)
		m.At = time.Now()
		seen++
		for i := range m.Counters[0].Counters { // there is traffic, and there are faults
			m.Counters[0].Counters[i].Value += seen * 1000
		}
		m.Node.GPUs.Devices[0].ECC.Corrected += int64(seen)
		m.Node.GPUs.Devices[0].NVLink.CRC += int64(seen)
		return m, nil
	})
	check := served(t, func(context.Context) (Metrics, error) { return surveyed(2), nil })

	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: launch\n"+
		"  static_configs: [{targets: [%q, %q]}]\n", node, check)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	address := served(t, nil)
	cmd := exec.Command(prometheus, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()

	queries := panels(t)
	empty := len(queries)
	for end := time.Now().Add(time.Minute); empty > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		empty = 0
		for title, expr := range queries {
			n, err := seriesOf(t, address, expr)
			if err != nil {
				t.Fatalf("%s: %s: %v", title, expr, err)
			}
			if n == 0 {
				empty++
			}
		}
	}
	for title, expr := range queries {
		if n, err := seriesOf(t, address, expr); n == 0 {
			t.Errorf("the panel %s is empty: %s (%v)", title, expr, err)
		}
	}
	if len(queries) < 20 {
		t.Errorf("%d panels", len(queries))
	}
}

// served serves metrics until the test ends, and returns the address; without any, one that is free.
func served(t *testing.T, read func(context.Context) (Metrics, error)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if read == nil {
		_ = l.Close()
	} else {
		go func() { _ = ServeMetrics(t.Context(), l, read) }()
	}
	return l.Addr().String()
}

// panels returns the query of each panel of the dashboard, with values for Grafana's variables.
func panels(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "monitoring", "launch.dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	values := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			out[fmt.Sprint(p.Title, " ", i)] = values.Replace(q.Expr)
		}
	}
	return out
}

// seriesOf returns how many series a query has, 0 also while Prometheus does not answer yet.
func seriesOf(t *testing.T, address, expr string) (n int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+address+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil //nolint:nilerr // it begins to listen
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct {
		Error string `json:"error"`
		Data  struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	if answer.StatusCode == http.StatusServiceUnavailable {
		return 0, nil
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || said.Error != "" {
		return 0, fmt.Errorf("Prometheus refuses it: %s (%v)", said.Error, err)
	}
	return len(said.Data.Result), nil
}
