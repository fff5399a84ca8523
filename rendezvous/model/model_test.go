package model

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const faults = "CRASH PAUSE LOST QUIT "

// holds are the configurations in which all properties hold. LIVE also looks
// for runs without end.
var holds = map[string]string{
	"TwoFaults":               faults + "FAULTS=2",
	"StartedTwice":            "BESIDE FAULTS=1",
	"OneTooMany":              faults + "FAULTS=1 SIZE=2",
	"EmptyStore":              "WIPE FAULTS=1",
	"EmptyStoreAndOneTooMany": "WIPE FAULTS=1 SIZE=2",
	"Ends":                    faults + "FAULTS=1 LIVE",
	"EndsStartedTwice":        "BESIDE FAULTS=1 LIVE",
	"EndsOneTooMany":          faults + "FAULTS=1 SIZE=2 LIVE",
	"EndsEmptyStore":          "WIPE FAULTS=1 SIZE=2 LIVE",
	// Guards that nothing here depends on; README.md says why.
	"WithoutLeaderCreate":  faults + "FAULTS=1 SIZE=2 MUT_LEADER_CREATE",
	"WithoutSealUnchanged": faults + "FAULTS=1 SIZE=2 MUT_SEAL_UNCHANGED",
	"WithoutPostLease":     faults + "FAULTS=1 SIZE=2 MUT_POST_LEASE",
	"Runs":                 "RUNS",
	"WithoutPostEpoch":     faults + "FAULTS=1 SIZE=2 MUT_POST_EPOCH",
}

// breaks are those in which one must not, with what spin says of it.
var breaks = map[string]struct{ defs, says string }{
	"Leader":       {"MUT_LEADER BESIDE FAULTS=1 NODES=2 SIZE=2 LIVE", "non-progress cycle"},
	"LeaderLease":  {"MUT_LEADER_LEASE WIPE FAULTS=1 SIZE=2", "assertion violated"},
	"Epoch":        {"MUT_EPOCH BESIDE FAULTS=1", "sealedOnce"},
	"PlaceID":      {"MUT_PLACE_ID CRASH FAULTS=1", "joined"},
	"Number":       {"MUT_NUMBER WIPE FAULTS=1", "seen<"},
	"GoUnchanged":  {"MUT_GO_UNCHANGED " + faults + "FAULTS=1", "mk["},
	"GoVoid":       {"MUT_GO_VOID QUIT FAULTS=1", "gaveUp"},
	"VoidLease":    {"MUT_VOID_LEASE LOST QUIT FAULTS=2", "gaveUp"},
	"Withdraw":     {"MUT_WITHDRAW QUIT FAULTS=1", "gaveUp"},
	"RunAnyMember": {"RUNS MUT_ANY_MEMBER", "part"},
	"RunCompare":   {"RUNS MUT_COMPARE", "part"},
	"RunClaim":     {"RUNS MUT_CLAIM", "over["},
	"RunEnded":     {"RUNS MUT_ENDED", "over["},
	"RunLast":      {"RUNS MUT_LAST", "over["},
	"RunOutside":   {"RUNS MUT_OUTSIDE", "over["},
	// Not broken guards, but what must be found so that the rest says anything.
	"Reach": {"REACH CRASH FAULTS=2", "eN<="},
	"Blind": {"BLIND QUIT FAULTS=1", "gaveUp"},
}

func TestProperties(t *testing.T) {
	for name, defs := range holds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := check(t, defs)
			if n := errorsOf(t, out); n != 0 {
				t.Errorf("%s: %d errors, want 0\n%s", defs, n, out)
			}
			for _, partial := range []string{"depth too small", "out of memory", "Interrupted", "not completed"} {
				if strings.Contains(out, partial) {
					t.Errorf("%s: not exhaustive: %s\n%s", defs, partial, out)
				}
			}
		})
	}
}

func TestEachBrokenGuardIsFound(t *testing.T) {
	for name, c := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := check(t, c.defs)
			if n := errorsOf(t, out); n == 0 || !strings.Contains(out, c.says) {
				t.Errorf("%s: %d errors, want one of %q\n%s", c.defs, n, c.says, out)
			}
		})
	}
}

var counted = regexp.MustCompile(`errors: (\d+)`)

func errorsOf(t *testing.T, out string) int {
	m := counted.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("the checker did not come to an end:\n%s", out)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// check makes the checker of one configuration, runs it to its end and returns
// what it says. With RUNS it is that of run.pml.
func check(t *testing.T, defs string) string {
	t.Helper()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	file := "rendezvous.pml"
	if strings.Contains(defs, "RUNS") {
		file = "run.pml"
	}
	model, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), model, 0o644); err != nil {
		t.Fatal(err)
	}
	// The whole of every state: no reduction by what commutes, and no hashes.
	spin, gcc, pan := []string{"-a"}, []string{"-O1", "-w", "-DCOLLAPSE", "-DNOREDUCE",
		"-DMEMLIM=4000"}, []string{"-m100000"}
	for _, d := range strings.Fields(defs) {
		spin = append(spin, "-D"+d)
	}
	if strings.Contains(defs, "LIVE") {
		gcc, pan = append(gcc, "-DNP", "-DNOFAIR"), append(pan, "-l")
	} else {
		gcc = append(gcc, "-DSAFETY")
	}
	run(t, dir, "spin", append(spin, file)...)
	run(t, dir, "gcc", append(gcc, "-o", "pan", "pan.c")...)
	return run(t, dir, filepath.Join(dir, "pan"), pan...)
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}
