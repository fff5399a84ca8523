package process

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestReadReturnsTheStateOfAChild(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	got, err := Read(cmd.Process.Pid)
	if err != nil || got.Parent != os.Getpid() || got.Started == "" {
		t.Errorf("a child of %d: %+v, %v", os.Getpid(), got, err)
	}
	if below := Descendants(os.Getpid(), cmd.Process.Pid); slices.Contains(below, cmd.Process.Pid) {
		t.Errorf("%v has what was left out, %d", below, cmd.Process.Pid)
	}
	if below := Descendants(os.Getpid()); !slices.Contains(below, cmd.Process.Pid) {
		t.Errorf("descendants %v lack the child %d", below, cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got, err := Read(cmd.Process.Pid); err == nil && got.Parent == os.Getpid() {
		t.Errorf("it has ended: %+v", got)
	}
	if below := Descendants(os.Getpid()); slices.Contains(below, cmd.Process.Pid) {
		t.Errorf("descendants %v have a process that has ended", below)
	}
}

// A program can give itself any name: the fields after it are found all the same.
func TestReadSurvivesAnyName(t *testing.T) {
	path := t.TempDir() + "/a) Z 1 ("
	if err := os.Symlink("/bin/sleep", path); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if got, err := Read(cmd.Process.Pid); err != nil || got.Parent != os.Getpid() {
		t.Errorf("got %+v, %v; want the parent %d", got, err, os.Getpid())
	}
}

// The kernel names 0 as the parent of the first processes: an unset PID must not mean all of the machine.
func TestNoProcessHasDescendantsIfItIsNone(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if below := Descendants(pid); len(below) > 0 {
			t.Errorf("%d: %d processes", pid, len(below))
		}
	}
}
