package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// collectives repeats one until its end, and prints that it has begun.
const collectives = `
import time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
while True:
    dist.all_reduce(torch.ones(1))
    print("begun", flush=True)
    time.sleep(0.1)
`

// BenchmarkLost prints what the survivor of two hosts learns when the cable of the other one is cut
// in the middle of a training: when launch says so, and when its command ends.
func BenchmarkLost(b *testing.B) {
	const rounds, limit = 3, 60 * time.Second
	torch := programs.AnyTorch(b)
	script := filepath.Join(b.TempDir(), "collectives.py")
	if err := os.WriteFile(script, []byte(collectives), 0o644); err != nil {
		b.Fatal(err)
	}
	ways := slices.DeleteFunc(starters(script), func(s starter) bool { return strings.Contains(s.name, "c10d") })
	fast := ways[0].line
	ways = append(ways, starter{"launch --fail-fast torchrun", func(rank, n int) []string {
		return slices.Insert(fast(rank, n), 1, "--fail-fast")
	}})
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "s after the cut, median of %d\tsays so\tends\t\n", rounds)
	for _, way := range ways {
		var says, ends []time.Duration
		for range rounds {
			s, e := lose(b, torch, way, limit)
			says, ends = append(says, s), append(ends, e)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", way.name, upTo(median(says), limit), upTo(median(ends), limit))
	}
	w.Flush()
	fmt.Printf("\n%s", &out)
	b.ReportMetric(0, "ns/op")
}

// upTo prints a time, or that it exceeds the limit.
func upTo(d, limit time.Duration) string {
	if d >= limit {
		return fmt.Sprintf("> %.0f", limit.Seconds())
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

// lose cuts the cable of host1 in the middle of a training. It returns when host0 prints something
// new, and when its command ends.
func lose(b *testing.B, torch programs.Torch, way starter, limit time.Duration) (says, ends time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	lab := netns.New(b, 2)
	lab.MayLeave("torchelastic_*", "torchinductor_*", "launch-store-*") // its hosts are killed
	var texts [2]watched
	out := &watched{}
	done := make(chan struct{}, 2)
	for rank, h := range lab.Hosts {
		cmd := way.command(ctx, lab, torch, rank)
		cmd.Stdout, cmd.Stderr = out, &texts[rank]
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		go func() { _ = cmd.Wait(); done <- struct{}{} }()
		defer h.Signal(9) //nolint:errcheck // the laboratory checks that nothing is left
	}
	for grown := out.grown(); !strings.Contains(out.String(), "begun"); grown = out.grown() {
		select {
		case <-grown:
		case <-time.After(limit):
			b.Fatalf("%s: the training has not begun\n%s", way.name, &texts[0])
		}
	}
	time.Sleep(2 * time.Second)
	before := len(texts[0].String())
	lab.Hosts[1].Cut()
	at := time.Now()
	says, ends = limit, limit
	for time.Since(at) < limit {
		if says == limit && len(texts[0].String()) > before {
			says = time.Since(at)
		}
		select {
		case <-done:
			return min(says, time.Since(at)), time.Since(at)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return says, ends
}
