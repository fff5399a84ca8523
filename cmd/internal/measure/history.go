package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/outfile"

	"launch/preflight/bandwidth"
)

// Past returns the rates of this node's rails from --history; nil: there is no such file.
func (b *Bench) Past(host string) ([]bandwidth.PastRate, error) {
	if b.History == "" {
		return nil, nil
	}
	f, err := os.OpenFile(b.History, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe does not block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, b.noHistory(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return nil, b.noHistory(errors.New("it is a pipe"))
	}
	was, others, err := bandwidth.ReadHistory(f, host)
	if err != nil {
		return nil, b.noHistory(err)
	}
	if others > 0 {
		b.UI.Note("%s: skipped %s: not written by launch bench, or cut off", b.History,
			finding.Plural(others, "line", "lines"))
	}
	return was, nil
}

// noHistory returns the error for a --history that cannot be read.
func (b *Bench) noHistory(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the text has its name already
	}
	return exit.Errorf(exit.Usage, "%s %s: %v", b.From("history"), b.History, err).
		Do("mv %s %s.old   # launch then begins a new file; or choose another: --history FILE", b.History, b.History)
}

// Remember appends a line for each of this node's rails, in one write: several nodes may share the file.
func (b *Bench) Remember(host string, r Result, at time.Time) error {
	past := bandwidth.PastOf(host, r.Self, r.Nodes, r.Own, at)
	if b.History == "" || len(past) == 0 {
		return nil
	}
	f, err := outfile.Append(b.History)
	if err != nil {
		return exit.CannotWrite(b.From("history"), b.History, err)
	}
	var lines bytes.Buffer
	last := []byte{'\n'}
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		_, _ = f.ReadAt(last, size-1)
	}
	if last[0] != '\n' {
		lines.WriteByte('\n') // the last line was cut off: begin a new one
	}
	enc := json.NewEncoder(&lines)
	for _, p := range past {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	_, err = f.Write(lines.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return exit.CannotWrite(b.From("history"), b.History, err)
	}
	return nil
}
