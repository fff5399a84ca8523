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
// other nodes wait for it. Errors wrap ErrNotFound or ErrNotExecutable, and an *fs.PathError where a file or folder is
// the reason: with the Op OpEnter for a folder that this user may not enter.
func LookPath(name string, env []string) (string, error) {
	path, _, err := search(name, env)
	return path, err
}

// PassedOver returns why an earlier folder of PATH does not decide what LookPath returns, although the program is in
// it: the link there leads where this user may not enter. It is nil where there is no such folder.
func PassedOver(name string, env []string) error {
	_, passed, _ := search(name, env)
	return passed
}

// OpEnter is the Op of an *fs.PathError about a folder that this user may not enter.
const OpEnter = "enter"

// search is LookPath, and PassedOver.
func search(name string, env []string) (found string, passed, err error) {
	if name == "" {
		return "", nil, fmt.Errorf("empty command name: %w", ErrNotFound)
	}
	if strings.Contains(name, "/") {
		if err := runnable(name); err != nil {
			return "", nil, err
		}
		return name, nil, nil
	}
	path, set := defaultPath, false
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok && !set {
			path, set = v, true
		}
	}
	var denied, barred error
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "." // POSIX: an empty element is the working directory
		}
		file := d + "/" + name
		if _, err := os.Stat(file); err != nil { // it does not exist, or a folder on the way to it is not accessible
			if at := Barred(file); at != "" && errors.Is(err, fs.ErrPermission) {
				barred = cmp.Or(barred, enter(at, ErrNotFound, "%q may be in %s, which leads through %s", name, d, at))
				if _, err := os.Lstat(file); err == nil {
					passed = cmp.Or(passed, enter(at, ErrNotExecutable, "%q leads through %s", file, at))
				}
			}
			continue
		}
		err := runnable(file)
		if err == nil {
			return file, passed, nil
		}
		if e, is := errors.AsType[*unfitError](err); is && e.content {
			return "", passed, err // a shell would run this file and no other
		}
		denied = cmp.Or(denied, err)
	}
	if err := cmp.Or(denied, passed, barred); err != nil {
		return "", passed, err
	}
	from := "PATH"
	if !set {
		from = "default path, PATH is not set"
	}
	return "", nil, fmt.Errorf("%q is in no directory of %s (looked in %s): %w",
		name, from, strings.ReplaceAll(path, ":", ", "), ErrNotFound)
}

// unfitError: a file or a folder is why a command does not run.
type unfitError struct {
	text    string
	kind    error // ErrNotFound or ErrNotExecutable
	at      *fs.PathError
	content bool // the user may execute the file, but its content cannot run
}

func (e *unfitError) Error() string   { return fmt.Sprintf("%s: %v", e.text, e.kind) }
func (e *unfitError) Unwrap() []error { return []error{e.kind, e.at} }

// enter returns the error about a folder that this user may not enter.
func enter(folder string, kind error, format string, args ...any) error {
	return &unfitError{text: fmt.Sprintf(format, args...) + ", and this user may not enter that folder", kind: kind,
		at: notEntered(folder)}
}

// notEntered is no fs.ErrPermission: a program that is not found is not one that may not be executed.
func notEntered(folder string) *fs.PathError {
	return &fs.PathError{Op: OpEnter, Path: folder, Err: errors.New("this user may not")}
}

// unfitFile returns the error about a file that does not run.
func unfitFile(path, format string, args ...any) *unfitError {
	return &unfitError{text: fmt.Sprintf(format, args...), kind: ErrNotExecutable,
		at: &fs.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}}
}

// runnable returns nil if the kernel would run the file path.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%q does not exist: %w", path, ErrNotFound)
	case err != nil:
		if at := Barred(path); at != "" {
			return enter(at, ErrNotExecutable, "the way to %q leads through %s", path, at)
		}
		return unfitFile(path, "%q cannot be inspected (%v)", path, err)
	case info.IsDir():
		return unfitFile(path, "%q is a directory", path)
	case !info.Mode().IsRegular():
		return unfitFile(path, "%q is not a regular file (%s)", path, info.Mode().Type())
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		var st unix.Statfs_t
		if unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0 {
			return unfitFile(path, "%q is on a file system that is mounted noexec (findmnt -T %[1]s)", path)
		}
		return unfitFile(path, "%q has mode %s and may not be executed here (%v)", path, info.Mode(), err)
	}
	why, at := unfit(path)
	if why == "" {
		return nil
	}
	e := unfitFile(path, "%q %s", path, why)
	if e.content = true; at != nil {
		e.at = at
	}
	return e
}

// unfit returns why the kernel and then a shell would refuse the content of an executable file. It
// returns "" if the file cannot be read: execute permission is enough to run a program. at is another file or folder
// that is the reason.
func unfit(file string) (why string, at *fs.PathError) {
	head := readHead(file)
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return badInterpreter(head)
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return badELF(file), nil
	case !isText(head):
		return "is neither a program nor a script (exec format error)", nil
	}
	return "", nil
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

// badInterpreter returns why the interpreter of a script's first line does not run.
func badInterpreter(head []byte) (why string, at *fs.PathError) {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	interp, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	interp, _, _ = strings.Cut(interp, "\t")
	if interp == "" {
		return "", nil // the kernel refuses it, a shell then runs it
	}
	needs := fmt.Sprintf("needs the interpreter %q", interp)
	_, err := os.Stat(interp)
	folder := ""
	if errors.Is(err, fs.ErrPermission) {
		folder = Barred(interp)
	}
	switch {
	case err == nil && unix.Faccessat(unix.AT_FDCWD, interp, unix.X_OK, unix.AT_EACCESS) == unix.EACCES:
		return needs + ", which this user may not execute",
			&fs.PathError{Op: "execute", Path: interp, Err: fs.ErrPermission}
	case err == nil:
		return "", nil
	case strings.HasSuffix(interp, "\r"):
		return needs + ", whose name ends in a carriage return: the file has Windows line endings", nil
	case folder != "":
		return fmt.Sprintf("%s, the way to that leads through %s, and this user may not enter that folder", needs, folder),
			notEntered(folder)
	}
	return fmt.Sprintf("%s: %v", needs, errors.Unwrap(err)), nil
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
