package mpi

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"launch/lab/programs"
)

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch string
}

// asked has the words of LAUNCH_MPIBENCH: full; plain or launch, for one side; missing, for what has no result
// yet; else names of cases.
var asked []string

const (
	plainSide  = "plain"
	launchSide = "launch"
	checkSide  = "launch check --" // the line is not started
)

func TestMain(m *testing.M) {
	if words := os.Getenv("LAUNCH_MPIBENCH"); words != "" {
		asked = strings.Split(words, ",")
	}
	code := programs.Run(m, func(dir string) (err error) {
		if len(asked) > 0 {
			_ = flag.Set("test.parallel", "4")
		}
		tools.launch, err = programs.Launch(dir)
		return err
	})
	if len(asked) > 0 {
		printTable(os.Stdout)
	}
	os.Exit(code)
}

// sides returns the sides of the comparison that run.
func sides() []string {
	both := []string{plainSide, launchSide}
	if len(asked) == 0 {
		return []string{launchSide}
	}
	for _, side := range both {
		if slices.Contains(asked, side) {
			return []string{side}
		}
	}
	return both
}

// chosen reports whether a case runs.
func chosen(name string, short bool) bool {
	if len(asked) == 0 {
		return short
	}
	names := slices.DeleteFunc(slices.Clone(asked), func(s string) bool {
		return slices.Contains([]string{plainSide, launchSide, "full", "missing"}, s)
	})
	return len(names) == 0 || slices.Contains(names, dashed(name))
}

// dashed returns a name that is one word, and a file's.
func dashed(name string) string { return strings.NewReplacer(" ", "-", "/", "").Replace(name) }
