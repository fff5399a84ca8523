package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"launch/internal/job"
	"launch/preflight"
)

// history is what --history says of this node's rails; none where there is no
// such file yet.
func (a *app) history(host string) ([]preflight.PastRate, error) {
	if a.o.history == "" {
		return nil, nil
	}
	f, err := os.Open(a.o.history)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		defer f.Close()
		was, err := preflight.ReadHistory(f, host)
		if err == nil {
			return was, nil
		}
	}
	return nil, a.noHistory(err)
}

func (a *app) noHistory(err error) error {
	return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s: %v", a.o.from("history"), err), Fix: "--history names a file that can be read and written"}
}

// remember appends a line for each of this node's rails, in one write: the file
// may be one of several nodes.
func (a *app) remember(past []preflight.PastRate) error {
	if a.o.history == "" {
		return nil
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, p := range past {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(a.o.history, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = f.Write(lines.Bytes())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return a.noHistory(err)
	}
	return nil
}
