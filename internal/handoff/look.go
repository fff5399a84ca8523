package handoff

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The two reasons why a command cannot run, as a shell distinguishes them.
var (
	ErrNotFound      = errors.New("command not found")      // exit status 127
	ErrNotExecutable = errors.New("command not executable") // exit status 126
)

// defaultPath is where execvp(3) looks if PATH is not set.
const defaultPath = "/bin:/usr/bin"

// LookPath returns the file that a shell would run for name: name itself if it has a slash, else
// the first executable of that name in the PATH of env. The path is relative if PATH is.
//
// It also reads the start of the file, so that a node whose command cannot start fails before the
// other nodes wait for it. Errors wrap ErrNotFound or ErrNotExecutable.
func LookPath(name string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("empty command name: %w", ErrNotFound)
	}
	if strings.Contains(name, "/") {
		if err := runnable(name); err != nil {
			return "", err
		}
		return name, nil
	}
	path, set := defaultPath, false
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok && !set {
			path, set = v, true
		}
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "." // POSIX: an empty element is the working directory
		}
		file := d + "/" + name
		if _, err := os.Stat(file); err != nil {
			continue // it does not exist, or its directory is not accessible
		}
		err := runnable(file)
		if err == nil {
			return file, nil
		}
		if _, chosen := errors.AsType[*contentError](err); chosen {
			return "", err // a shell would run this file and no other
		}
		denied = cmp.Or(denied, err)
	}
	if denied != nil {
		return "", denied
	}
	from := "PATH"
	if !set {
		from = "default path, PATH is not set"
	}
	return "", fmt.Errorf("%q is in no directory of %s (looked in %s): %w",
		name, from, strings.ReplaceAll(path, ":", ", "), ErrNotFound)
}

// contentError: the user may execute a file, but its content cannot run.
type contentError struct{ path, why string }

func (e *contentError) Error() string {
	return fmt.Sprintf("%q %s: %v", e.path, e.why, ErrNotExecutable)
}
func (e *contentError) Unwrap() error { return ErrNotExecutable }

// runnable returns nil if the kernel would run the file path.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%q does not exist: %w", path, ErrNotFound)
	case err != nil:
		return fmt.Errorf("%q cannot be inspected (%v): %w", path, err, ErrNotExecutable)
	case info.IsDir():
		return fmt.Errorf("%q is a directory: %w", path, ErrNotExecutable)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%q is not a regular file (%s): %w", path, info.Mode().Type(), ErrNotExecutable)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		var st unix.Statfs_t
		if unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0 {
			return fmt.Errorf("%q is on a file system that is mounted noexec (findmnt -T %[1]s): %w", path, ErrNotExecutable)
		}
		return fmt.Errorf("%q has mode %s and may not be executed here (%v): %w",
			path, info.Mode(), err, ErrNotExecutable)
	}
	if why := unfit(path); why != "" {
		return &contentError{path, why}
	}
	return nil
}

// unfit returns why the kernel and then a shell would refuse the content of an executable file. It
// returns "" if the file cannot be read: execute permission is enough to run a program.
func unfit(file string) string {
	head := readHead(file)
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return badInterpreter(head)
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return badELF(file)
	case !isText(head):
		return "is neither a program nor a script (exec format error)"
	}
	return ""
}

// readHead returns the start of a file, as much as the kernel reads (BINPRM_BUF_SIZE).
func readHead(file string) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

// isText reports whether a shell would run a file without "#!": its first line has no zero byte.
func isText(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.IndexByte(line, 0) < 0
}

// isScript reports whether a file that the kernel refuses is for a shell.
func isScript(file string) bool {
	head := readHead(file)
	return !bytes.HasPrefix(head, []byte(elf.ELFMAG)) && isText(head)
}

func badInterpreter(head []byte) string {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	interp, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	interp, _, _ = strings.Cut(interp, "\t")
	if interp == "" {
		return "" // the kernel refuses it, a shell then runs it
	}
	_, err := os.Stat(interp)
	switch {
	case err == nil:
		return ""
	case strings.HasSuffix(interp, "\r"):
		return fmt.Sprintf("needs the interpreter %q, whose name ends in a carriage return: "+
			"the file has Windows line endings", interp)
	}
	return fmt.Sprintf("needs the interpreter %q: %v", interp, errors.Unwrap(err))
}

// badELF returns why a program cannot run: it is for another machine, or its
// dynamic loader does not exist (it was built for another C library).
func badELF(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return "" // unknown: packed programs run with invalid headers
	}
	defer f.Close()
	fits := map[string][]elf.Machine{ // 32-bit programs run if the kernel allows
		"amd64": {elf.EM_X86_64, elf.EM_386},
		"arm64": {elf.EM_AARCH64, elf.EM_ARM},
	}[runtime.GOARCH]
	if fits != nil && f.Machine != fits[0] && f.Machine != fits[1] && !emulates() {
		return fmt.Sprintf("is for %s, this machine is %s (exec format error)", f.Machine, fits[0])
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > unix.PathMax {
			continue
		}
		b, err := io.ReadAll(p.Open())
		loader := strings.TrimRight(string(b), "\x00")
		if _, statErr := os.Stat(loader); err == nil && errors.Is(statErr, fs.ErrNotExist) {
			return fmt.Sprintf("needs the loader %q, which does not exist", loader)
		}
	}
	return ""
}

// emulates reports whether the kernel is set up to run foreign programs.
func emulates() bool {
	entries, _ := os.ReadDir("/proc/sys/fs/binfmt_misc")
	return len(entries) > 2 // register and status always exist
}

// explain returns the error of an exec of path in the terms of LookPath.
func explain(path string, err error) error {
	if lookErr := runnable(path); lookErr != nil {
		return lookErr
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%q: %w", path, ErrNotFound)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EPERM),
		errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("%q cannot be executed (%v): %w", path, err, ErrNotExecutable)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("execute %q: the arguments and the environment are too long: %w", path, err)
	}
	return fmt.Errorf("execute %q: %w", path, err)
}
