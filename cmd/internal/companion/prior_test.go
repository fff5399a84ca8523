package companion

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// begun starts a process and returns it with the PID of the child that it prints, which has a name.
func begun(t *testing.T, name string, env ...string) (rank *exec.Cmd, child int) {
	t.Helper()
	rank = exec.Command("bash", "-c", "(printf "+name+" > /proc/$BASHPID/comm; echo $BASHPID; exec 1>&-; "+
		"read < <(sleep 60)) & wait")
	rank.Env = append(os.Environ(), env...)
	rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := rank.StdoutPipe()
	if err == nil {
		err = rank.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-rank.Process.Pid, syscall.SIGKILL); _ = rank.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return rank, child
}

// A worker that was killed is why its rank fails; one that the rank ends itself is not, nor is another child.
func TestTheEndOfAWorkerComesBeforeThatOfItsRank(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		want   int
	}{
		{scene.Worker, syscall.SIGKILL, 137}, {scene.Worker, syscall.SIGSEGV, 139}, {scene.Worker, syscall.SIGTERM, 0},
		{"helper", syscall.SIGKILL, 0},
	} {
		rank, child := begun(t, tt.name)
		r := &ranks{}
		var w workers
		w.find(t.Context(), r, rank.Process.Pid)
		time.Sleep(100 * time.Millisecond) // it is followed
		_ = syscall.Kill(child, tt.signal)
		r.wg.Wait()
		now := time.Now()
		if e := w.before(now, 1); e.Status != tt.want || tt.want != 0 && e.PID != child {
			t.Errorf("%s, %s: %+v, want %d of %d", tt.name, tt.signal, e, tt.want, child)
		}
		if e := w.before(now.Add(time.Minute), 1); e.PID != 0 {
			t.Errorf("a minute later: %+v", e)
		}
		if e := w.before(w.at, tt.want); e.PID != 0 {
			t.Errorf("one signal ended both: %+v", e)
		}
		if e := w.before(w.at.Add(groupSpan), tt.want); e.Status != tt.want {
			t.Errorf("the rank was ended after it: %+v", e)
		}
	}
}

// Torchrun's folder remains as long as torchrun, so that one that is gone was removed. Of other files nothing is said.
func TestTheFolderOfTorchrunIsMissed(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "torchelastic_ab", "none_1", "attempt_0", "0")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	of := func(file string) folder {
		rank, _ := begun(t, "rank", "TORCHELASTIC_ERROR_FILE="+file)
		return folderOf(rank.Process.Pid)
	}
	f, none, own := of(filepath.Join(at, "error.json")), of("/dev/null"), of(filepath.Join(dir, "logs", "error.json"))
	if f.gone() || none.gone() || own.gone() || none.path != "" || own.path != "" {
		t.Errorf("they are there: %+v, %+v, %+v", f, none, own)
	}
	if err := os.RemoveAll(filepath.Join(dir, "torchelastic_ab")); err != nil {
		t.Fatal(err)
	}
	if !f.gone() || none.gone() || own.gone() {
		t.Error("it is gone, and the others are not")
	}
	if !f.lately() {
		t.Error("it has just gone")
	}
	if f.missed = time.Now().Add(-removedSpan); f.lately() {
		t.Error("it went a minute ago")
	}
}

// A rank says that its files are removed once, and its end says it again.
func TestARankOfWhichTheFilesAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "torchelastic_ab")
	if err := os.MkdirAll(filepath.Join(dir, "0"), 0o755); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	p := &companion{spec: &Spec{}, print: func(_ finding.From, f finding.Finding, _ string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, f.ID)
	}}
	r := &ranks{watcher: &watcher{p: p}}
	rank, _ := begun(t, "rank", "TORCHELASTIC_ERROR_FILE="+dir+"/0/error.json")
	before := r.precede(t.Context(), rank.Process.Pid)
	time.Sleep(watchEvery / 2)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2*watchEvery + watchEvery/2)
	if seen := before(time.Now(), 1); seen.Removed != dir || len(said) != 1 || said[0] != "node.files" {
		t.Errorf("%+v, said %v", seen, said)
	}
}

// Several ranks have one folder: its removal is said once. A rank that fails long after it has another reason.
func TestAFolderOfSeveralRanksIsMissedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "torchelastic_ab")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var said atomic.Int32
	p := &companion{spec: &Spec{}, print: func(finding.From, finding.Finding, string) { said.Add(1) }}
	r := &ranks{watcher: &watcher{p: p}}
	for range 2 {
		rank, _ := begun(t, "rank", "TORCHELASTIC_ERROR_FILE="+dir+"/0/error.json")
		r.precede(t.Context(), rank.Process.Pid)
	}
	time.Sleep(watchEvery / 2)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2*watchEvery + watchEvery/2)
	if said.Load() != 1 {
		t.Errorf("said %d times", said.Load())
	}
}

