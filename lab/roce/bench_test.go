package roce

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
)

// sample is one measurement of a benchmark.
type sample struct {
	Tool  string // launch, perftest
	Kind  string
	Size  int     // bytes
	Value float64 // bytes/s, or seconds of half a round trip
}

// The kinds of measurement, named like the ends of perftest's programs.
const (
	streams = "bw"
	pings   = "lat"
)

// The benchmark: the number of messages per size, for a stream and for pings.
var benchSizes = []struct{ size, messages, pings int }{{64, 5000, 1000}, {4096, 2000, 500}, {65536, 200, 100},
	{1 << 20, 20, 10}}

// Pings use the host's clock, so their rounds differ far more.
const (
	streamRounds = 5
	pingRounds   = 15
)

// benchmark measures streams with the two tools alternately, both ends in one machine.
func benchmark(door net.Listener) {
	for round := range streamRounds {
		for _, s := range benchSizes {
			for i := range 2 {
				r := report{Case: fmt.Sprintf("%d bytes, round %d, %d", s.size, round, i)}
				if (round+i)%2 == 0 {
					r.perftest(s.size, s.messages)
				} else {
					r.launch(door, verbs.Test{Device: "rxe0", GID: 1, Lead: true, Sizes: []int{s.size}, Iterations: s.messages})
				}
				r.print()
			}
		}
	}
}

// launch lets two children of this process test each other, as two nodes would.
func (r *report) launch(door net.Listener, t verbs.Test) {
	end := func(door net.Listener, t verbs.Test) (res verbs.Result, err error) {
		p, err := meet(door, r.Case)
		if err == nil {
			defer p.leave()
			res, err = confine.Run(context.Background(), t, time.Minute, p.say)
		}
		return res, err
	}
	var follower sync.WaitGroup
	follower.Go(func() { _, _ = end(door, verbs.Test{Device: t.Device, GID: t.GID}) })
	res, err := end(nil, t)
	follower.Wait()
	if r.fail(err); err == nil {
		r.Ran = append(r.Ran, sample{"launch", streams, t.Sizes[0], res.Out[0].Speed})
	}
}

// perftest runs both ends of its ib_write_bw.
func (r *report) perftest(size, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	line := perfLine(streams, size, n)
	other := exec.CommandContext(ctx, line[0], line[1:]...)
	if err := other.Start(); err != nil {
		r.Trouble += err.Error() + "; "
	} else {
		r.perfAsk(ctx, streams, size, append(line, "10.9.0.1"))
	}
	cancel()
	_ = other.Wait()
}

func perfLine(kind string, size, n int) []string {
	return []string{"ib_write_" + kind, "-F", "-d", "rxe0", "-x", "1", "-s", strconv.Itoa(size), "-n", strconv.Itoa(n)}
}

// perfAsk runs the connecting end until the other one listens, which first opens the
// device.
func (r *report) perfAsk(ctx context.Context, kind string, size int, line []string) {
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for range 30 {
		<-again.C
		out, err := exec.CommandContext(ctx, line[0], line[1:]...).Output()
		if err != nil {
			continue
		}
		if v, ok := perfValue(kind, size, string(out)); ok {
			r.Ran = append(r.Ran, sample{"perftest", kind, size, v})
			return
		}
	}
	r.Trouble += line[0] + " gave no figure; "
}

// benchCases measure pings with the two tools alternately, between two machines, since
// two programs that wait by spinning need a core each.
var benchCases = func() (list []step) {
	for round := range pingRounds {
		for _, s := range benchSizes {
			for i := range 2 {
				perf := (round+i)%2 == 0
				name := fmt.Sprintf("%d bytes, round %d, %s", s.size, round,
					map[bool]string{true: "perftest", false: "launch"}[perf])
				if perf {
					list = append(list, step{name,
						func(a *machineAgent, r *report) { a.pings(r, s.size, s.pings) },
						func(a *machineAgent, r *report) { a.pings(r, s.size, s.pings) }})
					continue
				}
				t := verbs.Test{Device: "rxe0", GID: 1, PingSizes: []int{s.size}, Pings: s.pings}
				measure := func(a *machineAgent, r *report) {
					a.run(r, t, time.Minute)
					if r.Err == nil && a.role == client {
						r.Ran = append(r.Ran, sample{"launch", pings, s.size, r.Run.Pings[0].Median.Seconds()})
					}
				}
				list = append(list, step{name, measure, measure})
			}
		}
	}
	return list
}()

