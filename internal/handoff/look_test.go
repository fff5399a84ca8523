package handoff

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// foreign is the head of a program for a machine that this is not.
func foreign(t *testing.T) string {
	t.Helper()
	h := elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_S390),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64, Phentsize: 56, Shentsize: 64,
	}
	b, err := binary.Append(nil, binary.LittleEndian, h)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLookPathFindsWhatAShellWouldRun(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir+"/one/tool", "#!/bin/sh\n", 0o755)
	write(t, dir+"/two/tool", "#!/bin/sh\n", 0o755)
	write(t, dir+"/plain/tool", "#!/bin/sh\n", 0o644)
	write(t, dir+"/dirs/tool/x", "", 0o644)
	write(t, dir+"/cr/tool", "#!/bin/sh\r\n", 0o755)
	write(t, dir+"/gone/tool", "#!/no/such/python3 -u\n", 0o755)
	write(t, dir+"/bare/tool", "echo hi\n", 0o755)
	write(t, dir+"/noise/tool", "\x01\x00\n", 0o755)
	write(t, dir+"/foreign/tool", foreign(t), 0o755)
	write(t, dir+"/libc/tool", loaderless(t), 0o755)
	for _, tc := range []struct {
		name, path string // path: PATH, or "unset"
		want       string
		err        error
		says       string
	}{
		{"tool", "one:two", "one/tool", nil, ""},
		{"tool", dir + "/none:" + dir + "/two:one", dir + "/two/tool", nil, ""},
		{"tool", "plain:dirs:two", "two/tool", nil, ""},
		{"tool", "bare", "bare/tool", nil, ""},
		{"./one/tool", "", "./one/tool", nil, ""},
		{"one/tool", "two", "one/tool", nil, ""},
		{dir + "/one/tool", "", dir + "/one/tool", nil, ""},
		{"sh", "unset", "/bin/sh", nil, ""},
		{"tool", "", "", ErrNotFound, `"tool"`},
		{"tool", "none:/nowhere", "", ErrNotFound, "none, /nowhere"},
		{"tool", "unset", "", ErrNotFound, "PATH is not set"},
		{"./tool", "one", "", ErrNotFound, `"./tool" does not exist`},
		{"one/tool/x", "", "", ErrNotFound, ""},
		{"", "one", "", ErrNotFound, "empty"},
		{"tool", "plain:none", "", ErrNotExecutable, "-rw-r--r--"},
		{"tool", "dirs", "", ErrNotExecutable, "directory"},
		{"/dev/null", "", "", ErrNotExecutable, "regular"},
		{"tool", "cr:two", "", ErrNotExecutable, "Windows"},
		{"tool", "gone:two", "", ErrNotExecutable, `"/no/such/python3"`},
		{"./noise/tool", "", "", ErrNotExecutable, "exec format"},
		{"./libc/tool", "", "", ErrNotExecutable, `"/lib/ld-of-another-libc.so.1"`},
		{"./foreign/tool", "", "", ErrNotExecutable, "EM_S390"},
	} {
		t.Run(tc.name+" in "+tc.path, func(t *testing.T) {
			if strings.Contains(tc.name, "foreign") && emulates() {
				t.Skip("this kernel may run foreign programs")
			}
			env := []string{"X=y", "PATH=" + tc.path, "PATH=ignored"}
			if tc.path == "unset" {
				env = nil
			}
			got, err := LookPath(tc.name, env)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Fatalf("got %q, %v, want %q, %v", got, err, tc.want, tc.err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
}

func TestLookPathTakesTheEmptyElementForTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/tool", "#!/bin/sh\n", 0o755)
	t.Chdir(dir)
	for _, path := range []string{":/bin", "/nowhere:", "/nowhere::/bin", "."} {
		if got, err := LookPath("tool", []string{"PATH=" + path}); got != "./tool" || err != nil {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}

// loaderless is a program of this machine for a C library that is not here.
func loaderless(t *testing.T) string {
	t.Helper()
	machine, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if !ok {
		t.Skip("no program for " + runtime.GOARCH)
	}
	const loader = "/lib/ld-of-another-libc.so.1\x00"
	b, err := binary.Append(nil, binary.LittleEndian, elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(machine),
		Version: uint32(elf.EV_CURRENT),
		Phoff:   64, Phnum: 1,
		Ehsize: 64, Phentsize: 56, Shentsize: 64,
	})
	if err == nil {
		b, err = binary.Append(b, binary.LittleEndian, elf.Prog64{
			Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(loader)), Memsz: uint64(len(loader)),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + loader
}

func FuzzUnfit(f *testing.F) {
	for _, s := range []string{"", "#!", "#! \n", "#!/bin/sh", "#!/bin/sh\r\n", "\x7fELF", "\x00", "echo"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "f")
		write(t, file, string(content), 0o755)
		why, _ := unfit(file)
		if strings.HasPrefix(string(content), "#!/bin/sh\n") && why != "" {
			t.Errorf("a shell script is unfit: it %s", why)
		}
		if strings.ContainsAny(why, "\n\x00") {
			t.Errorf("more than a line: %q", why)
		}
	})
}

func TestAProgramOnAFileSystemWithoutExec(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		t.Skipf("needs root, to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	file := filepath.Join(dir, "run.sh")
	write(t, file, "#!/bin/sh\n", 0o755)
	if err := runnable(file); !errors.Is(err, ErrNotExecutable) || !strings.Contains(err.Error(), "mounted noexec") {
		t.Errorf("%v", err)
	}
}
