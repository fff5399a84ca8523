package roce

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// yama limits which processes may look into others; its kernel setting is raised here from case to case.
const yama = "/proc/sys/kernel/yama/ptrace_scope"

// limitTracing lets the program look at two ranks of an ordinary user, of which one is stopped, at each value of
// ptrace_scope but 3, which cannot be taken back. Note has a line of JSON of each.
func (a *machineAgent) limitTracing(r *report) {
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for rank := range 2 {
		cmd := exec.Command("/usr/bin/agent")
		cmd.Args, cmd.SysProcAttr = []string{"python3", "train.py"}, user
		cmd.Env = []string{varAgent + "=" + sleeper, fmt.Sprintf("RANK=%d", rank), "WORLD_SIZE=2",
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"}
		if err := cmd.Start(); err != nil {
			r.Trouble += err.Error()
			return
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		if rank == 1 {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
		}
	}
	for _, scope := range []string{"0", "1", "2"} {
		if err := os.WriteFile(yama, []byte(scope), 0o644); err != nil {
			r.Trouble += err.Error()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, "/usr/bin/launch", "doctor", "--json")
		cmd.SysProcAttr = user
		out, _ := cmd.CombinedOutput()
		cancel()
		r.Note += string(out)
	}
}

func TestTheDoctorSaysWhatYamaHides(t *testing.T) {
	s, _ := both(t, "launch doctor")
	if s.Trouble != "" {
		t.Fatal(s.Trouble)
	}
	lines := strings.Split(strings.TrimSpace(s.Note), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), s.Note)
	}
	for scope, line := range lines {
		var got struct {
			Answers []struct {
				State string
				Why   []struct {
					Cause string
					Ranks []int
				} `json:"verdicts"`
			}
			Scenes []struct {
				Gaps []struct{ What, Why, Fix string }
			}
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || len(got.Answers) != 1 {
			t.Fatalf("ptrace_scope %d: %v: %s", scope, err, line)
		}
		a := got.Answers[0]
		if a.State != "hung" || len(a.Why) == 0 || a.Why[0].Cause != "rank.stopped" ||
			!slices.Equal(a.Why[0].Ranks, []int{1}) {
			t.Errorf("ptrace_scope %d: %s", scope, line)
		}
		why := fmt.Sprintf("yama's ptrace_scope is %d", scope)
		if says := strings.Contains(fmt.Sprint(got.Scenes), why); says != (scope > 0) {
			t.Errorf("ptrace_scope %d: it says %q: %t; all: %v", scope, why, says, got.Scenes)
		}
	}
}
