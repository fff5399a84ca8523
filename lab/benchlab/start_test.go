package benchlab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
)

// said is the output of a command on one host.
type said struct {
	code      int
	out, errs string
}

// everywhere runs launch with the arguments of each host.
func everywhere(t *testing.T, lab *netns.Lab, args func(i int) []string) []said {
	t.Helper()
	all := make([]said, len(lab.Hosts))
	var wg sync.WaitGroup
	for i, h := range lab.Hosts {
		wg.Go(func() {
			cmd := h.Command(t.Context(), append([]string{launchBin}, args(i)...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			all[i] = said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
		})
	}
	wg.Wait()
	return all
}

// TestAStartMeasuresIfRankZeroHasTheFlag starts a command on hosts of which one has a
// faulty link: all hosts name it, and the command runs on all.
func TestAStartMeasuresIfRankZeroHasTheFlag(t *testing.T) {
	lab := shaped(t, 4)
	lab.Hosts[2].Shape("eth0", sick, sick)
	job := []string{"--store", "host0:22101", "--nnodes", fmt.Sprint(len(lab.Hosts)), "--join-timeout", "60s"}
	for i, s := range everywhere(t, lab, func(i int) []string {
		if i == 0 { // hosts the store: rank 0
			return append(job, "--bench", "short", "echo", "it runs")
		}
		return append(job, "echo", "it runs")
	}) {
		if s.code != 0 || s.out != "it runs\n" {
			t.Errorf("host%d ended with %d, printed %q", i, s.code, s.out)
		}
		for _, want := range []string{"warn bench.port", "(" + lab.Hosts[2].Addr + ")", "slow: ",
			"6 pairs of ports measured"} {
			if !strings.Contains(s.errs, want) {
				t.Errorf("host%d does not print %q:\n%s", i, want, s.errs)
			}
		}
	}
}

// TestOnlyRankZeroDecidesWhetherAStartMeasures gives the flag to another node.
func TestOnlyRankZeroDecidesWhetherAStartMeasures(t *testing.T) {
	lab := shaped(t, 2)
	all := everywhere(t, lab, func(i int) []string {
		line := []string{"--store", "host0:22103", "--nnodes", "2", "--join-timeout", "60s", "--bench",
			[]string{"no", "full"}[i], "echo", "it runs"}
		return line
	})
	for i, s := range all {
		if s.code != 0 || s.out != "it runs\n" || strings.Contains(s.errs, "measured in") {
			t.Errorf("host%d ended with %d, printed %q:\n%s", i, s.code, s.out, s.errs)
		}
	}
	if want := "--bench is full here, but not on node rank 0"; !strings.Contains(all[1].errs, want) {
		t.Errorf("host1 does not print %q:\n%s", want, all[1].errs)
	}
}

// TestACheckDrawsWhatItMeasured expects the heat map as text and on the page.
func TestACheckDrawsWhatItMeasured(t *testing.T) {
	lab := shaped(t, 3)
	// By far slower than the others: a busy machine measures a part of their rate.
	lab.Hosts[1].Shape("eth0", sick/5, sick/5)
	page := filepath.Join(t.TempDir(), "check.html")
	all := everywhere(t, lab, func(i int) []string {
		line := []string{"check", "--store", "host0:22102", "--nnodes", "3", "--join-timeout", "60s", "--bench", "short"}
		if i == 2 {
			line = append(line, "--html", page)
		}
		return line
	})
	for i, s := range all {
		for _, want := range []string{"bench.port", "% of expected, eth0", "slow: "} {
			if !strings.Contains(s.out, want) {
				t.Errorf("host%d does not print %q:\n%s%s", i, want, s.out, s.errs)
			}
		}
		if s.code != 0 {
			t.Errorf("host%d ended with %d, want 0, since a slow job runs", i, s.code)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>Nodes and checks</h2>", "<h2>Bandwidth</h2>", `class="heat[0-3] slow"`,
		"bench.port"} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestANodeThatLeavesEndsTheMeasuring expects the other nodes to stop measuring when
// the world breaks up, and to wait for another node.
func TestANodeThatLeavesEndsTheMeasuring(t *testing.T) {
	lab := shaped(t, 3)
	errs := make([]*netns.Output, len(lab.Hosts))
	var cmds []*exec.Cmd
	for i, h := range lab.Hosts {
		cmd := h.Command(t.Context(), launchBin, "--store", "host0:22101", "--nnodes", "3", "--join-timeout", "60s",
			"--bench", "full", "echo", "it runs")
		errs[i] = &netns.Output{}
		cmd.Stderr = errs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, e := range errs {
		await(t, e, "measuring 1 rail", 30*time.Second)
	}
	_ = cmds[2].Process.Signal(os.Interrupt)
	for i, e := range errs[:2] {
		await(t, e, "; joining again", 5*time.Second) // a whole measurement takes 33 s
		_ = cmds[i].Process.Signal(os.Interrupt)
	}
	for i, cmd := range cmds {
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("host%d ended with %d", i, cmd.ProcessState.ExitCode())
		}
	}
}

// await waits until a command has written something.
func await(t *testing.T, said *netns.Output, what string, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(said.String(), what); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q within %s:\n%s", what, limit, said)
		}
	}
}
