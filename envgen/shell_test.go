package envgen

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestShellLeavesKeptValuesAlone(t *testing.T) {
	got, err := Shell(Plan{{Name: "A", Value: "=eth0"}, {Name: "B", Value: "x", Kept: true, User: "y"}, {Name: "C", Value: "10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("export A='=eth0';\nexport C=10.0.0.0/24;\n", got); diff != "" {
		t.Errorf("Shell (-want +got):\n%s", diff)
	}
}

func TestShellRefusesWhatPOSIXCannotQuote(t *testing.T) {
	if got, err := Shell(Plan{{Name: "A", Value: "a\x01b"}}); err == nil {
		t.Errorf("Shell = %q, want an error", got)
	}
}

// Whatever the value, sh ends up with exactly it in the environment, and
// nothing else runs.
func TestShellSurvivesARealShell(t *testing.T) {
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip("no env program here")
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune(`'"\$`+"`"+`!*?[]{}();|&<>~#= ^%,:-a0é`)), rapid.Rune())).Draw(t, "value")
		script, err := Shell(Plan{{Name: "LAUNCH_TEST_A", Value: value}, {Name: "LAUNCH_TEST_B", Value: "end"}})
		if err != nil {
			t.Skip("not quotable")
		}
		cmd := exec.Command("sh", "-c", `eval "$1"; exec "$2" -0`, "sh", script, env)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("sh: %v on %q", err, script)
		}
		got := map[string]string{}
		for entry := range strings.SplitSeq(string(out), "\x00") {
			if name, v, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "LAUNCH_TEST_") {
				got[name] = v
			}
		}
		if diff := cmp.Diff(map[string]string{"LAUNCH_TEST_A": value, "LAUNCH_TEST_B": "end"}, got); diff != "" {
			t.Fatalf("environment (-want +got):\n%s", diff)
		}
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("a value was executed: it made %v", left)
	}
}
