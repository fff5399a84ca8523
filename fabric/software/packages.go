package software

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Packages returns the versions of the packages that the command's Python would import by these names, from where it
// looks for installed ones: "1.2", as the package's metadata has it. Without metadata of its name, it is a checksum of
// the file that an import runs first, and the key has that file: "yaml/__init__.py". So hosts that record a package in
// different ways are not compared. A name that is not installed, or that several versions claim, is missing.
func Packages(root fs.FS, cmd Command, names []string) map[string]string {
	d := detector{files: files{root}, cmd: cmd}
	interpreter, _ := d.interpreter()
	if interpreter == "" || len(names) == 0 {
		return nil
	}
	out, seen := map[string]string{}, map[string]bool{}
	_, sites := d.python(interpreter)
	for _, site := range sites {
		if !strings.Contains(site, "-packages") {
			continue // a folder of PYTHONPATH has no metadata
		}
		entries := d.names(site)
		metadata := versionsOf(entries)
		for _, name := range names {
			versions, first := metadata[strings.ToLower(name)], ""
			switch {
			case seen[name]:
			case len(versions) > 0:
				if seen[name] = true; len(versions) == 1 { // else one is left over from another installation
					out[name] = versions[0]
				}
			case slices.Contains(entries, name):
				first = name + "/__init__.py"
			case slices.Contains(entries, name+".py"):
				first = name + ".py"
			}
			if text := d.text(path.Join(site, first)); first != "" && text != "" {
				seen[name] = true
				out[first] = fmt.Sprintf("sha256 %.6x", sha256.Sum256([]byte(text)))
			}
		}
	}
	return out
}

// versionsOf returns the different versions by the names of metadata: trainlib-1.2.dist-info, and for older installers
// trainlib-1.2-py3.12.egg-info. The version of CUDA for which a wheel is built (+cu128) is no other version.
func versionsOf(entries []string) map[string][]string {
	out := map[string][]string{}
	for _, entry := range entries {
		stem, ok := strings.CutSuffix(entry, ".dist-info")
		if !ok {
			if stem, ok = strings.CutSuffix(entry, ".egg-info"); ok {
				stem, _, _ = strings.Cut(stem, "-py")
			}
		}
		name, version, _ := strings.Cut(strings.ToLower(stem), "-")
		if !ok || version == "" || version[0] < '0' || version[0] > '9' || strings.Contains(version, "-") {
			continue // it is of another form
		}
		version = forCUDA.ReplaceAllString(version, "")
		if !slices.Contains(out[name], version) {
			out[name] = append(out[name], version)
		}
	}
	return out
}

var forCUDA = regexp.MustCompile(`[+]cu[0-9]+$`)
