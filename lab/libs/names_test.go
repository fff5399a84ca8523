package libs

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"launch/internal/setting"
)

// variable is one that docs/env.md names. A test of envgen compares that page with its rules.
type variable struct {
	name    string // a pattern of path.Match for several
	library string
	sets    bool // a plan may have it
	gone    bool // the lint reports that no library reads it

	since, before string // the versions of NCCL for which a plan may have it
}

var (
	nameRE  = regexp.MustCompile("`([A-Za-z0-9_*?]+)`")
	spanRE  = regexp.MustCompile(`\(rule for NCCL (?:from ([0-9.]+))?(?:, )?(?:before ([0-9.]+))?\)`)
	goneIDs = []string{"`env.obsolete`", "`env.no-prefix`"}
)

// variables returns the variables of docs/env.md by name.
func variables(t *testing.T) []variable {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "env.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]variable{}
	section := ""
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.TrimPrefix(line, "| "), " | ")
		if len(cells) < 3 || cells[0][0] != '`' {
			continue
		}
		cell := cells[0]
		if section == "Findings about variables that are set already" {
			cell = cells[1]
		}
		for _, m := range nameRE.FindAllStringSubmatch(cell, -1) {
			v := all[m[1]]
			v.name, v.library = m[1], setting.Library(m[1])
			v.gone = v.gone || slices.Contains(goneIDs, cells[0])
			if section == "Variables that launch may set" {
				v.sets = true
				if span := spanRE.FindStringSubmatch(cells[2]); span != nil {
					v.since, v.before = span[1], span[2]
				}
			}
			all[v.name] = v
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d variables found in docs/env.md", len(all))
	}
	return slices.SortedFunc(maps.Values(all), func(a, b variable) int { return strings.Compare(a.name, b.name) })
}

// may reports whether a plan may have the variable with a version of NCCL, "2.27.5".
func (v variable) may(nccl string) bool {
	return v.sets && slices.Compare(numbers(v.since), numbers(nccl)) <= 0 &&
		(v.before == "" || slices.Compare(numbers(nccl), numbers(v.before)) < 0)
}

func numbers(version string) (out []int) {
	for number := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(number)
		out = append(out, n)
	}
	return out
}

// build is one build of a library on this machine.
type build struct {
	name    string   // "libnccl.so.2 of 2.19.3"
	version string   // of NCCL: its rules are for ranges of versions
	reads   []string // the variables, and for some builds other words of the text
}

func (b build) knows(pattern string) bool {
	return slices.ContainsFunc(b.reads, func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// elsewhere returns the variables of libraries that neither Debian nor PyPI has in a
// size and form for a test, with the reason; * as in path.Match.
func elsewhere() map[string]string {
	const neither = "neither Debian nor PyPI has its reader"
	return map[string]string{
		"OFI_NCCL_*":   neither,
		"NCCL_IBEXT_*": neither,
		"FI_CXI_*":     neither,
		"TF_CONFIG":    "TensorFlow's wheel has several hundred megabytes",
		"HOROVOD_*":    "PyPI has Horovod's sources alone, and pip runs their setup.py",
	}
}

// A name that no library reads is misspelt, or the library has dropped it.
func TestEachVariableIsReadByItsLibrary(t *testing.T) {
	of := map[string][]variable{}
	for _, v := range variables(t) {
		if why, ok := absent(v.name); ok {
			t.Run(v.name, func(t *testing.T) { t.Skip(why) })
			continue
		}
		of[v.library] = append(of[v.library], v)
	}
	finders := finders()
	for library, vars := range of {
		t.Run(library, func(t *testing.T) {
			find, ok := finders[library]
			if !ok {
				t.Fatalf("no finder for builds of %s", library)
			}
			builds := find(t)
			for _, b := range builds {
				t.Logf("%s: %d names", b.name, len(b.reads))
				if len(b.reads) == 0 {
					t.Errorf("%s: no names found", b.name)
				}
			}
			for _, v := range vars {
				held(t, v, builds)
			}
		})
	}
}

func absent(name string) (why string, ok bool) {
	for pattern, why := range elsewhere() {
		if ok, _ := path.Match(pattern, name); ok {
			return why, true
		}
	}
	return "", false
}

// held checks a variable against the builds of its library, the newest last.
func held(t *testing.T, v variable, builds []build) {
	t.Helper()
	newest := builds[len(builds)-1]
	if v.gone {
		if newest.knows(v.name) {
			t.Errorf("%s: the lint says that no library reads it, but %s does", v.name, newest.name)
		}
		return
	}
	read := 0
	for _, b := range builds {
		switch {
		case b.knows(v.name):
			read++
		case b.version != "" && v.may(b.version):
			t.Errorf("%s: the plan may set it, but %s does not read it", v.name, b.name)
		}
	}
	if read == 0 {
		t.Errorf("%s: no build of %s reads it", v.name, v.library)
	}
}

// planned returns the variables of a library that a plan may hold.
func planned(t *testing.T, library string) []string {
	var out []string
	for _, v := range variables(t) {
		if v.sets && v.library == library {
			out = append(out, v.name)
		}
	}
	return out
}
