package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"launch/fabric"
	"launch/fabric/machine"
	"launch/internal/exit"
	"launch/internal/job"
)

// replay reads the machine of --from. Nothing is started on a node that is not
// this one, and nobody is asked: that is what a dry run promises, too.
func (a *app) replay() error {
	if a.o.recording == "" {
		return nil
	}
	if a.word == "" && !a.o.dryRun {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %s: a start on a recorded node cannot be", a.o.from("from"), a.o.recording), Fix: "launch --dry-run --from " + a.o.recording + " COMMAND"}
	}
	if a.o.record != "" {
		return &exit.Error{Code: exit.Usage, What: "--record and --from: a recording is of this node, or it is already there", Fix: "launch fabric --record FILE"}
	}
	data, err := os.ReadFile(a.o.recording)
	if err == nil {
		a.from, err = machine.Read(data)
	}
	if err != nil {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %s: %v", a.o.from("from"), a.o.recording, err), Fix: "launch fabric --record FILE   # on the node in question"}
	}
	a.o.dryRun = true
	return nil
}

// root is where the files of libraries stand: a recording has none, and this
// machine's would be the wrong ones.
func (a *app) root() fs.FS {
	if a.from != nil {
		return a.from.Roots().Root
	}
	return fabric.Bounded(os.DirFS("/"))
}

// recorded is this node, kept in the file of --record.
func (a *app) recorded(ctx context.Context, j job.Job) (fabric.Node, error) {
	if a.o.record == "" {
		return a.detect(ctx, j), nil
	}
	rec := machine.NewRecorder(fabric.Live())
	n := a.detectLive(ctx, j, rec.Roots())
	data, err := rec.File(n)
	if err == nil {
		err = os.WriteFile(a.o.record, data, 0o666)
	}
	if err != nil {
		return n, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("record this node: %v", err), Fix: "--record names a file in a directory that can be written"}
	}
	a.ui.Note("recorded in %s: host names, addresses, GUIDs and UUIDs in it are not this node's; launch fabric --from %s shows it", a.o.record, a.o.record)
	return n, nil
}
