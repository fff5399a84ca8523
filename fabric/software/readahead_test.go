package software

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen is a file system that records which files are opened.
type seen struct {
	fstest.MapFS
	mu    *sync.Mutex
	names map[string]bool
}

func watched(root fstest.MapFS) seen { return seen{root, &sync.Mutex{}, map[string]bool{}} }

// Open opens a file; a folder does not count.
func (s seen) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if err != nil {
		return f, err
	}
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		s.mu.Lock()
		s.names["/"+name] = true
		s.mu.Unlock()
	}
	return f, nil
}

// found returns what an import of venv's torch reads.
func found(t *testing.T, root fs.FS, script string, env ...string) Import {
	t.Helper()
	cmd := Command{Program: "/env/bin/torchrun", Dir: "/job", Env: env}
	m, ok := Detect(t.Context(), root, cmd).Import(cmd, script)
	if !ok {
		t.Fatal("no torch was found")
	}
	return m
}

const (
	standardLib = "/usr/lib/python3.12/"
	enough      = 1 << 30
)

// importable is a machine with all that an import of torch reads.
func importable(more ...string) fstest.MapFS {
	return venv(append([]string{
		"/usr/bin/python3.12*", elf64(library{needed: []string{"libc.so.6"}}), "/lib64/libc.so.6", elf64(library{}),
		standardLib + "os.py", "source", standardLib + "__pycache__/os.cpython-312.pyc", "code",
		standardLib + "__pycache__/os.cpython-312.opt-1.pyc", "not read",
		standardLib + "__pycache__/os.cpython-311.pyc", "not read",
		standardLib + "json/__init__.py", "source", standardLib + "json/__pycache__/__init__.cpython-312.pyc", "code",
		standardLib + "idlelib/__init__.py", "not read",
		standardLib + "lib-dynload/_ssl.cpython-312.so", elf64(library{needed: []string{"libssl.so.3"}}),
		"/usr/lib64/libssl.so.3", elf64(library{}), standardLib + "lib-dynload/_tkinter.cpython-312.so", elf64(library{}),
		site + "torch/__init__.py", "has no bytecode", site + "torch/nn/modules/x.py", "source",
		site + "torch/nn/modules/__pycache__/x.cpython-312.pyc", "code",
		site + "torch/_inductor/x.py", "not read", site + "torch/testing/_internal/x.py", "not read",
		site + "torch/_C.cpython-312-x86_64-linux-gnu.so",
		elf64(library{needed: []string{"libtorch_python.so"}, runpath: "$ORIGIN/lib"}),
		site + "torch/lib/libtorch_python.so", elf64(library{needed: []string{"libtorch_cuda.so"}, rpath: "$ORIGIN"}),
		site + "torch/lib/libc10.so", elf64(library{}), site + "torch/lib/libother.so", elf64(library{}),
		site + "nvidia/nccl/lib/libnccl.so.2", elf64(library{text: "NCCL version 2.27.5+cuda12.8\x00",
			fatbin: strings.Repeat("G", 1<<20)}),
		site + "nvidia/cu12/lib/libnvJitLink.so.12", elf64(library{}), site + "nvidia/cu12/lib/libnvjpeg.so.12", "not read",
		site + "numpy/a.py", "has no bytecode", site + "numpy/tests/a.py", "not read", site + "pandas/a.py", "not read",
		site + "x-1.0.dist-info/entry_points.txt", "plugins", "/job/train.py", "import torch\n",
	}, more...)...)
}

