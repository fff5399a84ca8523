package faultbench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cut is when the bench ends either side of a comparison. before is the pause between
// two starts, in which three torchruns and their ranks load torch on two cores.
const (
	cut    = 120 * time.Second
	before = 15 * time.Second
)

// compared has the rows of this run: of the comparison, by index in plainFaults, and
// of the times of one node's checks.
var compared struct {
	sync.Mutex
	rows  map[int]string
	times []string
}

// Each fault hits torchrun alone and the same command line after launch. Any outcome
// of torchrun is accepted; launch must name the cause, or the job must run.
func TestPlainTorchrunInComparison(t *testing.T) {
	if !full {
		t.Skip("takes 10 minutes of waiting: make faultbench")
	}
	python := cmp.Or(os.Getenv("LAUNCH_TEST_PYTHON"), filepath.Join("..", "..", ".venv", "bin", "python"))
	bin, err := filepath.Abs(filepath.Dir(python))
	if err == nil {
		_, err = os.Stat(filepath.Join(bin, "torchrun"))
	}
	if err != nil {
		t.Skipf("needs a current torch: %v", err)
	}
	atOnce, loading := make(chan struct{}, 3), make(chan struct{}, 1)
	for i, f := range plainFaults() {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			plain, with := side(t, f, bin, "", loading), side(t, f, bin, tools.launch, loading)
			finding, bad := f.finding(with)
			if bad != "" {
				t.Errorf("%s: %s\n%s", f.name, bad, with.printed())
			}
			t.Logf("torchrun alone:\n%s", plain.printed())
			compared.Lock()
			defer compared.Unlock()
			if compared.rows == nil {
				compared.rows = map[int]string{}
			}
			compared.rows[i] = fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", f.name,
				plain.perHost(ending), plain.perHost(plain.useful), plain.names(f), finding, with.perHost(ending))
		})
	}
}

// side runs one side of a comparison under a fault: torchrun alone if launch is "".
// The three hosts have their own kernel host names, by which torchrun recognizes the
// host of the endpoint.
func side(t *testing.T, f fault, bin, launch string, loading chan struct{}) *trial {
	t.Helper()
	loading <- struct{}{}
	loaded := sync.OnceFunc(func() { <-loading })
	defer loaded()
	time.AfterFunc(before, loaded)
	tr := newTrial(t, 3)
	tr.lab.MayLeave("*") // files of processes that were killed
	f.inject(tr)
	tr.runEach(cut, func(h *host) (env, argv []string) {
		argv = h.Named()
		if launch != "" {
			argv = append(argv, cmp.Or(h.launch, launch))
		}
		argv = append(argv, "torchrun", "--nnodes", strconv.Itoa(len(tr.hosts)), "--nproc-per-node", "1",
			"--rdzv-backend", "c10d", "--rdzv-endpoint", cmp.Or(tr.store, "host0")+":29400", "--rdzv-id", "bench")
		argv = slices.Concat(argv, h.flags, []string{tr.reduce()}, h.line)
		return append([]string{"PATH=" + bin + ":" + os.Getenv("PATH")}, h.env...), argv
	})
	for _, h := range tr.hosts {
		_ = h.Signal(syscall.SIGKILL) // ranks whose torchrun was killed
	}
	return tr
}

