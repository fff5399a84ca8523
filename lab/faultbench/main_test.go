package faultbench

import (
	"os"
	"path/filepath"
	"testing"

	"launch/lab/programs"
)

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch string
	fake   string // a directory with the stand-in under the name torchrun
	script string // what the ranks run
}

// full reports whether all faults run on all sizes, and 200 healthy starts.
var full = os.Getenv("LAUNCH_FAULTBENCH") == "full"

func TestMain(m *testing.M) {
	if what := os.Getenv(assistant); what != "" {
		os.Exit(assistOn(what, os.Args[1]))
	}
	code := programs.Run(m, makeTools)
	print(os.Stdout)
	os.Exit(code)
}

func makeTools(dir string) (err error) {
	if tools.script, err = filepath.Abs("../../examples/train.py"); err != nil {
		return err
	}
	tools.launch, tools.fake, err = programs.Build(dir)
	return err
}
