package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gone checks that after a job nothing is left on its hosts.
func (j *job) gone() {
	j.t.Helper()
	for _, h := range j.lab.Hosts {
		eventually(j.t, h.Name+" runs nothing", func() bool { return len(h.Processes()) == 0 })
	}
}

// Rank 1 sleeps before init_process_group: that is open, and the job runs on. Then it is stopped: that is certain, and
// --on-hang end ends the job on all nodes with a status of its own. What was seen is in a file.
func TestAJobThatCertainlyHangsIsEnded(t *testing.T) {
	t.Parallel() // it mostly waits
	j := trains(t, 2)
	file := filepath.Join(t.TempDir(), "hang.tar.gz")
	j.begin(2, "1", "--hang-after", "4s", "--on-hang", "end", "--bundle", file)
	j.nodes[0].says("job.hangs")
	pause(t, 12*time.Second) // in which rank 0 looks again
	for _, n := range j.nodes {
		select {
		case <-n.done:
			t.Errorf("%s has ended with %d, although it was open whether the job hangs", n.name, n.status())
		default:
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the bundle is written before the end")
	}
	if err := syscall.Kill(j.pid(1), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, n := range j.nodes {
		n.exits(76)
	}
	first, second := j.nodes[0].err.String(), j.nodes[1].err.String()
	if !strings.Contains(first, "launch: error: the job hangs: rank 1") || !strings.Contains(first, file) ||
		!strings.Contains(second, "launch: error: the job hangs: rank 1") {
		t.Errorf("host0:\n%s\nhost1:\n%s", first, second)
	}
	j.gone()
	a, status := j.merged(file)
	why := a.Answers[0].Why
	if status != 1 || len(a.Scenes) != 2 || len(why) == 0 || why[0].Cause != "rank.stopped" ||
		!slices.Equal(why[0].Ranks, []int{1}) {
		t.Errorf("the bundle, judged again, with status %d: %+v", status, a)
	}
}

// merged judges a bundle again.
func (j *job) merged(file string) (asked, int) {
	j.t.Helper()
	return j.answered(j.startBare(0, []string{tools.launch, "doctor", "--merge", "--json", file}))
}

// With --on-hang end launch is the parent of the command. A healthy job ends with 0, and a command that fails with its
// own status; with restarts a job that hangs ends for good.
func TestOnHangEndLeavesAHealthyJobAlone(t *testing.T) {
	t.Parallel()
	j := trains(t, 2)
	j.begin(2, "none", "--hang-after", "3s", "--on-hang", "end")
	for _, n := range j.nodes {
		n.prints("inside")
	}
	pause(t, 8*time.Second)
	end(t, j.gate)
	for _, n := range j.nodes {
		n.exits(0)
		if hangs(n) > 0 {
			t.Errorf("%s calls it hung:\n%s", n.name, n.err)
		}
	}
	j.gone()
	j.line = []string{"sh", "-c", "exit 7"}
	j.flags = append(j.flags, "--nnodes", "2", "--on-hang", "end")
	first, second := j.start(0), j.start(1)
	first.exits(7)
	second.exits(7)
}

// With restarts left a job that certainly hangs is ended for good: it would hang again.
func TestAJobWithRestartsThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	j := trains(t, 2)
	folder := t.TempDir()
	j.env = append(j.env, "FOLDER="+folder)
	j.begin(2, "1", "--hang-after", "3s", "--on-hang", "end", "--restarts", "3", "--job", "again/and-again", "--bundle",
		filepath.Join(folder, "missing", "hang.tar.gz"))
	if err := syscall.Kill(j.pid(1), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, n := range j.nodes {
		n.exits(76)
	}
	text := j.nodes[0].err.String()
	if strings.Contains(text, "starting again") || !strings.Contains(text, "no such file or directory") {
		t.Errorf("host0:\n%s", text)
	}
	if all, _ := filepath.Glob(filepath.Join(folder, "launch-hang-again-and-again-*.tar.gz")); len(all) != 1 {
		t.Errorf("the current folder has %q; want one bundle, since that of --bundle cannot be written", all)
	}
	j.gone()
}
