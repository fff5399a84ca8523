package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/preflight/bandwidth"
)

// history is what --history says of this node's rails; none where there is no
// such file yet.
func (a *app) history(host string) ([]bandwidth.PastRate, error) {
	if a.o.history == "" {
		return nil, nil
	}
	f, err := os.Open(a.o.history)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, a.noHistory(err)
	}
	defer f.Close()
	was, others, err := bandwidth.ReadHistory(f, host)
	if err != nil {
		return nil, a.noHistory(err)
	}
	if others > 0 {
		a.ui.Note("%s: %s passed over: no record of launch bench, or one that was cut", a.o.history, ui.Plural(others, "line", "lines"))
	}
	return was, nil
}

func (a *app) noHistory(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // its name is said already
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %s: %v", a.o.from("history"), a.o.history, err),
		Fix: fmt.Sprintf("mv %s %s.old   # a new one is begun then; or name another: --history FILE", a.o.history, a.o.history)}
}

// remember appends a line for each of this node's rails, in one write: the file
// may be one of several nodes.
func (a *app) remember(past []bandwidth.PastRate) error {
	if a.o.history == "" || len(past) == 0 {
		return nil
	}
	f, err := os.OpenFile(a.o.history, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return cannotWrite(a.o.from("history"), a.o.history, err)
	}
	var lines bytes.Buffer
	last := []byte{'\n'}
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		_, _ = f.ReadAt(last, size-1)
	}
	if last[0] != '\n' {
		lines.WriteByte('\n') // the last line was cut, and is not to take the next with it
	}
	enc := json.NewEncoder(&lines)
	for _, p := range past {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	_, err = f.Write(lines.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return cannotWrite(a.o.from("history"), a.o.history, err)
	}
	return nil
}
