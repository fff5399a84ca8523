package hangs

import (
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
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// Limits of the comparison. The group's timeout of 30 minutes is cut, so that torch says something.
const (
	groupTimeout = 45 * time.Second
	torchLimit   = 150 * time.Second // how long torch may take until its first word
	peerLimit    = 60 * time.Second  // how long a tool may take
)

// compared are the kinds of the comparison.
var compared = []string{
	"sleep", "lock", "storage-read", "failed", "stopped-early", "node-missing", "ids-differ", "store-dropped",
	"mesh-dropped", "loopback", "stopped", "left", "mismatch", "subset", "cable", "mtu",
}

// TestPeers prints what others say of the same hangs. It judges nothing: the table in docs/benchmarks.md does.
func TestPeers(t *testing.T) {
	site := os.Getenv("LAUNCH_HANGS_PEERS")
	if site == "" {
		t.Skip("needs LAUNCH_HANGS_PEERS, a folder of Python packages: make hangs-peers")
	}
	for _, k := range hungKinds() {
		if names := os.Getenv("LAUNCH_HANGS"); !slices.Contains(compared, k.name) ||
			names != "" && !slices.Contains(strings.Split(names, ","), k.name) {
			continue
		}
		t.Run(k.name, func(t *testing.T) { comparePeers(t, k.withDefaults(), site) })
	}
}

// comparePeers makes a hang, asks every tool, and waits for what torch itself says.
func comparePeers(t *testing.T, k kind, site string) {
	torch := programs.CurrentTorch(t)
	keep := t.TempDir()
	if dir := os.Getenv(record); dir != "" {
		keep = filepath.Join(dir, "peers", k.name)
	}
	dumps := filepath.Join(keep, "dumps")
	if err := os.MkdirAll(dumps, 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, k, netns.New(t, k.hosts+k.spare), torch)
	b.kind.env = append(slices.Clone(k.env), "PYTHONPATH="+site)
	b.kind.args += fmt.Sprintf(" --timeout %.0f --peers %s", groupTimeout.Seconds(), dumps)
	if k.before != nil {
		k.before(b)
	}
	if k.start == nil {
		k.start = (*bed).startJob
	}
	k.start(b)
	b.reaches(k.at)
	if k.strike != nil {
		k.strike(b)
		b.reaches(k.then)
	}
	hung := time.Now()
	before := b.sizes()
	time.Sleep(settle)

	doctor := b.ask()
	for _, a := range doctor.all.Answers {
		for _, v := range a.Why {
			t.Logf("launch doctor: %.1f s: %s: %s", doctor.all.took.Seconds(), v.Sure, v.Says)
		}
	}
	p := peers{b, keep}
	p.spies()
	url := "http://host0:25999/"
	p.says("debug server stacks", "curl", "-sS", "-m", "30", url+"stacks")
	p.says("debug server flight recorder", "curl", "-sS", "-m", "30", url+"fr_trace")
	b.open("dump")
	time.Sleep(2 * time.Second)
	python := []string{"env", "PYTHONPATH=" + site, torch.Python, "-B", "-m"}
	p.says("torchfrtrace", append(python, "torch.distributed.flight_recorder.fr_trace", "-p", "_dump_",
		"--allow-incomplete-ranks", dumps)...)
	p.says("nvrx", append(python, "nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution", "--fr-path", dumps,
		"--emit-stdout", "-c")...)
	b.firstWord(before, hung)
	p.keeps("torch", b.logs())
}

// peers asks other tools about a job.
type peers struct {
	*bed
	keep string
}

// says runs a tool on host0, keeps all that it prints and shows the last lines.
func (p peers) says(name string, argv ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), peerLimit)
	defer cancel()
	began := time.Now()
	printed, err := p.lab.Hosts[0].Command(ctx, argv...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		p.t.Logf("%s: %v", name, err)
		return
	}
	p.keeps(name, string(printed))
	lines := strings.Fields(tags.ReplaceAllString(string(printed), " "))
	p.t.Logf("%s: %.1f s, %v: %d words: …%s", name, time.Since(began).Seconds(), err, len(lines),
		strings.Join(lines[max(0, len(lines)-60):], " "))
}

var tags = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`)

func (p peers) keeps(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.keep, strings.ReplaceAll(name, " ", "-")+".txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Error(err)
	}
}

// spies shows where the main thread of each process of the job is: of its ranks, else of what was started.
func (p peers) spies() {
	p.t.Helper()
	began, all := time.Now(), ""
	at := map[string][]string{}
	for name, pid := range p.processes() {
		printed, err := exec.CommandContext(p.t.Context(), "timeout", "30", "py-spy", "dump", "--nonblocking", "--pid",
			strconv.Itoa(pid)).CombinedOutput()
		all += name + "\n" + string(printed)
		frame := fmt.Sprint(err)
		if _, main, ok := strings.Cut(string(printed), `"MainThread"`); ok {
			lines := strings.Split(main, "\n")
			frame = strings.TrimSpace(lines[min(1, len(lines)-1)])
		}
		at[frame] = append(at[frame], name)
	}
	p.keeps("py-spy", all)
	for frame, names := range at {
		slices.Sort(names)
		p.t.Logf("py-spy: %.1f s: %s: %s", time.Since(began).Seconds(), strings.Join(names, ", "), frame)
	}
}

func (p peers) processes() map[string]int {
	out := map[string]int{}
	for r := range p.kind.world() {
		if len(p.lines(r)) > 0 {
			out["rank "+strconv.Itoa(r)] = p.pid(r)
		}
	}
	for i, r := range p.runs {
		if len(out) < p.kind.world() && r.cmd.ProcessState == nil {
			out[fmt.Sprintf("command %d on %s", i, hostName(r.host))] = r.cmd.Process.Pid
		}
	}
	return out
}

func (b *bed) sizes() map[int]int {
	out := map[int]int{}
	for i := range b.lab.Hosts {
		out[i] = len(b.text(i))
	}
	return out
}

// trouble is a line in which torch says that something is wrong.
var trouble = regexp.MustCompile(`(?i)error|time ?d? ?out|exception|failed|refused|not joined`)

// firstWord waits for the first line of torch about the hang.
func (b *bed) firstWord(before map[int]int, hung time.Time) {
	b.t.Helper()
	for ; time.Since(hung) < torchLimit; time.Sleep(pollEvery) {
		for i := range b.lab.Hosts {
			text := b.text(i)
			for line := range strings.Lines(text[min(before[i], len(text)):]) {
				if trouble.MatchString(line) && !strings.Contains(line, "debug") {
					b.t.Logf("torch: %s, %.0f s: %s", hostName(i), time.Since(hung).Seconds(), cmp.Or(strings.TrimSpace(line), "-"))
					return
				}
			}
		}
	}
	b.t.Logf("torch: silent for %s", torchLimit)
}
