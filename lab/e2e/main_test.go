package e2e

import (
	"os"
	"testing"

	"launch/lab/programs"
)

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch string
	fake   string // a directory with the stand-in under the name torchrun
}

func TestMain(m *testing.M) {
	if err := programs.Become(); err != nil {
		panic(err)
	}
	if file := os.Getenv(zoneFile); file != "" {
		panic(serveZone(file))
	}
	os.Exit(programs.Run(m, func(dir string) (err error) {
		tools.launch, tools.fake, err = programs.Build(dir)
		return err
	}))
}
