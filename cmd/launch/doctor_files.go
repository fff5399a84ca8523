package main

import (
	"errors"
	"os"
	"time"

	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/outfile"
)

// doctorFiles writes the page of --html and the bundle.
func (a *app) doctorFiles(d diagnosed) error {
	if file := a.Opt.HTML; file != "" {
		host, _ := os.Hostname()
		page, err := ui.DoctorHTML(d.Answers, d.Scenes, ui.Outcome{Node: fabric.Node{Hostname: host},
			Version: a.Version, At: time.Now()})
		if err == nil {
			err = outfile.Write(file, page)
		}
		if err != nil {
			return exit.CannotWrite(a.Opt.From("html"), file, err)
		}
	}
	if a.doc.bundle != "" {
		return a.writeBundle(d)
	}
	return nil
}

// doctorFailure returns an error of said that is no exit status of an answer: a watch goes on after an answer.
func doctorFailure(err error) error {
	if _, ok := errors.AsType[ended](err); ok {
		return nil
	}
	return err
}
