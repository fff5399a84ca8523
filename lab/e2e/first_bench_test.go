package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// firstCollective prints the time after its first collective.
const firstCollective = `
import time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("first", time.time(), flush=True)
time.sleep(1)  # a rank that ends sooner can break the connections of the others
`

// firstLimit bounds one start.
const firstLimit = 90 * time.Second

// starter is one way to start the training.
type starter struct {
	name string
	line func(rank, n int) []string // on one host
}

// starters returns launch, any other binaries that FIRST_BINS names (name=path,…), and torchrun's
// own two ways, with all that they need given by hand.
func starters(script string) []starter {
	torchrun := func(n int, more ...string) []string {
		return slices.Concat([]string{"torchrun", "--nnodes", strconv.Itoa(n), "--nproc_per_node", "1"}, more,
			[]string{script})
	}
	launch := func(bin string) func(rank, n int) []string {
		return func(_, n int) []string { return slices.Concat([]string{bin, "--store", "host0"}, torchrun(n)) }
	}
	out := []starter{{"launch torchrun", launch(tools.launch)}}
	for text := range strings.SplitSeq(os.Getenv("FIRST_BINS"), ",") {
		if name, bin, ok := strings.Cut(text, "="); ok {
			out = append(out, starter{name, launch(bin)})
		}
	}
	return append(out,
		starter{"torchrun, static", func(rank, n int) []string {
			return torchrun(n, "--master_addr", "10.77.0.1", "--master_port", "29500", "--node_rank", strconv.Itoa(rank))
		}},
		starter{"torchrun, c10d", func(rank, n int) []string { // all hosts have one name: it needs the address
			return torchrun(n, "--rdzv_backend", "c10d", "--rdzv_endpoint", "10.77.0.1:29400", "--rdzv_id", "job",
				"--local_addr", fmt.Sprintf("10.77.0.%d", rank+1), "--rdzv_conf", fmt.Sprintf("is_host=%t", rank == 0))
		}})
}

// command returns the line of a rank on its host.
func (s starter) command(ctx context.Context, lab *netns.Lab, torch programs.Torch, rank int) *exec.Cmd {
	cmd := lab.Hosts[rank].Command(ctx, s.line(rank, len(lab.Hosts))...)
	cmd.Env = slices.Concat(cmd.Env, torch.Env, []string{"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=eth0",
		"PATH=" + filepath.Dir(torch.Python) + ":/usr/sbin:/usr/bin:/sbin:/bin"})
	return cmd
}

// firstCase is one condition of the starts.
type firstCase struct {
	name  string
	disk  bool          // the page cache is empty
	mount bool          // torch lies on a file system with round trips, of which nothing is in memory
	late  time.Duration // of the last host
}

// firstCases are the conditions that FIRST_CASES may name.
var firstCases = []firstCase{{name: "warm"}, {name: "disk", disk: true}, {name: "mount", mount: true},
	{name: "late", mount: true, late: 20 * time.Second}}

// BenchmarkFirst prints the time to the first collective: from the moment when the last host's line
// is typed until the last rank has it. FIRST_SIZES, FIRST_ROUNDS and FIRST_CASES bound it.
func BenchmarkFirst(b *testing.B) {
	torch := programs.AnyTorch(b)
	script := filepath.Join(b.TempDir(), "first.py")
	if err := os.WriteFile(script, []byte(firstCollective), 0o644); err != nil {
		b.Fatal(err)
	}
	ways, rounds := starters(script), 9
	if n, err := strconv.Atoi(os.Getenv("FIRST_ROUNDS")); err == nil {
		rounds = n
	}
	wanted := strings.Split(cmp.Or(os.Getenv("FIRST_CASES"), "warm,disk,mount,late"), ",")
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "hosts\tcase\t")
	for _, way := range ways {
		fmt.Fprintf(w, "%s\t", way.name)
	}
	fmt.Fprintln(w)
	for _, size := range strings.Split(cmp.Or(os.Getenv("FIRST_SIZES"), "2,3,8"), ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatalf("FIRST_SIZES: %v", err)
		}
		for _, c := range firstCases {
			if slices.Contains(wanted, c.name) {
				fmt.Fprintf(w, "%d\t%s\t%s\n", n, c.name, strings.Join(c.race(b, torch, ways, n, rounds), "\t"))
			}
		}
	}
	w.Flush()
	fmt.Printf("\nSeconds to the first collective: medians (quartiles) of %d, by turns\ntorch %s, gloo\n%s",
		rounds, torchVersion(torch), &out)
	b.ReportMetric(0, "ns/op")
}

