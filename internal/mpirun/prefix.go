package mpirun

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
)

// prte returns the installation that Open MPI 5 asks for on the other hosts. Its PRRTE is built to pass on its own
// prefix always (config/ompi_setup_prrte.m4): PRTE_PREFIX, else the one that it was built for, whatever is typed and
// also with --noprefix (src/tools/prte/prte.c of PRRTE 3.0). mpirun makes PRTE_PREFIX of OPAL_PREFIX
// (ompi/tools/mpirun/main.c).
func (r *reader) prte(typed string) string {
	own := ""
	if path.IsAbs(r.Binary) {
		own = path.Dir(path.Dir(r.Binary))
	}
	set, _ := r.variable("PRTE_PREFIX")
	if name := path.Base(typed); name == "mpirun" || name == "mpiexec" {
		if own != "" && r.exists(path.Join(own, "bin", movedWrapper)) {
			return own
		}
		if moved, _ := r.variable("OPAL_PREFIX"); moved != "" {
			return path.Clean(moved)
		}
		if prterun, _ := r.variable("OMPI_PRTERUN"); prterun != "" && set == "" { // which may be of another PRRTE
			if !path.IsAbs(typed) || !path.IsAbs(prterun) {
				return ""
			}
			return path.Dir(path.Dir(prterun))
		}
	}
	if set != "" {
		return path.Clean(set)
	}
	if built := r.builtFor(own); built != "" {
		return built
	}
	return own
}

// movedWrapper is the program that mpirun of the package on PyPI starts, after it has set OPAL_PREFIX to its own place.
const movedWrapper = "ompirun_wrapper"

func (r *reader) exists(name string) bool {
	if r.Root == nil {
		return false
	}
	_, err := fs.Stat(r.Root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// maxLibrary bounds what is read of a library, in bytes.
const maxLibrary = 32 << 20

// builtFor returns the prefix for which the PRRTE of an installation was built, by the table of folders in its library
// (src/mca/prteinstalldirs/config); "": it is not found there.
func (r *reader) builtFor(prefix string) string {
	if r.Root == nil || prefix == "" {
		return ""
	}
	for _, dir := range []string{"lib", "lib64", "lib/openmpi", "lib64/openmpi"} {
		if text := r.library(strings.TrimPrefix(path.Join(prefix, dir, "libprrte.so.[0-9]*"), "/")); text != nil {
			return tableOf(text)
		}
	}
	return ""
}

// library returns the first file of a pattern; nil: no file fits, or it cannot be read.
func (r *reader) library(pattern string) []byte {
	all, _ := fs.Glob(r.Root, pattern)
	if len(all) == 0 {
		return nil
	}
	f, err := r.Root.Open(all[0])
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLibrary))
	if err != nil {
		return nil
	}
	return text
}

// tableOf returns the first entry of the table of folders: the prefix is before the folder of programs.
func tableOf(library []byte) string {
	before, _, ok := bytes.Cut(library, []byte("\x00${exec_prefix}/bin\x00"))
	if !ok {
		return ""
	}
	entry := string(before[bytes.LastIndexByte(before, 0)+1:])
	if !path.IsAbs(entry) || len(entry) > 4096 || strings.ContainsAny(entry, "\n$") {
		return ""
	}
	return path.Clean(entry)
}