// reduce returns a copy of the job's script that the fault may hide.
func (tr *trial) reduce() string {
	tr.t.Helper()
	script := filepath.Join(tr.extra.Dir(), "reduce.py")
	text, err := os.ReadFile("testdata/reduce.py")
	if err == nil {
		err = os.WriteFile(script, text, 0o644)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
	return script
}

// trouble matches the line that a person would read first: the text of an exception,
// else a warning.
var trouble = []*regexp.Regexp{
	regexp.MustCompile(`(can't open file .+)`),
	regexp.MustCompile(`^(?:\[rank\d+\]:\s*)?((?:[\w.]*\.)?\w*(?:Error|Exception|Timeout|Signal)\w*: .+)`),
	regexp.MustCompile(`^(?:\[W\d.*?\]|W\d{4}.*?\]) *(.+)`),
	regexp.MustCompile(`(.*(?:rror|failed|timed out).*)`),
}

// noise is what torch prints in a healthy start too, because no name server resolves
// addresses to names.
var noise = regexp.MustCompile(`hostname of the client socket cannot be retrieved`)

// useful returns this line of a host, with its time.
func (tr *trial) useful(h *host) string {
	for _, r := range trouble {
		for _, l := range h.Lines() {
			if m := r.FindStringSubmatch(l.Text); m != nil && !noise.MatchString(l.Text) {
				text := strings.NewReplacer("|", "/", "`", "'").Replace(m[1])
				if len(text) > 180 {
					text = text[:180] + "…"
				}
				return fmt.Sprintf("%.0f s: `%s`", l.At.Sub(tr.observable).Seconds(), text)
			}
		}
	}
	return "nothing"
}

// ending returns how a host's command ended, and how long after its start.
func ending(h *host) string {
	after := h.Ended.Sub(h.Begun)
	switch {
	case h.Status == 137 && after >= cut:
		return fmt.Sprintf("cut at %.0f s", cut.Seconds())
	case h.Status == 0:
		return fmt.Sprintf("ran, %.0f s", after.Seconds())
	}
	return fmt.Sprintf("%d after %.0f s", h.Status, after.Seconds())
}

// perHost returns the text of each host that took part to its end, and names hosts
// with the same text together.
func (tr *trial) perHost(of func(*host) string) string {
	var said []string
	names := map[string][]string{}
	for _, h := range tr.hosts {
		if h.absent || h.killed {
			continue
		}
		text := of(h)
		if names[text] == nil {
			said = append(said, text)
		}
		names[text] = append(names[text], h.Name)
	}
	if len(said) == 1 {
		return said[0]
	}
	for i, text := range said {
		said[i] = strings.Join(names[text], ", ") + ": " + text
	}
	return strings.Join(said, "<br>")
}

// summary is torchrun's list of its own ranks that ended, by host: not a cause.
var summary = regexp.MustCompile(`^\s+host\s+:`)

// names reports whether a host printed the name or the address of the sick one, or
// whether the sick one alone printed trouble.
func (tr *trial) names(f fault) string {
	if f.shared {
		return "-"
	}
	alone := tr.useful(tr.sick) != "nothing"
	for _, h := range tr.hosts {
		for _, l := range h.Lines() {
			if !summary.MatchString(l.Text) && (strings.Contains(l.Text, tr.sick.Name) ||
				strings.Contains(l.Text, tr.sick.Addr)) {
				return "yes"
			}
		}
		alone = alone && (h == tr.sick || tr.useful(h) == "nothing")
	}
	return map[bool]string{true: "by its output", false: "no"}[alone]
}

// finding returns what launch printed about a fault, and what is wrong with it.
// "joined 2" means that two nodes have joined. A name in an earlier line counts too.
func (f fault) finding(tr *trial) (finding, bad string) {
	for _, h := range tr.hosts {
		before := ""
		for _, l := range h.Lines() {
			before += l.Text
			kind, wait := strings.CutPrefix(strings.Join(f.want, ""), "wait ")
			joined, some := strings.CutPrefix(strings.Join(f.want, ""), "joined ")
			switch {
			case wait && l.Said.Kind != kind, some && !strings.Contains(l.Text, `"come":`+joined), !wait && !some &&
				!f.cause(l.Said):
				continue
			case !f.shared && h != tr.sick && !strings.Contains(before, tr.sick.Addr) && !strings.Contains(before, tr.sick.Name):
				continue
			}
			return fmt.Sprintf("%.1f s: `%s`", l.At.Sub(tr.observable).Seconds(), cmp.Or(l.Said.ID, l.Said.What, l.Said.Kind)),
				""
		}
	}
	if len(f.want) > 0 {
		return "NO", fmt.Sprintf("no host printed %q", f.want)
	}
	for _, h := range tr.hosts {
		if h.Status != 0 {
			return "NO", h.Name + " did not run"
		}
	}
	return "-", ""
}

// printCompared writes the comparison and the times as tables of
// docs/benchmarks.md.
func printCompared(w io.Writer) {
	if len(compared.rows) > 0 {
		fmt.Fprintf(w, "\n| fault | torchrun alone | what it prints | names the host | launch prints | with launch "+
			"|\n|---|---|---|---|---|---|\n")
	}
	for _, i := range slices.Sorted(maps.Keys(compared.rows)) {
		fmt.Fprintln(w, compared.rows[i])
	}
	if len(compared.times) > 0 {
		fmt.Fprintf(w, "\n| one node's checks | ms | load |\n|---|---|---|\n%s\n", strings.Join(compared.times, "\n"))
	}
}
