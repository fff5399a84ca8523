package roce

import (
	"os"
	"testing"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// TestMain makes of this binary what runs in the machines too: as init's only
// job an agent, and below that the children of fabric/verbs.
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