func TestTheFilesOfAnImportAreReadAhead(t *testing.T) {
	root := watched(importable())
	m := found(t, root, "train.py")
	clear(root.names)
	read := ReadAhead(t.Context(), root, m, enough)
	for _, text := range []string{"/env/pyvenv.cfg", "/etc/ld.so.cache"} {
		delete(root.names, text) // read to find the others
	}
	want := []string{
		"/env/lib/python3.12/site-packages/nvidia/cu12/lib/libnvJitLink.so.12",
		site + "nvidia/nccl/lib/libnccl.so.2", site + "numpy/a.py", site + "torch/_C.cpython-312-x86_64-linux-gnu.so",
		site + "torch/__init__.py", site + "torch/lib/libc10.so", site + "torch/lib/libtorch_cuda.so",
		site + "torch/lib/libtorch_python.so", site + "torch/nn/modules/__pycache__/x.cpython-312.pyc",
		site + "torch/version.py", site + "x-1.0.dist-info/entry_points.txt", "/lib64/libc.so.6", "/usr/bin/python3.12",
		standardLib + "__pycache__/os.cpython-312.pyc", standardLib + "json/__pycache__/__init__.cpython-312.pyc",
		standardLib + "lib-dynload/_ssl.cpython-312.so", "/usr/lib64/libssl.so.3", "/job/train.py",
	}
	var got []string
	for name := range root.names {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
	if read == 0 || read > 1<<19 {
		t.Errorf("%d bytes read: what only a GPU needs is 1 MiB", read)
	}
}

func TestTheLibrariesReadAheadAreThoseOfTheCommand(t *testing.T) {
	link := "-> /cache/abc/libtorch_python.so" // $ORIGIN is the folder of the link
	root := watched(importable("/opt/libssl.so.3", elf64(library{}), site+"torch/lib/libtorch_python.so", link,
		"/cache/abc/libtorch_python.so", elf64(library{needed: []string{"libc10.so"}, rpath: "$ORIGIN"})))
	ReadAhead(t.Context(), root, found(t, root, "", "LD_LIBRARY_PATH=/opt"), enough)
	for name, want := range map[string]bool{"/opt/libssl.so.3": true, "/usr/lib64/libssl.so.3": false,
		site + "torch/lib/libc10.so": true} {
		if root.names[name] != want {
			t.Errorf("%s: read %t, want %t", name, root.names[name], want)
		}
	}
}

func TestReadAheadKeepsItsLimit(t *testing.T) {
	big := strings.Repeat("x", 8<<20)
	root := importable("/job/train.py", big, site+"torch/a.py", big, site+"torch/b.py", big)
	const most = 6 << 20
	if read := ReadAhead(t.Context(), root, found(t, root, "train.py"), most); read > most || read < most/2 {
		t.Errorf("%d bytes read, at most %d may be", read, most)
	}
	if read := ReadAhead(t.Context(), root, found(t, root, "train.py"), 0); read != 0 {
		t.Errorf("%d bytes read, none may be", read)
	}
}

// endless is a file system whose script never ends. Its third read ends the context.
type endless struct {
	fstest.MapFS
	cancel context.CancelFunc
}

type endlessFile struct {
	fs.File
	cancel context.CancelFunc
	reads  int
}

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.MapFS.Open(name)
	if name == "job/train.py" {
		return &endlessFile{File: f, cancel: e.cancel}, err
	}
	return f, err
}

func (f *endlessFile) Read(b []byte) (int, error) {
	if f.reads++; f.reads == 3 {
		f.cancel()
	}
	return len(b), nil
}

func TestReadAheadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	root := endless{importable(), cancel}
	m := found(t, root, "train.py")
	if read := ReadAhead(ctx, root, m, enough); read < 3*piece || read > 4<<20 {
		t.Errorf("%d bytes read, of which the script's were to be 3 pieces", read)
	}
	if read := ReadAhead(ctx, root, m, enough); read != 0 {
		t.Errorf("%d bytes read after the end", read)
	}
}

func TestNothingIsReadAheadWithoutTorch(t *testing.T) {
	if m, ok := (Facts{Python: Item{Path: "/usr/bin/python3"}}).Import(Command{}, "train.py"); ok {
		t.Errorf("got %+v", m)
	}
}

// far is a file system whose files take a while to read.
type far struct{ fstest.MapFS }

type farFile struct {
	fs.File
	io.ReaderAt
}

func (f farFile) ReadAt(b []byte, at int64) (int, error) {
	time.Sleep(time.Millisecond)
	return f.ReaderAt.ReadAt(b, at)
}

func (f far) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	if at, ok := file.(io.ReaderAt); ok {
		return farFile{file, at}, err
	}
	return file, err
}

func TestAnImportIsColdIfItIsNotInMemory(t *testing.T) {
	library := site + "torch/lib/libtorch_cpu.so"
	near := importable(library, strings.Repeat("x", 1<<20))
	m := found(t, near, "")
	if m.Cold(near) {
		t.Error("cold, though it is in memory")
	}
	if !m.Cold(far{near}) {
		t.Error("not cold, though each page takes a millisecond")
	}
	if m.Cold(far{importable()}) {
		t.Error("cold, though there is no library")
	}
}
