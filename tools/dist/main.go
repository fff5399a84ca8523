// Command dist makes the packages of a release from binaries that are built already: for each architecture an archive,
// a Python wheel, a deb, an rpm, and a part of one image; then checksums and a list of all components. The same
// binaries, version and time give the same bytes.
package main

import (
	"crypto/sha256"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what all packages have in common.
type release struct {
	version string    // as in the names of files: v0.3.0, or dev
	time    time.Time // of all files
	root    string    // of the repository
	in, out string    // folders: IN/ARCH/launch and launch-static; packages
}

// build is launch for one architecture, in Go's name.
type build struct {
	arch  string
	tree  string // a folder that is the package's root: usr/bin/launch and so on
	floor string // the oldest glibc that usr/bin/launch runs with, "2.34"; "": it is static
}

// static returns the program that runs with each C library.
func (b build) static() string {
	if b.floor == "" {
		return "usr/bin/launch"
	}
	return "usr/bin/launch-static"
}

func main() {
	r := release{}
	var epoch int64
	flag.StringVar(&r.version, "version", "dev", "`version` of the release")
	flag.Int64Var(&epoch, "time", 0, "`seconds` since 1970 of all files")
	flag.StringVar(&r.root, "root", ".", "`folder` of the repository")
	flag.StringVar(&r.in, "in", "dist/bin", "`folder` with a folder of binaries for each architecture")
	flag.StringVar(&r.out, "out", "dist", "`folder` for the packages")
	oldest := flag.String("glibc", "2.34", "the oldest glibc that a binary with cgo must run with")
	flag.Parse()
	r.time = time.Unix(epoch, 0).UTC()
	if err := r.make(*oldest); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// make writes all packages.
func (r release) make(oldest string) error {
	archs, err := os.ReadDir(r.in)
	if err != nil {
		return err
	}
	var builds []build
	for _, a := range archs {
		b, err := r.stage(a.Name())
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name(), err)
		}
		defer os.RemoveAll(b.tree)
		if b.floor != "" && older(oldest, b.floor) {
			return fmt.Errorf("%s: launch needs glibc %s; build it on a system with %s", b.arch, b.floor, oldest)
		}
		for _, pack := range []func(build) error{r.archive, r.wheels, r.linux} {
			if err := pack(b); err != nil {
				return fmt.Errorf("%s: %w", b.arch, err)
			}
		}
		builds = append(builds, b)
	}
	if len(builds) == 0 {
		return fmt.Errorf("no architecture in %s", r.in)
	}
	if err := r.image(builds); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.components(builds[0]); err != nil {
		return fmt.Errorf("components: %w", err)
	}
	return r.sums()
}

// floorOf returns the newest version of glibc whose symbols a binary uses; "": it is static.
func floorOf(binary string) (string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	symbols, _ := f.ImportedSymbols()
	floor := ""
	for _, s := range symbols {
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && (floor == "" || older(floor, v)) {
			floor = v
		}
	}
	return floor, nil
}

// older reports whether a version is before another one.
func older(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) < 0
}

func numbers(version string) (out []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		out = append(out, n)
	}
	return out
}

// plain returns the version as packages write it: 0.3.0, and 0.0.0 for one that has no number.
func (r release) plain() string {
	v := strings.TrimPrefix(r.version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' {
		return "0.0.0"
	}
	number, _, _ := strings.Cut(v, "-")
	return number
}

// sums writes SHA256SUMS over all packages.
func (r release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	fmt.Print(out.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(out.String()), 0o644)
}
