package software

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsOfThePackagesThatAreImported(t *testing.T) {
	files := []string{
		site + "trainlib/__init__.py", "from .loop import train\n", site + "trainlib-1.2.dist-info/METADATA", "",
		site + "yaml/__init__.py", "__version__ = '6.0'\n", site + "PyYAML-6.0.dist-info/METADATA", "",
		site + "one.py", "x = 1\n", site + "Flash_Attn-2.8.1+cu12.dist-info/METADATA", "",
		"/env/far/mine/__init__.py", "",
	}
	cmd := Command{Program: "/env/bin/torchrun", Env: []string{"PYTHONPATH=/env/far"}}
	names := []string{"os", "trainlib", "yaml", "one", "flash_attn", "mine", "absent"}
	got := Packages(venv(files...), cmd, names)
	want := []string{"flash_attn", "one", "trainlib", "yaml"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got["trainlib"] != "1.2" || got["flash_attn"] != "2.8.1+cu12" {
		t.Errorf("by metadata: %v", got)
	}
	files[3+2] = "__version__ = '6.1'\n"
	if other := Packages(venv(files...), cmd, names); other["yaml"] == got["yaml"] || other["one"] != got["one"] {
		t.Errorf("by the file: %v, after a change %v", got, other)
	}
	if got := Packages(venv(files...), Command{Program: "/env/bin/absent"}, names); got != nil {
		t.Errorf("without an interpreter: %v", got)
	}
}
