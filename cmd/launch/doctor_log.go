package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"launch/diagnose/flight"
	"launch/diagnose/logs"
	"launch/diagnose/verdict"
	"launch/internal/exit"
	"launch/internal/finding"
)

// doctorLog says what the logs of a job tell: the first failure and its cause.
func (a *app) doctorLog(c *cli.Context) error {
	files := c.Args().Slice()
	if len(files) == 0 {
		return exit.Errorf(exit.Usage, "--log needs a file, a folder, or - for standard input").
			Do("launch doctor --log job.log")
	}
	r, err := readLogs(files)
	if err != nil {
		return exit.Errorf(exit.Usage, "--log: %v", err).Do("%s", readable(err))
	}
	if a.UI.JSON() {
		a.UI.Emit(true, "logs", r)
	} else {
		a.UI.Logs(r)
	}
	switch {
	case len(r.Verdicts) > 0:
		return end(doctorHung)
	case len(r.Open) > 0:
		return end(doctorOpen)
	}
	return end(doctorWell)
}

// readLogs reads logs, and the dumps of torch's flight recorder among them.
func readLogs(files []string) (r logs.Reading, err error) {
	dumps, rest := flight.Gather(files)
	if len(rest) > 0 {
		r, err = logs.ReadBut(dumps.Has, os.Stdin, rest...)
	}
	if len(dumps.Dumps) == 0 && (err != nil || len(rest) == 0) {
		if len(dumps.Gaps) > 0 {
			err = fmt.Errorf("%s %s", dumps.Gaps[0].Path, dumps.Gaps[0].Why)
		}
		return r, err
	}
	r.Gaps = slices.DeleteFunc(r.Gaps, func(g logs.Gap) bool { return dumps.Has(g.Path) })
	for _, g := range dumps.Gaps {
		r.Gaps = append(r.Gaps, logs.Gap(g))
	}
	if missing := dumps.Missing(); len(missing) > 0 {
		why := "has no dump of " + finding.Noun(len(missing), "rank") + " " + verdict.Spans(missing)
		r.Gaps = append(r.Gaps, logs.Gap{Path: "flight recorder", Why: why})
	}
	r.Files += len(dumps.Dumps)
	r.Bytes += dumps.Bytes
	found := dumps.Judge()
	if len(found) > 0 && found[0].Sure == verdict.Certain {
		r.Verdicts = append(found, r.Verdicts...)
	} else {
		r.Verdicts = append(r.Verdicts, found...)
	}
	return r, nil
}

func readable(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run it as the user of the job"
	}
	return "launch doctor --log FILE...   # files, folders, gz, or -"
}
