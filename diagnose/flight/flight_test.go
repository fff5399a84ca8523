package flight

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/verdict"
)

// What the dumps of gloo ranks by torch 2.15 say. The scenes are those of testdata/train.py.
var scenes = map[string]struct {
	dumps int
	cause string
	sure  verdict.Sure
	ranks []int
	says  []string
}{
	"healthy": {dumps: 2},
	"kinds":   {dumps: 2},
	"behind": {4, "rank.left", verdict.Certain, []int{3}, []string{
		"rank 3 has not called all_reduce #4 of the default group; ranks 0-2 wait there, at /src/train.py:"}},
	"operation": {3, "collective.mismatch", verdict.Certain, []int{1}, []string{
		"in collective #2 of the default group", "rank 1 calls broadcast (/src/train.py:", "ranks 0,2 all_reduce ("}},
	"groups": {4, "rank.left", verdict.Certain, []int{3}, []string{
		"rank 3 has not called all_reduce #2 of the default group; ranks 0-1 wait there"}},
	// Gloo does not record the members of a group, so that the circle is not seen.
	"crossed": {2, "rank.left", verdict.Likely, []int{1}, []string{
		"rank 1 has not called all_reduce #2 of the default group; rank 0 waits there, at /src/train.py:",
		"(rank 1 is in all_reduce of group 1)"}},
	"sizes": {2, "collective.mismatch", verdict.Certain, nil, []string{
		"rank 0 all_reduce of [16] Float", "calls all_reduce of [8] Float"}},
	"dtypes": {2, "collective.mismatch", verdict.Certain, nil, []string{"[8] Double", "[8] Float"}},
}

func TestScenesOfTorch(t *testing.T) {
	for scene, want := range scenes {
		t.Run(scene, func(t *testing.T) {
			s, rest := Gather([]string{"testdata/" + scene})
			if len(s.Dumps) != want.dumps || len(s.Gaps) != 0 || len(rest) != 1 || !s.Has("testdata/"+scene) {
				t.Fatalf("%d dumps, gaps %v, rest %v", len(s.Dumps), s.Gaps, rest)
			}
			if gone := map[string][]int{"sizes": {2}, "dtypes": {1}}[scene]; !slices.Equal(s.Missing(), gone) {
				t.Errorf("missing %v, want %v", s.Missing(), gone)
			}
			all := s.Judge()
			if want.cause == "" {
				if len(all) != 0 {
					t.Fatalf("%+v", all)
				}
				return
			}
			if len(all) != 1 || all[0].Cause != want.cause || all[0].Sure != want.sure {
				t.Fatalf("%+v", all)
			}
			v := all[0]
			if want.ranks != nil && !slices.Equal(v.Ranks, want.ranks) {
				t.Errorf("ranks %v: %s", v.Ranks, v.Says)
			}
			for _, text := range want.says {
				if !strings.Contains(v.Says, text) {
					t.Errorf("%q lacks %q", v.Says, text)
				}
			}
			if v.Do == "" || len(v.Seen) < 2 || v.Since.IsZero() {
				t.Errorf("%+v", v)
			}
		})
	}
}

// The two formats have the same entries; only the pickle has frames.
func TestFormatsAgree(t *testing.T) {
	for scene := range map[string]bool{"kinds": true, "behind": true} {
		a := one(t, "testdata/"+scene+"/nccl_trace_rank_1.gz")
		b := one(t, "testdata/"+scene+"/trace_1.json.gz")
		if a.Version != "2.10" || a.Rank != 1 || b.Rank != 1 || len(a.Entries) != len(b.Entries) || len(a.Entries) == 0 {
			t.Fatalf("%+v\n%+v", a, b)
		}
		for i := range a.Entries {
			x, y := a.Entries[i], b.Entries[i]
			if !strings.HasPrefix(x.At, "/src/train.py:") || y.At != "" {
				t.Errorf("lines %q, %q", x.At, y.At)
			}
			x.At = ""
			if got, want := text(x), text(y); got != want {
				t.Errorf("%s\n%s", got, want)
			}
		}
		if fmt.Sprint(a.Groups, a.Status) != fmt.Sprint(b.Groups, b.Status) {
			t.Errorf("%v %v, %v %v", a.Groups, a.Status, b.Groups, b.Status)
		}
	}
}

func text(e Entry) string {
	in, out := e.In, e.Out
	e.In, e.Out = nil, nil
	return fmt.Sprintf("%+v %+v %+v", e, in, out)
}

func one(t *testing.T, path string) Dump {
	t.Helper()
	s, rest := Gather([]string{path})
	if len(s.Dumps) != 1 || len(rest) != 0 || len(s.Gaps) != 0 {
		t.Fatalf("%s: %+v, rest %v", path, s, rest)
	}
	return s.Dumps[0]
}

// A directory may hold logs too: only dumps are taken.
func TestGatherLeavesLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := write("job.log", "[rank0]: RuntimeError\n")
	object := write("line.json", `{"pg_config": "none", "level": "info"}`)
	nameless := write("trace.json", `{"pg_config": {}, "version": "2.10", "entries": []}`)
	old := write("trace_4.json", `{"pg_config": {}, "version": "1.5", "entries": []}`)
	broken := write("rank_5", "\x80\x02}q\x00(X\x09\x00\x00\x00pg_configcos\nsystem\n.")
	write("nccl_trace_rank_7", pickleOf(t, "testdata/kinds/nccl_trace_rank_1.gz"))
	s, rest := Gather([]string{log, object, nameless, old, broken, dir + "/nccl_trace_rank_7", "-", "missing"})
	if !slices.Equal(rest, []string{log, object, "-", "missing"}) {
		t.Errorf("rest %v", rest)
	}
	if len(s.Dumps) != 1 || s.Dumps[0].Rank != 7 || len(s.Gaps) != 3 {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{"has no rank in its name", "versions 2.0 to 2.10", "instruction GLOBAL"} {
		if !strings.Contains(s.Gaps[i].Why, want) {
			t.Errorf("gap %q, want %q", s.Gaps[i].Why, want)
		}
	}
	if !s.Has(broken) || s.Has(log) {
		t.Errorf("has %v %v", s.Has(broken), s.Has(log))
	}
}

func pickleOf(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRankOf(t *testing.T) {
	for name, want := range map[string]int{
		"nccl_trace_rank_3": 3, "/tmp/comm_lib_trace_rank_12": 12, "nccl_trace_rank_3.gz": 3, "trace_4.json.gz": 4,
		"fr-rank0.pickle": 0, "rank-5-of-8": 5, "dump": -1, "trace_20261123": -1, "x7": 7,
	} {
		if got := rankOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// The newest dump of a rank counts.
func TestNewestDump(t *testing.T) {
	at := func(path string, created int64) Dump {
		return Dump{Path: path, Rank: 1, Entries: []Entry{{Backend: "nccl", Created: created}}}
	}
	s := Set{Dumps: []Dump{at("a/rank_1", 5), at("b/rank_1", 9)}}
	s.unique()
	if len(s.Dumps) != 1 || s.Dumps[0].Path != "b/rank_1" || len(s.Gaps) != 1 || s.Gaps[0].Path != "a/rank_1" {
		t.Errorf("%+v", s)
	}
}
