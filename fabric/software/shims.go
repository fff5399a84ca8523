package software

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// shim matches what a script of pyenv's shims exports and executes (libexec/pyenv-rehash).
var shim = regexp.MustCompile(`(?m)^export PYENV_ROOT="([^"\n]+)"[\s\S]*^exec "[^"\n]*/pyenv" exec "\$program"`)

// shimmed returns the program that a shim of pyenv executes, in the first of the chosen versions that has one, or for
// the version "system" in the rest of PATH. is is false for any other file; of "" it is unknown which.
func (d detector) shimmed(file string, search []string) (program string, is bool) {
	m := shim.FindStringSubmatch(d.text(file))
	if m == nil {
		return "", false
	}
	name := path.Base(file)
	for _, version := range d.pyenv(m[1]) {
		if version == "system" {
			rest := slices.DeleteFunc(slices.Clone(search), func(dir string) bool {
				return path.Clean(dir) == path.Join(m[1], "shims")
			})
			if program = d.lookPath(name, rest); program != "" {
				return program, true
			}
			continue
		}
		if program = path.Join(m[1], "versions", d.installed(m[1], version), "bin", name); d.file(program) {
			return program, true
		}
	}
	return "", true
}

// pyenv returns the chosen versions: by its variable, a .python-version from the working directory upwards, or the
// file of the whole installation (libexec/pyenv-version-origin).
func (d detector) pyenv(root string) []string {
	if v := d.env("PYENV_VERSION"); v != "" {
		return strings.Split(v, ":")
	}
	var files []string
	for _, dir := range upwards(d.cmd.Dir) {
		files = append(files, path.Join(dir, ".python-version"))
	}
	for _, file := range append(files, path.Join(root, "version")) {
		var versions []string
		for line := range strings.Lines(d.text(file)) {
			line, _, _ = strings.Cut(line, "#")
			versions = append(versions, strings.Fields(line)...)
		}
		if len(versions) > 0 {
			return versions
		}
	}
	return []string{"system"}
}

// installed returns the installed version that a name means: itself, or the last release of a series such as 3.12
// (libexec/pyenv-latest).
func (d detector) installed(root, version string) string {
	all := d.names(path.Join(root, "versions"))
	version = strings.TrimPrefix(version, "python-")
	if slices.Contains(all, version) {
		return version
	}
	newest := version
	for _, name := range all {
		if rest, ok := strings.CutPrefix(name, version+"."); ok && !strings.ContainsFunc(rest, notDigit) &&
			(newest == version || len(name) > len(newest) || len(name) == len(newest) && name > newest) {
			newest = name
		}
	}
	return newest
}

func notDigit(r rune) bool { return r < '0' || r > '9' }
