package software

import (
	"context"
	"io/fs"
	"path"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// wheel is what venv has.
func wheel(edit func(*Facts)) Facts {
	f := Facts{
		Python: Item{"3.12.3", "/env/bin/python3"}, Torch: Item{"2.9.0+cu128", path.Clean(site) + "/torch"}, CUDA: "12.8",
		NCCL: Item{"2.27.5", site + "nvidia/nccl/lib/libnccl.so.2"}, Plugin: Item{Version: None}, NCCLCUDA: "12.8",
	}
	if edit != nil {
		edit(&f)
	}
	return f
}

// shims are those of pyenv with three versions, of which 3.12.10 is the venv, and the file that chooses for all.
func shims(chosen string, more ...string) []string {
	const script = "#!/usr/bin/env bash\nset -e\n\nprogram=\"${0##*/}\"\n\nexport PYENV_ROOT=\"/opt/pyenv\"\n" +
		"exec \"/opt/pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n"
	return append([]string{"/opt/pyenv/shims/torchrun*", script, "/opt/pyenv/shims/python*", script,
		"/opt/pyenv/versions/3.12.10", "-> /env", "/opt/pyenv/versions/3.12.4/bin/pip*", "",
		"/opt/pyenv/versions/3.13.0/bin/pip*", "", "/opt/pyenv/version", chosen}, more...)
}

func TestTheInterpreterOfTheCommandIsFound(t *testing.T) {
	python := func(file string) Facts { return wheel(func(f *Facts) { f.Python.Path = file }) }
	for name, tc := range map[string]struct {
		root fstest.MapFS
		cmd  Command
		want Facts
	}{
		"torchrun by its first line": {venv(), Command{Program: "/env/bin/torchrun"}, wheel(nil)},
		"torchrun in PATH": {venv(), Command{Program: "torchrun", Env: []string{"PATH=/usr/bin:/env/bin"}},
			wheel(nil)},
		"the last PATH counts": {venv(), Command{Program: "torchrun", Env: []string{"PATH=/nowhere", "PATH=/env/bin"}},
			wheel(nil)},
		"a python of a venv": {venv(), Command{Program: "python", Env: []string{"PATH=/env/bin"}},
			python("/env/bin/python")},
		"a relative program": {venv(), Command{Program: "bin/torchrun", Dir: "/env"}, wheel(nil)},
		"not in PATH":        {venv(), Command{Program: "torchrun", Env: []string{"PATH=/usr/bin"}}, Facts{}},
		"env in the first line": {venv("/env/bin/torchrun*", "#!/usr/bin/env -S python3 -u\n"),
			Command{Program: "torchrun", Env: []string{"PATH=/env/bin"}}, wheel(nil)},
		"a trampoline": {venv("/env/bin/torchrun*",
			"#!/bin/sh\n'''exec' \"/env/bin/python3\" \"$0\" \"$@\"\n' '''\n"), Command{Program: "/env/bin/torchrun"},
			wheel(nil)},
		"uv's trampoline": {venv("/env/bin/torchrun*",
			"#!/bin/sh\n'''exec' '/env/bin/python3' \"$0\" \"$@\"\n' '''\n"), Command{Program: "/env/bin/torchrun"}, wheel(nil)},
		"pyenv's version of the folder": {venv(shims("3.12.4\n", "/work/.python-version", "3.12 # the series\n")...),
			Command{Program: "torchrun", Dir: "/work/sub", Env: []string{"PATH=/opt/pyenv/shims:/usr/bin"}}, wheel(nil)},
		"pyenv's version of the variable": {venv(shims("3.11.2\n")...), Command{Program: "python",
			Dir: "/", Env: []string{"PATH=/opt/pyenv/shims", "PYENV_VERSION=3.13.0:3.12.10"}},
			wheel(func(f *Facts) {
				f.Python.Path = "/opt/pyenv/versions/3.12.10/bin/python"
				f.Torch.Path = "/opt/pyenv/versions/3.12.10/lib/python3.12/site-packages/torch"
			})},
		"pyenv's version of all": {venv(shims("# none yet\n3.12.10\n")...),
			Command{Program: "/opt/pyenv/shims/torchrun", Dir: "/"}, wheel(nil)},
		"pyenv's system": {venv(shims("system\n")...), Command{Program: "torchrun", Dir: "/",
			Env: []string{"PATH=/opt/pyenv/shims/:/env/bin"}}, wheel(nil)},
		"pyenv without a version": {venv(shims("3.9.1\n")...), Command{Program: "torchrun", Dir: "/",
			Env: []string{"PATH=/opt/pyenv/shims:/env/bin"}}, Facts{}},
		"a script of something else": {venv("/opt/torchrun*", "#!/env/bin/torchrun\n"), Command{Program: "/opt/torchrun"},
			Facts{}},
		"a shell script": {venv("/opt/run.sh*", "#!/bin/sh\npython train.py\n"), Command{Program: "/opt/run.sh"},
			Facts{}},
		"uv's project": {venv("/env/.venv", "-> /env", "/env/pyproject.toml", ""),
			Command{Before: []string{"uv", "run"}, Program: "torchrun", Dir: "/env"}, wheel(nil)},
		"uv's script": {venv("/env/.venv", "-> /env", "/env/pyproject.toml", "", "/env/train.py", "import torch\n"),
			Command{Before: []string{"uv", "run"}, Program: "train.py", Dir: "/env"},
			wheel(func(f *Facts) {
				f.Python.Path = "/env/.venv/bin/python"
				f.Torch.Path = "/env/.venv/lib/python3.12/site-packages/torch"
			})},
		"uv's script with an environment of its own": {venv("/env/.venv", "-> /env", "/env/pyproject.toml", "",
			"/env/train.py", "# /// script\n"),
			Command{Before: []string{"uv", "run"}, Program: "train.py", Dir: "/env"}, Facts{}},
		"uv with something else": {venv("/env/pyproject.toml", ""),
			Command{Before: []string{"uv", "run", "--with", "torch==2.8"}, Program: "torchrun", Env: []string{"PATH=/env/bin"},
				Dir: "/env"}, Facts{}},
		"uv without a project": {venv(), Command{Before: []string{"uv", "run"}, Program: "torchrun",
			Env: []string{"VIRTUAL_ENV=/env"}, Dir: "/"}, wheel(nil)},
		"conda's prefix": {venv(), Command{Before: []string{"conda", "run", "-p", "/env"}, Program: "torchrun"},
			wheel(nil)},
		"conda's name": {venv("/opt/conda/envs/e", "-> /env"),
			Command{Before: []string{"conda", "run", "--name=e"}, Program: "torchrun",
				Env: []string{"CONDA_EXE=/opt/conda/bin/conda"}}, wheel(nil)},
		"conda's unknown name": {venv(), Command{Before: []string{"conda", "run", "-n", "e"}, Program: "torchrun",
			Env: []string{"PATH=/env/bin"}}, Facts{}},
		"pixi's default": {venv("/work/.pixi/envs/default", "-> /env"),
			Command{Before: []string{"pixi", "run", "--frozen"}, Program: "torchrun", Dir: "/work/sub"}, wheel(nil)},
		"pixi's environment of a manifest": {venv("/work/.pixi/envs/gpu", "-> /env", "/work/pixi.toml", ""),
			Command{Before: []string{"pixi", "run", "--manifest-path=/work/pixi.toml", "-e", "gpu"}, Program: "torchrun",
				Dir: "/"}, wheel(nil)},
		"pixi without an environment": {venv(), Command{Before: []string{"pixi", "run"}, Program: "torchrun",
			Env: []string{"PATH=/env/bin"}, Dir: "/work"}, Facts{}},
		"poetry, active": {venv(), Command{Before: []string{"poetry", "run"}, Program: "torchrun",
			Env: []string{"VIRTUAL_ENV=/env"}}, wheel(nil)},
		"hatch": {venv(), Command{Before: []string{"hatch", "run"}, Program: "torchrun",
			Env: []string{"PATH=/env/bin"}}, Facts{}},
		"numactl changes no Python": {venv(), Command{Before: []string{"numactl", "-N", "0"}, Program: "torchrun",
			Env: []string{"PATH=/env/bin"}}, wheel(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Detect(t.Context(), tc.root, tc.cmd)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A torch in each place where Python looks.
func TestTorchIsFoundWhereThisPythonLooks(t *testing.T) {
	debian := []string{"/usr/bin/python3", "-> python3.12", "/usr/bin/python3.12*", "\x7fELF"}
	for name, tc := range map[string]struct {
		files []string
		env   []string
		want  string // version, and the directory
	}{
		"Debian's": {append(debian, "/usr/lib/python3/dist-packages/torch/version.py", cpuPy), nil,
			"2.9.0+cpu /usr/lib/python3/dist-packages/torch"},
		"a container image's, before it": {append(debian, "/usr/lib/python3/dist-packages/torch/version.py", cpuPy,
			"/usr/local/lib/python3.12/dist-packages/torch/version.py", versionPy), nil,
			"2.9.0+cu128 /usr/local/lib/python3.12/dist-packages/torch"},
		"the user's": {append(debian, "/home/u/.local/lib/python3.12/site-packages/torch/version.py",
			cpuPy), nil, "2.9.0+cpu /home/u/.local/lib/python3.12/site-packages/torch"},
		"the user's, switched off": {append(debian, "/home/u/.local/lib/python3.12/site-packages/torch/version.py",
			cpuPy), []string{"PYTHONNOUSERSITE=1"}, " "},
		"PYTHONPATH": {append(debian, "/x/torch/version.py", cpuPy,
			"/usr/lib/python3/dist-packages/torch/version.py", versionPy), []string{"PYTHONPATH=:/x"}, "2.9.0+cpu /x/torch"},
		"another Python's": {append(debian, "/usr/local/lib/python3.11/dist-packages/torch/version.py", cpuPy),
			nil, " "},
		"conda's, named by its modules": {[]string{"/usr/bin/python3", "-> /c/bin/python", "/c/bin/python*", "\x7fELF",
			"/c/lib/python3.10/site-packages/torch/version.py", cpuPy}, nil, "2.9.0+cpu /c/lib/python3.10/site-packages/torch"},
		"a venv that sees the system's": {append(debian, "/usr/pyvenv.cfg",
			"home = /base/bin\ninclude-system-site-packages = true\nversion_info = 3.12.3.final.0\n",
			"/base/lib/python3.12/site-packages/torch/version.py", cpuPy), nil,
			"2.9.0+cpu /base/lib/python3.12/site-packages/torch"},
		"a venv that does not": {append(debian, "/usr/pyvenv.cfg", cfg,
			"/home/u/.local/lib/python3.12/site-packages/torch/version.py", cpuPy), nil, " "},
		"links in a circle": {append(debian, "/usr/lib/python3/dist-packages", "-> /a", "/a", "-> /b", "/b",
			"-> /a"), nil, " "},
	} {
		t.Run(name, func(t *testing.T) {
			f := Detect(t.Context(), tree(tc.files...), Command{Program: "/usr/bin/python3", Env: tc.env, Home: "/home/u"})
			if got := f.Torch.Version + " " + f.Torch.Path; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if f.NCCL.Version != "" && f.CUDA == "" {
				t.Errorf("a torch without CUDA has NCCL %v", f.NCCL)
			}
		})
	}
}

func TestNCCLIsTheOneThatTheLoaderTakes(t *testing.T) {
	lib := site + "torch/lib/libtorch_cuda.so"
	runpath := elf64(library{needed: []string{"libnccl.so.2"}, runpath: "$ORIGIN/../../nvidia/nccl/lib"})
	bare := elf64(library{needed: []string{"libnccl.so.2"}})
	static := elf64(library{text: "requires NCCL version 2.27.0 or later\x00NCCL version 2.14.3+cuda11.7\x00"})
	for name, tc := range map[string]struct {
		more []string
		env  []string
		want Item
	}{
		"the wheel's, by its rpath": {[]string{"/opt/libnccl.so.2", nccl("2.21.5")},
			[]string{"LD_LIBRARY_PATH=/opt"}, Item{"2.27.5", site + "nvidia/nccl/lib/libnccl.so.2"}},
		"LD_LIBRARY_PATH goes before a runpath": {[]string{lib, runpath, "/opt/libnccl.so.2", nccl("2.21.5")},
			[]string{"LD_LIBRARY_PATH=/none:/opt"}, Item{"2.21.5", "/opt/libnccl.so.2"}},
		"the runpath": {[]string{lib, runpath}, nil,
			Item{"2.27.5", site + "nvidia/nccl/lib/libnccl.so.2"}},
		"a preloaded one goes before all": {[]string{"/p/libnccl.so.2.30.7", nccl("2.30.7")},
			[]string{"LD_PRELOAD=/x/libfoo.so:/p/libnccl.so.2.30.7"}, Item{"2.30.7", "/p/libnccl.so.2.30.7"}},
		"one that is preloaded but not there": {nil, []string{"LD_PRELOAD=/p/libnccl.so.2"},
			Item{"2.27.5", site + "nvidia/nccl/lib/libnccl.so.2"}},
		"the system's, by the cache": {[]string{lib, bare, "/etc/ld.so.cache",
			cache("libnccl.so.2", "/opt/n/libnccl.so.2"), "/opt/n/libnccl.so.2", "-> libnccl.so.2.25.1",
			"/opt/n/libnccl.so.2.25.1", nccl("2.25.1")}, nil, Item{"2.25.1", "/opt/n/libnccl.so.2.25.1"}},
		"the system's, without a cache": {[]string{lib, bare, "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
			nccl("2.25.1")}, nil, Item{"2.25.1", "/usr/lib/x86_64-linux-gnu/libnccl.so.2"}},
		"one without its text, by its name": {[]string{lib, bare, "/lib64/libnccl.so.2", "-> libnccl.so.2.18.5",
			"/lib64/libnccl.so.2.18.5", "stripped"}, nil, Item{"2.18.5", "/lib64/libnccl.so.2.18.5"}},
		"built into torch": {[]string{lib, static}, nil, Item{"2.14.3", lib}},
		"only the package's name": {[]string{lib, "no ELF",
			site + "nvidia_nccl_cu12-2.26.2.post1.dist-info/METADATA", ""}, nil,
			Item{"2.26.2", site + "nvidia_nccl_cu12-2.26.2.post1.dist-info"}},
		"asked for and nowhere": {[]string{lib, bare, site + "nvidia/nccl/lib/libnccl.so.2", "-> gone"}, nil,
			Item{}},
		"RCCL, where torch is for AMD's GPUs": {[]string{site + "torch/version.py",
			"__version__ = '2.9.0+rocm6.4'\ncuda = None\nhip = '6.4.43482'\n", lib, "", site + "torch/lib/libtorch_hip.so",
			elf64(library{needed: []string{"librccl.so.1"}, rpath: "$ORIGIN"}), site + "torch/lib/librccl.so.1",
			elf64(library{text: "RCCL version 2.22.3+hip6.4\x00"})}, nil, Item{"2.22.3", site + "torch/lib/librccl.so.1"}},
		"files that uv links into its own cache": {[]string{lib, "-> /cache/abc/libtorch_cuda.so",
			"/cache/abc/libtorch_cuda.so", elf64(library{needed: []string{"libnccl.so.2"},
				rpath: "$ORIGIN/../../nvidia/nccl/lib"})}, nil, Item{"2.27.5", site + "nvidia/nccl/lib/libnccl.so.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := Detect(t.Context(), venv(tc.more...), Command{Program: "/env/bin/torchrun", Env: tc.env})
			if diff := cmp.Diff(tc.want, f.NCCL); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePluginIsTheOneThatNCCLLoads(t *testing.T) {
	const lib = "/efa/lib/"
	ofi := elf64(library{needed: []string{"libfabric.so.1"}, runpath: "/efa/fabric",
		text: "Initializing aws-ofi-nccl 1.16.0-aws\x00", buildID: "\x1f\x2e\x3d\x4c\x5b"})
	sharp := elf64(library{needed: []string{"libucp.so.0"}, buildID: "\x0a\x0b\x0c\x0d"})
	fabric := elf64(library{buildID: "\xaa\xbb\xcc\xdd"})
	root := venv(lib+"libnccl-net.so", "-> libnccl-net-ofi.so", lib+"libnccl-net-ofi.so", ofi,
		"/efa/fabric/libfabric.so.1", "-> libfabric.so.1.27.0", "/efa/fabric/libfabric.so.1.27.0", fabric,
		"/hpcx/libnccl-net.so", sharp, "/usr/lib64/libucp.so.0", "no ELF")
	withOFI := func(f *Facts) {
		f.Plugin = Item{"aws-ofi-nccl 1.16.0-aws", lib + "libnccl-net-ofi.so"}
		f.Libfabric = Item{"libfabric.so.1.27.0 aabbccdd", "/efa/fabric/libfabric.so.1.27.0"}
	}
	for name, tc := range map[string]struct {
		env  []string
		want Facts
	}{
		"none":                       {nil, wheel(nil)},
		"aws-ofi-nccl":               {[]string{"LD_LIBRARY_PATH=/efa/lib"}, wheel(withOFI)},
		"by its short name":          {[]string{"LD_LIBRARY_PATH=/hpcx:/efa/lib", "NCCL_NET_PLUGIN=ofi"}, wheel(withOFI)},
		"by its file":                {[]string{"NCCL_NET_PLUGIN=" + lib + "libnccl-net.so"}, wheel(withOFI)},
		"the first of several names": {[]string{"LD_LIBRARY_PATH=/efa/lib", "NCCL_NET_PLUGIN=nowhere,ofi"}, wheel(withOFI)},
		"switched off":               {[]string{"LD_LIBRARY_PATH=/efa/lib", "NCCL_NET_PLUGIN=none"}, wheel(nil)},
		"not used":                   {[]string{"LD_LIBRARY_PATH=/efa/lib", "NCCL_NET=Socket"}, wheel(nil)},
		"one without a version": {[]string{"LD_LIBRARY_PATH=/hpcx"}, wheel(func(f *Facts) {
			f.Plugin = Item{"libnccl-net.so 0a0b0c0d", "/hpcx/libnccl-net.so"}
			f.UCX = Item{"libucp.so.0 21acf382", "/usr/lib64/libucp.so.0"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Detect(t.Context(), root, Command{Program: "/env/bin/torchrun",
				Env: tc.env})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAProgramListsWhatItNeeds(t *testing.T) {
	perf := elf64(library{needed: []string{"libcudart.so.12", "libnccl.so.2"}, runpath: "/opt/nccl"})
	root := tree("/perf*", perf, "/opt/nccl/libnccl.so.2", nccl("2.28.3"), "/hello*",
		elf64(library{needed: []string{"libc.so.6"}}), "/usr/lib64/libnccl.so.2", nccl("2.20.5"))
	want := Facts{NCCL: Item{"2.28.3", "/opt/nccl/libnccl.so.2"}, Plugin: Item{Version: None}, NCCLCUDA: "12.8"}
	if diff := cmp.Diff(want, Detect(t.Context(), root, Command{Program: "/perf"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Detect(t.Context(), root, Command{Program: "/hello"}); !reflect.DeepEqual(got, Facts{}) {
		t.Errorf("a program that needs no NCCL has %+v", got)
	}
}

// stuck is a file system that does not answer.
type stuck struct{ until context.Context }

func (s stuck) Open(string) (fs.File, error) {
	<-s.until.Done()
	return nil, fs.ErrNotExist
}

func TestADeadFileSystemIsNotWaitedFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, now := context.WithCancel(t.Context())
	now()
	if got := Detect(ended, stuck{ctx}, Command{Program: "/env/bin/torchrun"}); got.Err == "" {
		t.Errorf("got %+v, want the reason", got)
	}
}
