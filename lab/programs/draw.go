package programs

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// Full reports whether LAUNCH_TEST_FULL asks for all cases of the tests that otherwise draw some.
func Full() bool { return os.Getenv("LAUNCH_TEST_FULL") != "" }

// Draw returns the indices of the cases that run, in order: of each group the one case that it draws, or all with
// LAUNCH_TEST_FULL. The test logs them.
func Draw(t *testing.T, cases int, group func(i int) string) []int {
	t.Helper()
	all := make([]int, cases)
	for i := range all {
		all[i] = i
	}
	if Full() {
		return all
	}
	drawn := map[string]bool{}
	var part []int
	for _, i := range rand.Perm(cases) {
		if g := group(i); !drawn[g] {
			drawn[g] = true
			part = append(part, i)
		}
	}
	slices.Sort(part)
	t.Logf("the cases %v of %d, drawn anew in each run; LAUNCH_TEST_FULL=1 runs all", part, cases)
	return part
}
