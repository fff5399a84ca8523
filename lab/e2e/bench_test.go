package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkOverhead prints what launch costs: the time of `launch true`
// against `true`, what it consists of, the same on two nodes, and the memory before the command
// begins. It always does the same work, whatever b.N is.
func BenchmarkOverhead(b *testing.B) {
	const rounds = 30
	one := func(argv ...string) func() [][]string { return func() [][]string { return [][]string{argv} } }
	two := func() [][]string {
		node := []string{tools.launch, "--store", "127.0.0.1:" + freePort(b), "--nnodes", "2", "--node-rank"}
		return [][]string{append(slices.Clone(node), "0", "true"), append(slices.Clone(node), "1", "true")}
	}
	lines := []struct {
		name string
		all  func() [][]string
	}{
		{"true", one("true")},
		{"launch version", one(tools.launch, "version")},
		{"launch --dry-run true", one(tools.launch, "--dry-run", "true")},
		{"launch true", one(tools.launch, "true")},
		{"launch true on two nodes", two},
	}
	times := make([][]time.Duration, len(lines))
	for range rounds { // interleaved, so that a busy moment affects all of them
		for i, l := range lines {
			times[i] = append(times[i], wall(b, l.all()))
		}
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	base := median(times[0])
	fmt.Fprintf(w, "median of %d\tms\tmore\tratio\t\n", rounds)
	for i, l := range lines {
		m := median(times[i])
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.0f\t\n", l.name, ms(m), ms(m-base), float64(m)/float64(base))
	}
	w.Flush()
	fmt.Fprintln(&out, `
launch version starts the program: the Go runtime and the initialization of the
linked packages, etcd's first. --dry-run adds the identity of this node, its
devices, limits and interfaces (NVML in a child process), the local checks and
the plan. launch true adds the execve and true itself; a world of one node has
no store and no companion. Two nodes of one machine add both, the join and the
checks between them, until both commands have ended.`)
	fmt.Print("\n", &out, memory(b)) // b.Log would cut it
	b.ReportMetric(ms(median(times[3])-base), "ms-over-true")
	b.ReportMetric(0, "ns/op")
}

// wall returns how long several programs take that are started together.
func wall(b *testing.B, all [][]string) time.Duration {
	b.Helper()
	var cmds []*exec.Cmd
	out := make([]bytes.Buffer, len(all))
	start := time.Now()
	for i, argv := range all {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.TempDir()}
		cmd.Stdout, cmd.Stderr = &out[i], &out[i]
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			b.Fatalf("%q: %v\n%s", all[i], err, &out[i])
		}
	}
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return (d[(len(d)-1)/2] + d[len(d)/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// memory returns a table of the processes of a store host that waits for another
// node: only the handoff is missing of what launch does before the command.
func memory(b *testing.B) string {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Its own name distinguishes its processes from others.
	bin := filepath.Join(b.TempDir(), "launch")
	if err := os.Link(tools.launch, bin); err != nil {
		text, err := os.ReadFile(tools.launch)
		if err != nil || os.WriteFile(bin, text, 0o755) != nil {
			b.Fatal(err)
		}
	}
	stderr := &watched{}
	cmd := exec.CommandContext(ctx, bin, "--nnodes", "2", "--store", "127.0.0.1:"+freePort(b), "--join-timeout", "60s",
		"true")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.TempDir()}
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	const joined = "1 of 2 nodes joined"
	limit := time.After(20 * time.Second)
	for !strings.Contains(stderr.String(), joined) {
		select {
		case <-stderr.grown():
		case <-limit:
			b.Fatalf("no %q within 20 s:\n%s", joined, stderr)
		}
	}
	time.Sleep(2 * time.Second) // settled: lease granted, store idle

	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "waiting for a node\tRssAnon MB\tRSS MB\t\n")
	for _, pid := range running(bin) {
		name := "companion, hosts the store"
		if pid == cmd.Process.Pid {
			name = "launch, before exec"
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t\n", name, status(pid, "RssAnon"), status(pid, "VmRSS"))
	}
	w.Flush()
	return "\n" + out.String() + "\nThe rest of RSS is pages of the binary's file, shared by both.\n"
}

// running returns the processes of a binary.
func running(bin string) []int {
	var out []int
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == bin {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// status returns a field of /proc/PID/status, in MB.
func status(pid int, field string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}

func freePort(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}
