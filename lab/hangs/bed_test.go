package hangs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// bed is the hosts with one job on them.
type bed struct {
	t     *testing.T
	kind  kind
	lab   *netns.Lab
	torch programs.Torch
	dir   string // the logs, one a host
	gates string // files that the ranks wait for
	began time.Time
	runs  []*running
	sshd  []int // of hosts, from the second one on
}

// running is one command of the job.
type running struct {
	host int
	cmd  *exec.Cmd
	done chan struct{}
}

func newBed(t *testing.T, k kind, lab *netns.Lab, torch programs.Torch) *bed {
	b := &bed{t: t, kind: k, lab: lab, torch: torch, dir: t.TempDir(), gates: t.TempDir(), began: time.Now()}
	lab.MayLeave("*")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.logs())
		}
		for _, h := range lab.Hosts {
			if err := h.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		for _, r := range b.runs {
			<-r.done
		}
	})
	return b
}

// at starts a command on a host. Its output goes to the host's log.
func (b *bed) at(host int, environ []string, argv ...string) *running {
	b.t.Helper()
	h := b.lab.Hosts[host]
	log, err := os.OpenFile(b.logOf(host), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	argv = h.Named(slices.Concat(b.kind.jobIn, argv)...)
	r := &running{host: host, cmd: h.Command(b.t.Context(), argv...), done: make(chan struct{})}
	path := "PATH=" + filepath.Dir(b.torch.Python) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	common := []string{path, "LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH"), "OMP_NUM_THREADS=1",
		"GATE=" + b.gates, "PYTHONDONTWRITEBYTECODE=1"}
	r.cmd.Env = slices.Concat(r.cmd.Env, common, b.torch.Env, b.kind.env, environ)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { _ = r.cmd.Wait(); close(r.done) }()
	b.runs = append(b.runs, r)
	return r
}

func (b *bed) logOf(host int) string { return filepath.Join(b.dir, hostName(host)+".log") }

// job is the end of every command line of the job.
func (b *bed) job() []string {
	script := []string{filepath.Join(tools.data, "job.py"), "--backend", backend()}
	return append(script, strings.Fields(b.kind.args)...)
}

// startJob starts the job on all its hosts.
func (b *bed) startJob() {
	b.t.Helper()
	for i := range b.kind.hosts {
		b.startOn(i)
	}
}

// startOn starts the job's part of one host, with more options of torchrun.
func (b *bed) startOn(host int, options ...string) *running {
	b.t.Helper()
	var environ []string
	if b.kind.envOf != nil {
		environ = b.kind.envOf(host)
	}
	n, per := strconv.Itoa(b.kind.hosts), strconv.Itoa(b.kind.per)
	torchrun := []string{"torchrun", "--nproc_per_node", per}
	if !slices.Contains(options, "--nnodes") {
		torchrun = append(torchrun, "--nnodes", n)
	}
	switch b.kind.how {
	case env:
		for local := range b.kind.per {
			b.rank(host, host*b.kind.per+local, environ...)
		}
		return nil
	case c10d:
		torchrun = append(torchrun, "--rdzv_backend", "c10d", "--rdzv_endpoint", "host0:"+endpoint)
		if !slices.Contains(options, "--rdzv_id") {
			torchrun = append(torchrun, "--rdzv_id", "j1")
		}
	case launch:
		torchrun = append([]string{tools.launch, "--store", "host0"}, torchrun...)
	default:
		if !slices.Contains(options, "--node_rank") {
			torchrun = append(torchrun, "--node_rank", strconv.Itoa(host))
		}
		if !slices.Contains(options, "--master_addr") {
			torchrun = append(torchrun, "--master_addr", master)
		}
		torchrun = append(torchrun, "--master_port", port)
	}
	return b.at(host, environ, slices.Concat(torchrun, options, b.job())...)
}

// rank starts one rank without torchrun. What environ has comes last, and holds.
func (b *bed) rank(host, rank int, environ ...string) *running {
	b.t.Helper()
	vars := []string{
		"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(b.kind.world()),
		"LOCAL_RANK=" + strconv.Itoa(rank%b.kind.per), "MASTER_ADDR=" + master, "MASTER_PORT=" + port,
	}
	return b.at(host, append(vars, environ...), append([]string{b.torch.Python}, b.job()...)...)
}

// open lets ranks pass a gate.
func (b *bed) open(gate string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.gates, gate), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// awaits waits until a rank has made a file among the gates.
func (b *bed) awaits(name string) {
	b.t.Helper()
	b.until(upLimit, "the file "+name, func() bool {
		_, err := os.Stat(filepath.Join(b.gates, name))
		return err == nil
	})
}

func (b *bed) until(limit time.Duration, what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			b.t.Fatalf("%s is not there after %s", what, limit)
		}
	}
}

// pid returns the process of a rank.
func (b *bed) pid(rank int) int {
	b.t.Helper()
	for _, line := range b.lines(rank) {
		var pid int
		if _, err := fmt.Sscanf(line, "pid %d started", &pid); err == nil {
			return pid
		}
	}
	b.t.Fatalf("rank %d has not started", rank)
	return 0
}

// signal sends a signal to processes of the job.
func (b *bed) signal(sig syscall.Signal, pids ...int) {
	b.t.Helper()
	for _, p := range pids {
		if err := syscall.Kill(p, sig); err != nil {
			b.t.Fatal(err)
		}
	}
}

// drops makes a host drop packets that arrive, by a rule of nftables.
func (b *bed) drops(host int, rule string) { b.t.Helper(); b.filter(host, rule+" drop") }

func (b *bed) filter(host int, rule string) {
	b.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		b.t.Skip("needs nft, of the Debian package nftables")
	}
	const table = "table inet hangs { chain in {\n type filter hook input priority 0;\n %s\n }\n }\n"
	b.lab.Hosts[host].Run(fmt.Sprintf(table, rule), "nft", "-f", "-")
}