// pings runs perftest's ib_write_lat, the server's end first.
func (a *machineAgent) pings(r *report, size, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	line := perfLine(pings, size, n)
	if a.role == client {
		a.barrier(r)
		r.perfAsk(ctx, pings, size, append(line, "10.10.0.1"))
		return
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	if err := cmd.Start(); err != nil {
		r.Trouble += err.Error() + "; "
	}
	a.barrier(r)
	_ = cmd.Wait()
}

// perfValue returns the average bandwidth, or the typical latency, from the table of a
// program of perftest. Its MB are 2^20 bytes. For short messages it uses the rate of
// messages, which has more digits.
func perfValue(kind string, size int, out string) (float64, bool) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] != strconv.Itoa(size) {
			continue
		}
		if kind == pings {
			v, err := strconv.ParseFloat(f[4], 64)
			return v / 1e6, err == nil
		}
		if size < 4096 {
			v, err := strconv.ParseFloat(f[4], 64)
			return v * 1e6 * float64(size), err == nil
		}
		v, err := strconv.ParseFloat(f[3], 64)
		return v * (1 << 20), err == nil
	}
	return 0, false
}

func TestPerftestsTableIsRead(t *testing.T) {
	bw := " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      1000          " +
		"   8.29               7.88   \t\t   0.000126\n"
	if v, ok := perfValue(streams, 65536, bw); !ok || v != 7.88*(1<<20) {
		t.Errorf("bandwidth %g, %v", v, ok)
	}
	lat := " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n 64       1000          " +
		"21.5           99.1         25.75               26.01\n"
	if v, ok := perfValue(pings, 64, lat); !ok || v != 25.75/1e6 {
		t.Errorf("latency %g, %v", v, ok)
	}
	if _, ok := perfValue(streams, 64, "Couldn't connect\n"); ok {
		t.Error("an error was read as a figure")
	}
}

// BenchmarkPerftest prints launch's figures next to perftest's: medians of rounds that
// measured both alternately. `make rocebench` runs it.
func BenchmarkPerftest(b *testing.B) {
	if os.Getenv("LAUNCH_ROCEBENCH") == "" {
		b.Skip("takes minutes: make rocebench")
	}
	alone, err := boot(listBench, 10*time.Minute, server)
	if err != nil {
		b.Fatal(err)
	}
	both, err := boot(listPings, 20*time.Minute, server, client)
	if err != nil {
		b.Fatal(err)
	}
	got := map[sample][]float64{}
	for _, r := range slices.Concat(alone[server], both[client]) {
		if r.Err != nil || r.Trouble != "" {
			b.Errorf("%s: %v %s", r.Case, r.Err, r.Trouble)
		}
		for _, s := range r.Ran {
			key := sample{Tool: s.Tool, Kind: s.Kind, Size: s.Size}
			got[key] = append(got[key], s.Value)
		}
	}
	fmt.Println("| bytes | perftest MB/s | launch MB/s | ratio | perftest µs | launch µs | ratio " +
		"|\n|---|---|---|---|---|---|---|")
	for _, s := range benchSizes {
		bw, ourBW, bwRatio := compare(b, got, streams, s.size)
		lat, ourLat, latRatio := compare(b, got, pings, s.size)
		fmt.Printf("| %d | %.3f | %.3f | %s | %.1f | %.1f | %s |\n", s.size, bw/1e6, ourBW/1e6, bwRatio, lat*1e6, ourLat*1e6,
			latRatio)
	}
}

// compare returns the median of each tool, and the quartiles of the ratio of launch to
// perftest in each round: a disturbance of a round affects both.
func compare(b *testing.B, got map[sample][]float64, kind string, size int) (theirs, ours float64, ratio string) {
	t, o := got[sample{Tool: "perftest", Kind: kind, Size: size}], got[sample{Tool: "launch", Kind: kind, Size: size}]
	if len(t) == 0 || len(t) != len(o) {
		b.Fatalf("%s at %d bytes: %d figures of perftest, %d of launch", kind, size, len(t), len(o))
	}
	b.Logf("%s at %d bytes, by round: perftest %.4g, launch %.4g", kind, size, t, o)
	ratios := make([]float64, len(t))
	for i := range t {
		ratios[i] = o[i] / t[i]
	}
	quarter := func(v []float64, n int) float64 { return slices.Sorted(slices.Values(v))[len(v)*n/4] }
	return quarter(t, 2), quarter(o, 2), fmt.Sprintf("%.2f (%.2f-%.2f)", quarter(ratios, 2), quarter(ratios, 1),
		quarter(ratios, 3))
}
