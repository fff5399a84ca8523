package verbs_test

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// abi.h is written by hand, so this compares it with the library's own header.
func TestLayoutsAreThoseOfTheLibrary(t *testing.T) {
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("needs a C compiler: %v", err)
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("needs infiniband/verbs.h: apt-get install libibverbs-dev")
	}
	out, err := exec.Command(compiler(), "-Wall", "-c", "-o", filepath.Join(t.TempDir(), "layout.o"),
		"testdata/layout.c").CombinedOutput()
	if err != nil {
		t.Errorf("a layout or value differs: %v\n%s", err, out)
	}
}

// The binary must start on a machine without libibverbs.
func TestNothingIsLinkedButTheCLibrary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"libc.so", "libdl.so", "libpthread.so", "libresolv.so", "ld-linux", "libasan.so", "libtsan.so"}
	for _, l := range libs {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(l, a) }) {
			t.Errorf("linked with %s", l)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) { // a static binary
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "ibv_") || strings.HasPrefix(s.Name, "cuMem") || s.Name == "cuInit" {
			t.Errorf("symbol %s would have to be there at the start", s.Name)
		}
	}
}
