package launchers

import (
	"os"
	"testing"

	"launch/lab/programs"
)

// launchBin is the program under test; TestMain makes it once.
var launchBin string

func TestMain(m *testing.M) {
	os.Exit(programs.Run(m, func(dir string) (err error) {
		launchBin, _, err = programs.Build(dir)
		return err
	}))
}
