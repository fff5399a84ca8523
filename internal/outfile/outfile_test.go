package outfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func has(t *testing.T, name, want string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil || string(b) != want {
		t.Errorf("%s: %q, %v; want %q", name, b, err, want)
	}
}

func TestAFileIsReplacedWithItsMode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	must(t, Write(file, []byte("one")))
	has(t, file, "one")
	must(t, os.Chmod(file, 0o640))
	old, err := os.Open(file)
	must(t, err)
	defer old.Close()
	must(t, Write(file, []byte("two")))
	has(t, file, "two")
	if b, _ := io.ReadAll(old); string(b) != "one" {
		t.Errorf("who reads the old file sees %q", b)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestAPrivateFileIsReadableByItsUserAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle")
	for range 2 { // new, and in place of one that all may read
		must(t, WritePrivate(file, []byte("x")))
		has(t, file, "x")
		if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		must(t, os.Chmod(file, 0o644))
	}
	must(t, WritePrivate("/dev/null", []byte("x")))
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a file of another user")
	}
	must(t, os.Chown(file, 65534, 65534))
	if err := WritePrivate(file, []byte("y")); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v", err)
	}
	has(t, file, "x")
}

func TestAnErrorNamesTheFileThatWasAskedFor(t *testing.T) {
	err := Write("no/such/folder/x.json", nil)
	if err == nil || err.Error() != "open no/such/folder/x.json: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestOwnLinksPipesAndAppending(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.Symlink("file", link))
	must(t, Write(link, []byte("by a link\n")))
	has(t, file, "by a link\n")
	f, err := Append(link)
	must(t, err)
	_, err = f.WriteString("more\n")
	must(t, err)
	must(t, f.Close())
	has(t, file, "by a link\nmore\n")
	must(t, Write("/dev/null", []byte("x")))
	must(t, os.Remove(file))
	must(t, os.Symlink("link", file))
	if err := Write(file, nil); err == nil {
		t.Error("a circle of links is written to")
	}
}

// Another user leads a name in a common folder to a file that only this user may write.
func TestAnotherUsersLinkIsNotFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make another user's link")
	}
	dir := t.TempDir()
	treasure, link := filepath.Join(dir, "treasure"), filepath.Join(dir, "page.html")
	must(t, os.WriteFile(treasure, []byte("gold"), 0o600))
	must(t, os.Symlink(treasure, link))
	must(t, unix.Lchown(link, 65534, 65534))
	if err := Write(link, []byte("x")); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v", err)
	}
	if _, err := Append(link); err == nil {
		t.Error("appended to")
	}
	has(t, treasure, "gold")
}

// A file in a folder in which this user may make none is written in place, as one that is mounted alone.
func TestAFileInAFolderWithoutRoomForAnotherIsWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a file")
	}
	dir := t.TempDir()
	file, source := filepath.Join(dir, "file"), filepath.Join(t.TempDir(), "source")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.WriteFile(source, []byte("long text"), 0o600))
	must(t, unix.Mount(source, file, "", unix.MS_BIND, ""))
	defer unix.Unmount(file, 0)
	must(t, Write(file, []byte("short")))
	has(t, source, "short")
}

// Without a reader a pipe is an error; with one it gets the text.
func TestAPipeWithoutAReaderIsAnError(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(pipe, 0o600))
	in := make(chan error, 2)
	go func() {
		in <- Write(pipe, []byte("x"))
		_, err := Append(pipe)
		in <- err
	}()
	for _, want := range []string{"no process reads", "it is a pipe"} {
		select {
		case err := <-in:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it waits for a reader")
		}
	}
	r, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer r.Close()
	must(t, Write(pipe, []byte("text")))
	if b, err := io.ReadAll(r); err != nil || string(b) != "text" {
		t.Errorf("the reader got %q, %v", b, err)
	}
}
