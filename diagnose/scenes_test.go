package diagnose

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

var update = flag.Bool("update", false, "write the golden file anew, and take over the scenes of LAUNCH_HANGS_RECORD")

// TestScenesAreJudgedAsRecorded judges scenes of real hangs, as `make hangs` records them with LAUNCH_HANGS_RECORD:
// all nodes together, and each alone. A line that changes is a change of what people read.
func TestScenesAreJudgedAsRecorded(t *testing.T) {
	const dir, golden = "testdata/scenes", "testdata/scenes.golden"
	if from := os.Getenv("LAUNCH_HANGS_RECORD"); *update && from != "" {
		takeOver(t, from, dir)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	if len(files) == 0 {
		t.Fatal("no recorded scenes")
	}
	var got strings.Builder
	for _, file := range files {
		scenes := readGolden(t, file)
		fmt.Fprintf(&got, "%s\n", strings.TrimSuffix(filepath.Base(file), ".json.gz"))
		describe(&got, "all", scenes)
		for _, s := range scenes {
			if len(scenes) > 1 {
				describe(&got, s.Host, []scene.Scene{s})
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("go test ./diagnose -run Scenes -update, if this is right (-want +got):\n%s", diff)
	}
}

// describe writes each answer in one line for the state and one for each verdict.
func describe(w io.Writer, who string, scenes []scene.Scene) {
	for _, a := range Judge(scenes) {
		fmt.Fprintf(w, "  %s: %s\n", who, a.State)
		for _, v := range a.Why {
			fmt.Fprintf(w, "    %s (%s): %s\n", v.Cause, v.Sure, v.Says)
		}
	}
}

func readGolden(t testing.TB, file string) (out []scene.Scene) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&out); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// elsewhere are paths of the machine that recorded.
var elsewhere = regexp.MustCompile(`/[^" ]*/(lab/hangs/testdata|\.venv)`)

// takeOver writes the scenes of each folder of a recording as one file.
func takeOver(t *testing.T, from, to string) {
	t.Helper()
	folders, _ := filepath.Glob(filepath.Join(from, "*"))
	for _, folder := range folders {
		var all []scene.Scene
		files, _ := filepath.Glob(filepath.Join(folder, "host*.json"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var one struct {
				Scenes  []scene.Scene    `json:"scenes"`
				Answers []verdict.Answer `json:"answers"`
			}
			if err := json.Unmarshal(elsewhere.ReplaceAll(text, []byte("/src/$1")), &one); err != nil {
				t.Logf("%s: %v", file, err)
				continue
			}
			for _, s := range one.Scenes { // under launch each host has those of the others too
				if !slices.ContainsFunc(all, func(o scene.Scene) bool { return o.Host == s.Host }) {
					all = append(all, s)
				}
			}
		}
		if len(all) == 0 {
			continue
		}
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err := json.NewEncoder(z).Encode(all); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(folder)+".json.gz"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