// race starts the training in each way by turns, and returns the cells of the table.
func (c firstCase) race(b *testing.B, torch programs.Torch, ways []starter, n, rounds int) []string {
	lab := netns.New(b, n)
	lab.MayLeave("torchelastic_*", "torchinductor_*")
	times := make([][]time.Duration, len(ways))
	failed := make([]int, len(ways))
	for range rounds {
		for i, way := range ways {
			if c.disk {
				dropCaches(b)
			}
			unmount := func() {}
			if c.mount {
				_, unmount = mountTorch(b, lab, torch)
			}
			d, err := c.once(b, lab, torch, way, n)
			unmount()
			if err != nil {
				failed[i]++
				fmt.Fprintf(os.Stderr, "%d hosts, %s, %s: %v\n", n, c.name, way.name, err)
				continue
			}
			times[i] = append(times[i], d)
		}
	}
	cells := make([]string, len(ways))
	for i, ds := range times {
		if len(ds) == 0 {
			cells[i] = "-"
			continue
		}
		ds = slices.Sorted(slices.Values(ds))
		cells[i] = fmt.Sprintf("%.2f (%.2f-%.2f)", median(ds).Seconds(), ds[len(ds)/4].Seconds(), ds[3*len(ds)/4].Seconds())
		if failed[i] > 0 {
			cells[i] += fmt.Sprintf(", %d failed", failed[i])
		}
	}
	return cells
}

var firstLine = regexp.MustCompile(`(?m)^first ([0-9.]+)$`)

// once starts the training on all hosts, and returns the time to its first collective.
func (c firstCase) once(b *testing.B, lab *netns.Lab, torch programs.Torch, way starter, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(b.Context(), c.late+firstLimit)
	defer cancel()
	outs, errs := make([]bytes.Buffer, n), make([]bytes.Buffer, n)
	var cmds []*exec.Cmd
	var began time.Time
	for rank := range n {
		if rank == n-1 {
			time.Sleep(c.late)
		}
		began = time.Now()
		cmd := way.command(ctx, lab, torch, rank)
		cmd.Stdout, cmd.Stderr = &outs[rank], &errs[rank]
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		cmds = append(cmds, cmd)
	}
	var all error
	for _, cmd := range cmds {
		all = errors.Join(all, cmd.Wait())
	}
	last := 0.0
	for rank := range outs {
		m := firstLine.FindSubmatch(outs[rank].Bytes())
		if m == nil {
			return 0, fmt.Errorf("rank %d: %w\n%s", rank, cmp.Or(all, errors.New("no first collective")), &errs[rank])
		}
		at, _ := strconv.ParseFloat(string(m[1]), 64)
		last = max(last, at)
	}
	return time.Duration((last - float64(began.UnixNano())/1e9) * 1e9), all
}

// dropCaches empties the page cache.
func dropCaches(b *testing.B) {
	b.Helper()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200); err != nil {
		b.Skipf("needs to drop the page cache: %v", err)
	}
}

func torchVersion(t programs.Torch) string {
	out, _ := exec.Command(t.Python, "-c", "import torch; print(torch.__version__)").Output()
	return strings.TrimSpace(string(out))
}
