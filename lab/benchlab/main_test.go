package benchlab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// launchBin is the program under test; TestMain makes it once.
var launchBin string

func TestMain(m *testing.M) {
	os.Exit(programs.Run(m, func(dir string) (err error) {
		launchBin, _, err = programs.Build(dir)
		return err
	}))
}

// outcome is what launch bench --json printed on one host.
type outcome struct {
	code     int
	bench    verdict
	findings []found
	errs     string
	took     time.Duration
}

type found struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	What   string `json:"what"`
}

type verdict struct {
	Nodes    int   `json:"nodes"`
	Named    []int `json:"named"`
	Measured int   `json:"measured"`
	Ports    []struct {
		Rank int     `json:"rank"`
		Node string  `json:"node"`
		Rail string  `json:"rail"`
		Slow string  `json:"slow"`
		Out  float64 `json:"out"`
		In   float64 `json:"in"`
	} `json:"ports"`
	Rails []struct {
		Name   string  `json:"name"`
		Median float64 `json:"median"`
		Spread float64 `json:"spread"`
	} `json:"rails"`
	Unnamed int `json:"unnamed"`
}

// benchOn runs launch bench on a host.
func benchOn(t testing.TB, h *netns.Host, args ...string) outcome {
	t.Helper()
	return benchSaying(t, h, nil, args...)
}

// benchSaying is benchOn and closes said when the host begins to measure.
func benchSaying(t testing.TB, h *netns.Host, said chan struct{}, args ...string) outcome {
	t.Helper()
	cmd := h.Command(t.Context(), append([]string{launchBin, "bench", "--json"}, args...)...)
	var out bytes.Buffer
	errs := notes{word: "measuring ", said: said}
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	_ = cmd.Run()
	o := outcome{code: cmd.ProcessState.ExitCode(), errs: string(errs.text), took: time.Since(began)}
	for line := range strings.Lines(out.String()) {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &kind); err != nil {
			t.Errorf("%s: %v: %s", h.Name, err, line)
		}
		switch kind.Type {
		case "bench":
			_ = json.Unmarshal([]byte(line), &o.bench)
		case "finding":
			var f found
			_ = json.Unmarshal([]byte(line), &f)
			o.findings = append(o.findings, f)
		}
	}
	return o
}

// notes collects the output of a program and closes said when a text appears.
type notes struct {
	text []byte
	word string
	said chan struct{}
}

func (n *notes) Write(p []byte) (int, error) {
	n.text = append(n.text, p...)
	if n.said != nil && strings.Contains(string(n.text), n.word) {
		close(n.said)
		n.said = nil
	}
	return len(p), nil
}

// together runs launch bench on all hosts of a lab.
func together(t *testing.T, lab *netns.Lab, args ...string) []outcome {
	t.Helper()
	out := make([]outcome, len(lab.Hosts))
	var wg sync.WaitGroup
	for i, h := range lab.Hosts {
		wg.Go(func() {
			out[i] = benchOn(t, h, append([]string{"--store", "host0:22100", "--nnodes", fmt.Sprint(len(lab.Hosts)),
				"--join-timeout", "60s"}, args...)...)
		})
	}
	wg.Wait()
	return out
}

// slow returns each port that is named as slow, as "host3 eth1 port".
func (o outcome) slow(lab *netns.Lab) []string {
	var out []string
	for _, p := range o.bench.Ports {
		if p.Slow == "" {
			continue
		}
		name := p.Node
		for _, h := range lab.Hosts {
			if strings.HasSuffix(p.Node, "("+h.Addr+")") {
				name = h.Name
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s", name, p.Rail, p.Slow))
	}
	return out
}
