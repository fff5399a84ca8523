package libs

import (
	"path"
	"slices"
	"testing"

	"launch/envgen"
)

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
	of := map[string][]envgen.Variable{}
	for _, v := range envgen.Variables() {
		if why, ok := absent(v.Name); ok {
			t.Run(v.Name, func(t *testing.T) { t.Skip(why) })
			continue
		}
		of[v.Library] = append(of[v.Library], v)
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
func held(t *testing.T, v envgen.Variable, builds []build) {
	t.Helper()
	newest := builds[len(builds)-1]
	if v.Gone {
		if newest.knows(v.Name) {
			t.Errorf("%s: the lint says that no library reads it, but %s does", v.Name, newest.name)
		}
		return
	}
	read := 0
	for _, b := range builds {
		switch {
		case b.knows(v.Name):
			read++
		case b.version != "" && v.For(b.version):
			t.Errorf("%s: the plan may set it, but %s does not read it", v.Name, b.name)
		}
	}
	if read == 0 {
		t.Errorf("%s: no build of %s reads it", v.Name, v.Library)
	}
}

// planned returns the variables of a library that a plan may hold.
func planned(library string) []string {
	var out []string
	for _, v := range envgen.Variables() {
		if v.Sets && v.Library == library {
			out = append(out, v.Name)
		}
	}
	return out
}
