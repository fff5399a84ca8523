package start

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"launch/internal/hostlist"
	"launch/internal/launcher"
)

// maxHosts bounds a list of hosts, in bytes: a million hosts.
const maxHosts = 64 << 20

// copyHosts gives mpirun a list of hosts that can be read only once, a pipe such as that of <(command), in memory, so
// that launch can read it, too. It reports whether the line has changed.
func (s *Start) copyHosts(ctx context.Context) (changed bool) {
	l := s.Job.Line
	if l.Kind != launcher.Mpirun || s.Machine != nil {
		return false
	}
	for _, o := range l.Options {
		list := o.Name == "hostfile" || o.Name == "default-hostfile"
		if !list || o.Value == "" || !hostlist.Once(s.root(), absolute(o.Value)) {
			continue
		}
		file, err := inMemory(ctx, o.Value)
		if err != nil {
			continue // launch does not read it
		}
		at := o.At + o.Words - 1 // the word with the value, perhaps after "="
		if !changed {
			s.argv, changed = slices.Clone(s.argv), true
		}
		s.argv[at] = strings.TrimSuffix(s.argv[at], o.Value) + file
	}
	return changed
}

// absolute returns the path of a file below the root.
func absolute(name string) string {
	if !path.IsAbs(name) {
		dir, _ := os.Getwd()
		name = path.Join(dir, name)
	}
	return strings.TrimPrefix(path.Clean(name), "/")
}

// inMemory copies what a file has into memory, and returns a path at which this process and the command that it becomes
// read it as often as they like.
func inMemory(ctx context.Context, name string) (file string, err error) {
	type content struct {
		text []byte
		err  error
	}
	read := make(chan content, 1)
	go func() { // nothing may ever be written there
		f, err := os.Open(name)
		if err != nil {
			read <- content{err: err}
			return
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxHosts))
		read <- content{text, err}
	}()
	var got content
	select {
	case got = <-read:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if got.err != nil {
		return "", got.err
	}
	fd, err := unix.MemfdCreate("hosts", 0) // the command inherits it
	if err != nil {
		return "", err
	}
	for text := got.text; len(text) > 0; {
		n, err := unix.Write(fd, text)
		if err != nil {
			unix.Close(fd)
			return "", err
		}
		text = text[n:]
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}
