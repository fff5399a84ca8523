package roce

import (
	"os"
	"testing"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// TestMain makes this binary run in the machines too: as init's only job an agent, and
// below it the children of confine.
func TestMain(m *testing.M) {
	table := confine.Children()
	table["verbs-ask"] = verbs.Child
	table[raceChild] = race
	if code, isChild := child.Dispatch(table); isChild {
		os.Exit(code)
	}
	if os.Getenv(varAgent) != "" {
		os.Exit(agent())
	}
	os.Exit(m.Run())
}
