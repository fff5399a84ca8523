// Command launch is one word before torchrun or mpirun: it checks what would
// make the job hang, agrees on ranks, sets what the libraries would get wrong,
// and becomes the command.
package main

import (
	"io"
	"maps"
	"os"

	"launch/cmd/internal/companion"
	"launch/fabric"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
	"launch/internal/handoff"
)

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run is launch, or one of the children that it starts of itself. It returns the
// exit status.
func run(args []string, stdout, stderr io.Writer) int {
	if code, ok := child.Dispatch(children()); ok {
		return code
	}
	return newApp(stdout, stderr).run(args[1:])
}

// children returns the functions that launch runs in processes of their own.
func children() child.Table {
	t := child.Table{companion.Name: companion.Main, handoff.StageName: handoff.Stage, metricsChild: readMetrics}
	maps.Copy(t, fabric.Children())
	maps.Copy(t, confine.Children())
	return t
}
