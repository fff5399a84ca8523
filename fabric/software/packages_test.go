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
		site + "one.py", "x = 1\n", site + "Flash_Attn-2.8.1+cu12torch2.8.dist-info/METADATA", "",
		"/env/far/mine/__init__.py", "",
	}
	cmd := Command{Program: "/env/bin/torchrun", Env: []string{"PYTHONPATH=/env/far"}}
	names := []string{"os", "trainlib", "yaml", "one", "flash_attn", "mine", "absent"}
	got := Packages(venv(files...), cmd, names)
	want := []string{"flash_attn", "one.py", "trainlib", "yaml/__init__.py"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got["trainlib"] != "1.2" || got["flash_attn"] != "2.8.1+cu12torch2.8" {
		t.Errorf("by metadata: %v", got)
	}
	files[3+2] = "__version__ = '6.1'\n"
	if other := Packages(venv(files...), cmd, names); other["yaml/__init__.py"] == got["yaml/__init__.py"] ||
		other["one.py"] != got["one.py"] {
		t.Errorf("by the file: %v, after a change %v", got, other)
	}
	if got := Packages(venv(files...), Command{Program: "/env/bin/absent"}, names); got != nil {
		t.Errorf("without an interpreter: %v", got)
	}
}

// What installers leave over, or record in another way, is no other version.
func TestMetadataOfAPackageInOtherForms(t *testing.T) {
	for _, tt := range []struct {
		folders []string
		want    map[string]string
	}{
		{[]string{"trainlib-1.9.dist-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"trainlib-1.9.dist-info", "~rainlib-1.8.dist-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"trainlib-1.9.dist-info", "trainlib-1.10.dist-info"}, map[string]string{}}, // one is left over
		{[]string{"trainlib-1.9.dist-info", "trainlib-data-3.0.dist-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"trainlib-1.9-py3.12.egg-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"Trainlib-1.9.egg-info", "trainlib-1.9.dist-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"trainlib.egg-info"}, map[string]string{"trainlib/__init__.py": "sha256 9e26bf369911"}},
		{[]string{"trainlib-1.9+cu128.dist-info"}, map[string]string{"trainlib": "1.9"}},
		{[]string{"trainlib-1.9+rocm6.3.dist-info"}, map[string]string{"trainlib": "1.9+rocm6.3"}},
	} {
		files := []string{site + "trainlib/__init__.py", "x = 1\n"}
		for _, f := range tt.folders {
			files = append(files, site+f+"/METADATA", "")
		}
		got := Packages(venv(files...), Command{Program: "/env/bin/torchrun"}, []string{"trainlib"})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.folders, diff)
		}
	}
}
