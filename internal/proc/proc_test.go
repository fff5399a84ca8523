package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// line is a process of this name, as Linux 6.1 prints it.
func line(name string) string {
	return "4711 (" + name + ") S 12 4711 4711 34816 4711 4194304 98 0 0 0 0 0 0 0 20 0 1 0 2308416 2990080 448 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
}

func TestParse(t *testing.T) {
	want := Stat{State: 'S', Parent: 12, Started: "2308416"}
	for _, name := range []string{"sleep", "a b", "a) Z 1", "((", ""} {
		if got, err := parse(line(name)); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, bad := range []string{"", "1 (x)", "1 (x) S 1", strings.Replace(line("x"), ")", "", 1), strings.Replace(line("x"), "S", "SS", 1), strings.Replace(line("x"), "S 12", "S x", 1), strings.Replace(line("x"), "2308416", "-1", 1)} {
		if got, err := parse(bad); err == nil {
			t.Errorf("%q is %+v, want an error", bad, got)
		}
	}
}

func TestReadTellsAChild(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	got, err := Read(cmd.Process.Pid)
	if err != nil || got.Parent != os.Getpid() || got.Started == "" {
		t.Errorf("a child of %d: %+v, %v", os.Getpid(), got, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got, err := Read(cmd.Process.Pid); err == nil && got.Parent == os.Getpid() {
		t.Errorf("it has ended: %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{line("x"), line(")"), "1 (x) S", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
		if err != nil {
			return
		}
		again, err := parse(fmt.Sprintf("1 (x) %s %d%s %s", []byte{got.State}, got.Parent, strings.Repeat(" 0", 17), got.Started))
		if err != nil || again != got {
			t.Fatalf("%q is %+v, and that is %+v, %v", s, got, again, err)
		}
	})
}
