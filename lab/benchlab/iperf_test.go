package benchlab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
)

// BenchmarkStreams compares the streams of launch bench with iperf3's, on two hosts
// whose link is limited only by the processors: in turns, medians of five.
func BenchmarkStreams(b *testing.B) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.Skip("needs iperf3 (tools/apt.sh iperf3)")
	}
	lab := netns.New(b, 2)
	fmt.Println("| streams | launch bench GB/s | iperf3 GB/s | ratio |\n|---|---|---|---|")
	for range b.N {
		for _, streams := range []int{1, 4, 8} {
			var ours, theirs []float64
			for range 5 {
				ours = append(ours, oursOn(b, lab, streams))
				theirs = append(theirs, iperf(b, lab, streams))
			}
			fmt.Printf("| %d | %s | %s | %.2f |\n", streams, spread(ours), spread(theirs), middle(ours)/middle(theirs))
		}
	}
}

func middle(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// spread returns the median with the least and the most.
func spread(all []float64) string {
	return fmt.Sprintf("%.2f (%.2f-%.2f)", middle(all)/1e9, slices.Min(all)/1e9, slices.Max(all)/1e9)
}

// oursOn returns the speed of a client of launch bench, in bytes/s.
func oursOn(b *testing.B, lab *netns.Lab, streams int) float64 {
	b.Helper()
	var wg sync.WaitGroup
	var got outcome
	for i, args := range [][]string{{"--server"}, {"--client", lab.Hosts[0].Addr, "--streams", fmt.Sprint(streams)}} {
		wg.Go(func() {
			o := benchOn(b, lab.Hosts[i], append(args, "--rails", "eth0", "--bench-port", "22200", "--join-timeout", "30s")...)
			if i == 1 {
				got = o
			}
		})
	}
	wg.Wait()
	for _, p := range got.bench.Ports {
		if p.Rank == 0 {
			return p.Out
		}
	}
	b.Fatalf("nothing was measured: %+v", got)
	return 0
}

// iperf returns the speed at an iperf3 server in the better of two seconds, in
// bytes/s: launch bench, too, takes the better half of two seconds.
func iperf(b *testing.B, lab *netns.Lab, streams int) float64 {
	b.Helper()
	server := lab.Hosts[0].Command(b.Context(), "iperf3", "-s", "-1", "-J", "-p", "22201")
	var out bytes.Buffer
	server.Stdout = &out
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	for try := 0; ; try++ {
		said, err := lab.Hosts[1].Command(b.Context(), "iperf3", "-c", lab.Hosts[0].Addr, "-p", "22201", "-t", "2", "-O", "1",
			"-P", fmt.Sprint(streams)).CombinedOutput()
		if err == nil {
			break
		}
		if try == 50 {
			b.Fatalf("iperf3: %v\n%s", err, said)
		}
		<-time.After(50 * time.Millisecond)
	}
	if err := server.Wait(); err != nil {
		b.Fatal(err)
	}
	type part struct {
		Sum struct {
			Bits    float64 `json:"bits_per_second"`
			Omitted bool    `json:"omitted"`
			Seconds float64 `json:"seconds"`
		} `json:"sum"`
	}
	var got struct {
		Intervals []part `json:"intervals"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		b.Fatalf("%v\n%s", err, out.String())
	}
	best := 0.0
	for _, p := range got.Intervals {
		if !p.Sum.Omitted && p.Sum.Seconds > 0.5 {
			best = max(best, p.Sum.Bits/8)
		}
	}
	if best == 0 {
		b.Fatalf("no interval of iperf3's server in\n%s", out.String())
	}
	return best
}
