package software

import (
	"path"
	"strings"
	"testing"
)

func FuzzCache(f *testing.F) {
	f.Add([]byte(cache("libnccl.so.2", "/usr/lib64/libnccl.so.2", "libc.so.6", "/lib64/libc.so.6")))
	f.Add([]byte("ld.so-1.7.0\x00\x01\x00\x00\x00" + cache("a", "/a")))
	f.Add([]byte(cacheMagic + "\xff\xff\xff\xff" + strings.Repeat("\x03", 64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, file := range parseCache(b) {
			if name == "" || file == "" || strings.Contains(name+file, "\x00") {
				t.Errorf("%q -> %q", name, file)
			}
		}
	})
}

// FuzzLibrary puts hostile bytes in the place of torch, NCCL and the plugin.
func FuzzLibrary(f *testing.F) {
	f.Add([]byte(elf64(library{needed: []string{"libnccl.so.2", "libfabric.so.1"}, rpath: "$ORIGIN:/a", runpath: "/b",
		text: "NCCL version 2.27.5+cuda12.8\x00aws-ofi-nccl 1.2", buildID: "\x01\x02\x03\x04"})))
	f.Add([]byte("\x7fELF"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		text := string(b)
		root := venv(site+"torch/lib/libtorch_cuda.so", text, "/l/libnccl.so.2", text, "/l/libnccl-net.so", text)
		got := detect(root, Command{Program: "/env/bin/torchrun", Env: []string{"LD_LIBRARY_PATH=/l"}})
		if v := got.NCCL.Version; len(v) > 64 || strings.ContainsAny(v, "\x00\n") {
			t.Errorf("NCCL %q", v)
		}
	})
}

// FuzzText puts hostile text in the place of the command's script, the venv's settings
// and torch's version.
func FuzzText(f *testing.F) {
	f.Add("#!/usr/bin/env python3\n", cfg, versionPy)
	f.Add("#!/bin/sh\n'''exec' /env/bin/python3 \"$0\" \"$@\"\n", "version_info = 3.12.3.final.0", cpuPy)
	f.Add("#!", "=", "__version__: str =")
	f.Fuzz(func(t *testing.T, script, venvCfg, version string) {
		got := detect(venv("/env/bin/torchrun*", script, "/env/pyvenv.cfg", venvCfg, site+"torch/version.py", version),
			Command{Program: "torchrun", Env: []string{"PATH=/env/bin:/usr/bin"}})
		if strings.Contains(got.Torch.Version+got.Python.Version, "\n") {
			t.Errorf("got %+v", got)
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("/a/../b/./c", "-> ../d")
	f.Add("//a", "-> /a")
	f.Fuzz(func(t *testing.T, name, link string) {
		if p, _, ok := (files{tree("/a", link, "/b/c", "x", "/d", "-> b/c")}).resolve(name); ok &&
			(!path.IsAbs(p) || path.Clean(p) != p) {
			t.Errorf("resolve(%q) = %q", name, p)
		}
	})
}
