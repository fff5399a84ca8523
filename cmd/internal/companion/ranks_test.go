package companion

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/internal/finding"
)

// torchrun may take long to end after its last rank has failed; while other ranks go on, it waits for them.
func TestATorchrunThatGoesOnWithoutARankIsNamed(t *testing.T) {
	const fails, remains = "read line; exit 1", "sleep 60"
	for _, tt := range []struct {
		name  string
		ranks []string
		late  time.Duration
		want  int
	}{
		{"another rank goes on", []string{fails, remains}, time.Hour, 1},
		{"it has no other rank, and may be about to end", []string{fails}, time.Hour, 0},
		{"all have failed", []string{fails, fails}, time.Hour, 0},
		{"it has no other rank, and remains", []string{fails}, time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := make(chan string, 4)
			p := &companion{launch: os.Getpid(), spec: &Spec{},
				print: func(_ finding.From, f finding.Finding, _ string) { said <- f.ID }}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			r := &ranks{watcher: &watcher{p: p}, known: map[int]string{}, soon: time.Second / 2, late: tt.late}
			torchrun, begin := startRanks(t, tt.ranks)
			for found := 0; found < len(tt.ranks); found = r.count() {
				r.find(ctx, torchrun)
			}
			begin()
			time.Sleep(3 * time.Second / 2)
			end()
			r.wg.Wait()
			if len(said) != tt.want {
				t.Errorf("it is said %d times, want %d", len(said), tt.want)
			}
		})
	}
}

// count returns how many ranks are known.
func (r *ranks) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// startRanks starts a process that looks like torchrun, with its ranks, and returns a func that ends their input.
func startRanks(t *testing.T, scripts []string) (pid int, begin func()) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text := ""
	for i, script := range scripts {
		text += fmt.Sprintf("TORCHELASTIC_RESTART_COUNT=0 RANK=%d LOCAL_RANK=%[1]d sh -c '%s' <&3 &\n", i, script)
	}
	torchrun := exec.Command("sh", "-c", text+"exec sleep 60")
	torchrun.ExtraFiles = []*os.File{in}
	torchrun.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := torchrun.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-torchrun.Process.Pid, syscall.SIGKILL); _ = torchrun.Wait() })
	return torchrun.Process.Pid, func() { out.Close() }
}

// A script that starts its ranks itself has workers, too: a process with threads of a process group is a rank.
func TestARankThatAScriptStartedIsNamedAsItEnds(t *testing.T) {
	for name, want := range map[string]bool{"gloo_tcp_loop": true, "pt_nccl_watchdg": true, "python3": false} {
		child := exec.Command("bash", "-c", "printf "+name+" > /proc/$BASHPID/comm; read line")
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = child.Wait() })
		comm := ""
		for end := time.Now().Add(5 * time.Second); comm != name+"\n" && time.Now().Before(end); {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child.Process.Pid))
			if comm = string(text); name == "python3" {
				break
			}
		}
		if got := inGroup(child.Process.Pid); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	seen := prior{Still: time.Minute}
	for want, end := range map[rankEnd]rankEnd{
		{Rank: 3, Status: 1, Prior: seen}:          endOf(7, "3", 1, seen),
		{Rank: 3}:                                  endOf(7, "3", 0, seen),
		{Rank: -1, PID: 7, Status: 1, Prior: seen}: endOf(7, "", 1, seen),
	} {
		if end != want {
			t.Errorf("%+v, want %+v", end, want)
		}
	}
	for want, end := range map[string]rankEnd{
		"a rank (pid 7) on a ended with 137 (killed)": {Rank: -1, PID: 7, Node: "a", Status: 137},
		"the command on a ended with 1":               {Rank: -1, Node: "a", Status: 1},
		"rank 0 on a ended with 1":                    {Node: "a", Status: 1},
	} {
		if got := end.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
