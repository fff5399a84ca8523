package companion

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A make file or a script may start a torchrun that knows of this node alone.
func TestARankThatKnowsOfThisNodeAloneIsFound(t *testing.T) {
	const elastic = "TORCHELASTIC_RESTART_COUNT=0 GROUP_WORLD_SIZE="
	const alone = elastic + "1 sleep 60 & wait"
	// evaluates is a rank of a world of two nodes that starts another torchrun.
	const evaluates = elastic + "2 sh -c '" + elastic + "1 sleep 60 & wait' & wait"
	for _, tt := range []struct{ name, line, ranks, fix string }{
		{"launch is in a rank", "t.py", alone, ""},
		{"torchrun of a make file", "--nproc-per-node 2 t.py", alone, "with --as torchrun"},
		{"its own options", "--standalone --rdzv-backend=c10d t.py", alone, "in place of --standalone --rdzv-backend=c10d"},
		{"a range may wait for others", "--nnodes 1:2 t.py", alone, ""},
		{"a world of two nodes", "--nnodes 2 t.py", elastic + "2 sleep 60 & wait", ""},
		{"one that evaluates", "--nnodes 2 t.py", evaluates, ""},
		{"a worker of Ray", "t.py", "GROUP_WORLD_SIZE=1 sleep 60 & wait", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "torchrun")
			if err := os.WriteFile(name, []byte("#!/bin/sh\n"+tt.ranks+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			script := exec.Command("sh", "-c", name+" "+tt.line+"; true")
			script.Env = append(os.Environ(), "NNODES=2")
			if tt.name == "launch is in a rank" {
				script.Env = append(script.Env, "GROUP_WORLD_SIZE=1", "TORCHELASTIC_RESTART_COUNT=0")
			}
			script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := script.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(-script.Process.Pid, syscall.SIGKILL); _ = script.Wait() })
			a, starter, rank := &apart{looks: map[int]int{}}, 0, 0
			for range maxLooks {
				time.Sleep(200 * time.Millisecond)
				done := false
				if starter, rank, done = a.find(script.Process.Pid); done {
					break
				}
			}
			if (rank != 0) != (tt.fix != "") {
				t.Fatalf("rank %d", rank)
			}
			if rank == 0 {
				return
			}
			if f := apartFinding(2, false, starter, rank); !strings.Contains(f.Fix, tt.fix) {
				t.Errorf("fix %q, want %q in it", f.Fix, tt.fix)
			}
			if f := apartFinding(2, true, starter, rank); !strings.Contains(f.Fix, "let the variables of launch through") {
				t.Errorf("without PET_NNODES: fix %q", f.Fix)
			}
		})
	}
}