// A rank that has begun a new worker goes on after the end of another one.
func TestANewWorkerFollowsOneThatHasEnded(t *testing.T) {
	rank, child := begun(t, scene.Worker)
	r := &ranks{}
	w := workers{last: workerEnd{PID: 4, Status: 137}, at: time.Now()}
	if e := w.before(time.Now(), 1); e.PID != 4 {
		t.Errorf("the rank ends at once: %+v", e)
	}
	if e := w.before(time.Now().Add(10*time.Second), 1); e.PID != 0 {
		t.Errorf("10 seconds later: %+v", e)
	}
	w.find(t.Context(), r, rank.Process.Pid)
	if e := w.before(time.Now(), 1); e.PID != 0 {
		t.Errorf("after pid %d began: %+v", child, e)
	}
	_ = syscall.Kill(child, syscall.SIGTERM)
	r.wg.Wait()
}

// What the signal means that ended a rank is said before what was seen earlier.
func TestASignalExplainsTheEndOfARank(t *testing.T) {
	for name, seen := range map[string]prior{"a worker": {Worker: workerEnd{PID: 4, Status: 137}},
		"files": {Removed: "/tmp/torchelastic_ab"}} {
		end := rankEnd{Status: 128 + int(syscall.SIGABRT), Prior: seen}
		if got := end.fix(); got != meaning(end.Status) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The end of a rank is posted though what is said of its files is not printed, as where a program stops that reads it.
func TestTheEndOfARankWaitsForNoPrint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "torchelastic_ab")
	if err := os.MkdirAll(filepath.Join(dir, "0"), 0o755); err != nil {
		t.Fatal(err)
	}
	prints, stopped := make(chan none), make(chan none)
	p := &companion{spec: &Spec{}, print: func(finding.From, finding.Finding, string) { close(prints); <-stopped }}
	r := &ranks{watcher: &watcher{p: p}}
	rank, _ := begun(t, "rank", "TORCHELASTIC_ERROR_FILE="+dir+"/0/error.json")
	before := r.precede(t.Context(), rank.Process.Pid)
	time.Sleep(watchEvery / 2)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	<-prints
	returned := make(chan none)
	go func() { defer close(returned); before(time.Now(), 1) }()
	select {
	case <-returned:
	case <-time.After(10 * folderBudget):
		t.Error("it waits")
	}
	close(stopped)
	r.wg.Wait()
}

func TestTheEndOfARankHasWhatWasSeenBefore(t *testing.T) {
	for want, seen := range map[string]prior{
		", 2s after a worker process of its DataLoader (pid 45) ended with 137 (killed)": {
			Worker: workerEnd{PID: 45, Status: 137, Before: 2 * time.Second}, Still: time.Minute},
		", after torchrun's folder /tmp/torchelastic_ab was removed there": {
			Removed: "/tmp/torchelastic_ab"},
		"": {Still: time.Minute},
	} {
		end := rankEnd{Rank: 1, Node: "b", Status: 1, Prior: seen}
		if got := end.String(); !strings.HasPrefix(got, "rank 1 on b ended with 1 at ") || !strings.HasSuffix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if (end.fix() == "") != (want == "") {
			t.Errorf("%q: fix %q", want, end.fix())
		}
	}
}

// Where nothing had moved before a rank ended, it may have waited for one that is in its script.
func TestARankEndsThatMayHaveWaited(t *testing.T) {
	var c calm
	at := time.Unix(1000, 0)
	for i, over := range []int{0, 5, 10, 0} {
		c.saw(at.Add(time.Duration(5*i)*time.Second), time.Duration(over)*time.Second)
	}
	for after, want := range map[int]int{11: 10, 16: 10, 26: 0, -1: 0} {
		if got := c.until(at.Add(time.Duration(after) * time.Second)); got != time.Duration(want)*time.Second {
			t.Errorf("after %d s: %s, want %d s", after, got, want)
		}
	}
	end := rankEnd{Rank: 1, Node: "b", Status: 1, Prior: prior{Still: 10 * time.Second}}
	for name, tt := range map[string]struct {
		end  rankEnd
		want bool
	}{
		"nothing had moved":      {end, true},
		"something had":          {rankEnd{Status: 1, Prior: prior{Still: leastWait - 1}}, false},
		"the command":            {rankEnd{Rank: -1, Status: 1, Prior: end.Prior}, false},
		"a signal":               {rankEnd{Status: 137, Prior: end.Prior}, false},
		"a worker was ended":     {rankEnd{Status: 1, Prior: prior{Still: time.Hour, Worker: workerEnd{PID: 4}}}, false},
		"its files were removed": {rankEnd{Status: 1, Prior: prior{Still: time.Hour, Removed: "/tmp/a"}}, false},
	} {
		if got := tt.end.unexplained(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	says := func(ranks ...verdict.Rank) string {
		f, ok := waitedFor(end, []verdict.Answer{{Ranks: ranks}})
		if !ok {
			return ""
		}
		return fmt.Sprint(f.What)
	}
	saves := verdict.Rank{Rank: 0, Phase: "inside", At: "train.py:9"}
	if got := says(saves, verdict.Rank{Rank: 2, Phase: "collective", At: "train.py:10"}); !strings.HasSuffix(got,
		", after nothing had moved on that node for 10s; in no collective now: rank 0 of this node at train.py:9") {
		t.Error(got)
	}
	for name, r := range map[string]verdict.Rank{"it is in a collective": {Rank: 0, Phase: "collective", At: "train.py:9"},
		"its stack is not known":  {Rank: 0, Phase: "inside"},
		"its number is not known": {Rank: -1, Phase: "inside", At: "a:1"}} {
		if got := says(r); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
