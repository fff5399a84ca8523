package start

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"launch/internal/finding"
)

// A list of hosts that can be read once is read by launch and by mpirun; a file remains where it is.
func TestAPipeOfHostsIsReadByBoth(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const text = "h1 slots=2\nh2 slots=2\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"mpirun", "--hostfile", pipe, "./a"}, {"mpirun", "--hostfile=" + pipe, "./a"}, {"mpirun", "--hostfile", file, "./a"},
	} {
		s := mpirunStart(t, "", words...)
		s.argv = words
		once := words[len(words)-2] != file
		if once {
			go func() { _ = os.WriteFile(pipe, []byte(text), 0o600) }()
		}
		if s.copyHosts(t.Context()) != once {
			t.Fatalf("%q became %q", words, s.argv)
		}
		if err := s.ResolveJob(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(s.Job.Line.Hostfile.Value)
		if err != nil || string(got) != text || finding.Some(s.Job.Hosts) != "h1, h2" {
			t.Errorf("%q: %q %v, %q", s.argv, got, err, s.Job.Hosts)
		}
	}
}

// Nothing may ever be written to a pipe: the wait ends with Ctrl-C, and a writer that begins just then does no harm.
func TestTheWaitForAPipeOfHostsEnds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cut := context.WithCancel(t.Context())
		cut()
		if file, err := inMemory(ctx, pipe); err == nil {
			t.Errorf("%s", file)
		}
		f, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
}
