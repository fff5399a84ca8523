package peers

import (
	"strings"
	"testing"
)

// The command of a finding imports the package, not the file that is compared.
func TestAPackageIsImportedByItsName(t *testing.T) {
	for key, name := range map[string]string{"trainlib": "trainlib", "yaml/__init__.py": "yaml", "six.py": "six"} {
		node := func(v string) Post { return Post{Around: Around{Packages: map[string]string{key: v}}} }
		found := comparePackages([]Post{node("1"), node("2")})
		if len(found) != 1 || !strings.HasPrefix(found[0].Fix, "python -c 'import "+name+" as p; ") {
			t.Errorf("%s: %+v", key, found)
		}
	}
}

func TestWhatTheCommandsFindIsCompared(t *testing.T) {
	mod := func(sum string) Around { return Around{Modules: map[string]string{"mymodel.py": sum, "same.py": "1"}} }
	dir := func(dir string, there bool) Around {
		return Around{Dir: dir, Reads: map[string]bool{"ckpt/step": there}}
	}
	pack := func(version string) Around {
		return Around{Packages: map[string]string{"trainlib": version, "numpy": "2.4.1"}}
	}
	for _, tc := range []struct {
		name  string
		nodes []Around
		want  string
	}{
		{"alike", []Around{mod("a"), mod("a")}, ""},
		{"another version of a module", []Around{mod("a"), mod("b")},
			`same.modules: modules that the script imports differ: mymodel.py: 1 of 2 nodes have "a", host1 has "b"`},
		{"a module is elsewhere", []Around{mod("a"), {}}, ""},
		{"a search that ended early", []Around{mod("a"), {Modules: map[string]string{"same.py": "1"}}}, ""},
		{"the same packages", []Around{pack("1.1"), pack("1.1")}, ""},
		{"a package that only one has", []Around{pack("1.1"), {Packages: map[string]string{"numpy": "2.4.1"}}}, ""},
		{"another version of a package", []Around{pack("1.1"), pack("1.2"), pack("1.1")}, "same.packages: installed " +
			"packages that the script imports differ: trainlib: 2 of 3 nodes have \"1.1\", host1 has \"1.2\""},
		{"other versions of two", []Around{pack("1.1"), {Packages: map[string]string{"trainlib": "1.2", "numpy": "2.3"}}},
			`same.packages: installed packages that the script imports differ: numpy: 1 of 2 nodes have "2.4.1", host1 has ` +
				`"2.3"; trainlib: 1 of 2 nodes have "1.1"`},
		{"other folders, and both have it", []Around{dir("/a", true), dir("/b", true)}, ""},
		{"other folders, and neither has it", []Around{dir("/a", false), dir("/b", false)}, ""},
		{"only one has it, in one folder", []Around{dir("/a", true), dir("/a", false)}, ""},
		{"only one has it, in another folder", []Around{dir("/a", true), dir("/b", false)}, "same.dir: the script reads " +
			"ckpt/step, which host1 does not have in its working directory /b; host0 has it in /a"},
		{"noexec on all", []Around{{Loads: "noexec on /tmp (TMPDIR)"}, {Loads: "noexec on /tmp (TMPDIR)"}}, ""},
		{"noexec on one", []Around{{Loads: Executable}, {Loads: "noexec on /tmp (TMPDIR)"}, {Loads: Executable}},
			"same.noexec: libraries cannot be loaded from the same folders on all nodes: 2 of 3 nodes have exec; host1 " +
				"(node rank 1) has noexec on /tmp (TMPDIR)"},
		{"unknown on one", []Around{{Loads: Executable}, {}}, ""},
		{"other numbers of processors", []Around{{Ranks: "2 processors"}, {Ranks: "1 processors"}}, "same.counted: the " +
			"script starts a rank for each"},
		{"as many", []Around{{Ranks: "2 processors"}, {Ranks: "2 processors"}}, ""},
		{"the number does not matter", []Around{{}, {}}, ""},
	} {
		ps := posts(len(tc.nodes), func(i int, p *Post) { p.Around = tc.nodes[i] })
		var got []string
		for _, f := range Decide(ps, nil).Findings {
			if got = append(got, f.ID+": "+f.What); f.Breaks == "" || f.Fix == "" {
				t.Errorf("%s: %+v", tc.name, f)
			}
		}
		if text := strings.Join(got, "\n"); tc.want == "" && text != "" || !strings.HasPrefix(text, tc.want) {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, text, tc.want)
		}
	}
	other := posts(2, func(i int, p *Post) { p.Around, p.Command = mod(string(rune('a'+i))), string(rune('a'+i)) })
	if got := compareAround(other); len(got) > 0 {
		t.Errorf("other programs: %+v", got)
	}
}
