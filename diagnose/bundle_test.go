package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"launch/diagnose/bundle"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// TestABundleGivesTheSameVerdicts judges the recordings of a folder, and what a bundle makes of them.
func TestABundleGivesTheSameVerdicts(t *testing.T) {
	dir := os.Getenv("LAUNCH_TEST_HANGS")
	if dir == "" {
		t.Skip("needs recorded hangs: LAUNCH_TEST_HANGS=DIR")
	}
	folders, _ := filepath.Glob(filepath.Join(dir, "*", "plain"))
	for _, folder := range folders {
		t.Run(filepath.Base(filepath.Dir(folder)), func(t *testing.T) {
			for _, stacks := range []bool{true, false} {
				if scenes := readRecording(t, folder, stacks); len(scenes) > 0 {
					sameVerdicts(t, scenes)
				}
			}
		})
	}
}

func sameVerdicts(t *testing.T, scenes []scene.Scene) {
	t.Helper()
	m := bundle.NewMasker(scenes)
	masked, err := m.Scenes(scenes)
	if err != nil {
		t.Fatal(err)
	}
	brief := func(all []verdict.Answer, name func(string) string) (out []string) {
		for _, a := range all {
			for _, w := range a.Why {
				for i := range w.Nodes {
					w.Nodes[i] = name(w.Nodes[i])
				}
				slices.Sort(w.Nodes)
				out = append(out, string(a.State)+" "+string(w.Sure)+" "+brief(w))
			}
			out = append(out, string(a.State))
		}
		slices.Sort(out)
		return out
	}
	want := brief(Judge(scenes), m.Text)
	if got := brief(Judge(masked), func(s string) string { return s }); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
