package job

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// watchedFS counts what is looked up in it, and takes some time for each.
type watchedFS struct {
	fstest.MapFS
	takes time.Duration
	asked *int
}

func (w watchedFS) Stat(name string) (fs.FileInfo, error) {
	*w.asked++
	time.Sleep(w.takes)
	return w.MapFS.Stat(name)
}

func (w watchedFS) Open(name string) (fs.File, error) {
	*w.asked++
	time.Sleep(w.takes)
	return w.MapFS.Open(name)
}

// large is a program whose modules all import each other and as many modules that are elsewhere.
func large(modules int) Input {
	var text strings.Builder
	for i := range modules {
		fmt.Fprintf(&text, "import own%d\nfrom far%d.a.b import c\nfrom pkg.part%d import x\n", i, i, i)
	}
	files := map[string]string{"w/t.py": text.String(), "w/pkg/__init__.py": ""}
	for i := range modules {
		files[fmt.Sprintf("w/own%d.py", i)] = text.String()
	}
	in := two("python t.py", "PYTHONPATH=/p0:/p1:/p2").files(files)
	in.Dir = "/w"
	return in
}

func TestTheSearchForModulesEnds(t *testing.T) {
	for _, tt := range []struct {
		modules, least, most int
		takes                time.Duration
	}{
		{10, 10, 60, 0},
		{800, 1, maxLookups + 200, 0},
		{40, 1, 200, 10 * time.Millisecond},
	} {
		in, asked := large(tt.modules), 0
		in.Root = watchedFS{in.Root.(fstest.MapFS), tt.takes, &asked}
		began := time.Now()
		j := resolve(t, in)
		took := time.Since(began)
		t.Logf("%d modules: %d lookups, %d known, %s", tt.modules, asked, len(j.Program.Modules), took)
		if asked > tt.most || len(j.Program.Modules) < tt.least || tt.takes > 0 && took > 4*maxSearch {
			t.Errorf("%d modules: %d lookups, %d known, %s", tt.modules, asked, len(j.Program.Modules), took)
		}
	}
}

// A folder with too many names is searched without a listing.
func TestAModuleOfALongFolderIsFound(t *testing.T) {
	files := map[string]string{"w/t.py": "import own\n", "w/own.py": "x = 1\n"}
	for i := range maxListing {
		files[fmt.Sprintf("w/a%d", i)] = ""
	}
	in := two("python t.py").files(files)
	in.Dir = "/w"
	if j := resolve(t, in); len(j.Program.Modules) != 1 || j.Program.Modules[0] != "/w/own.py" {
		t.Errorf("%v", j.Program.Modules)
	}
}
