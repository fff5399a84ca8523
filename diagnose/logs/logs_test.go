package logs

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"launch/diagnose/verdict"
)

// The first failure of each log of testdata: its cause, rank and node, and how sure the verdict is.
var firsts = map[string]struct {
	cause string
	rank  int
	node  string
	sure  verdict.Sure // "": the log does not decide
}{
	"user-error.log":        {"rank.failed", 5, "blue-02", verdict.Certain},
	"gpu-oom.log":           {"log.oom", 11, "", verdict.Certain},
	"slurm-kill.log":        {"log.host-oom", 7, "gpu-14", verdict.Certain},
	"mpirun-kill.log":       {"log.killed", 6, "rack2-n05", verdict.Likely},
	"pods.log":              {"rank.failed", -1, "llm-worker-2", verdict.Certain},
	"mismatch-watchdog.log": {"log.collective-mismatch", 2, "", verdict.Likely},
	"rank-behind.log":       {"log.rank-behind", 2, "", verdict.Likely},
	"timeout-only.log":      {"log.collective-timeout", 0, "", ""},
	"duplicate-rank.log":    {"log.rank-duplicate", 2, "red-1", verdict.Certain},
	"ecc.log":               {"log.gpu-ecc", 14, "", verdict.Certain},
	"segfault.log":          {"log.crashed", 3, "teal-03", verdict.Likely},
	"ssh-host-key.log":      {"log.ssh-failure", -1, "", verdict.Certain},
	"dataloader-shm.log":    {"log.shm-too-small", -1, "", verdict.Certain},
	"monitored-barrier.log": {"log.monitored-barrier", 3, "", verdict.Likely},
	"ib-timeout.log":        {"log.rdma-completion", 2, "ocean-1", ""},
	"peer-lost-only.log":    {"log.peer-lost", 2, "", ""},
	"clients.log":           {"log.clients-missing", -1, "", ""},
	"driver.log":            {"log.driver-mismatch", -1, "", verdict.Certain},
}

func TestFirstFailures(t *testing.T) {
	for name, want := range firsts {
		r, err := Read(nil, filepath.Join("testdata", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want.sure == "" {
			if len(r.Verdicts) > 0 || len(r.Open) == 0 || r.Open[0].Family != want.cause || len(r.Need()) == 0 {
				t.Errorf("%s: verdicts %+v, open %+v; want %s open", name, r.Verdicts, r.Open, want.cause)
			}
		} else {
			if len(r.Verdicts) == 0 {
				t.Errorf("%s: no verdict, first %+v", name, r.First)
				continue
			}
			v := r.Verdicts[0]
			if v.Cause != want.cause || v.Sure != want.sure || v.Do == "" || len(v.Seen) == 0 {
				t.Errorf("%s: %+v, want %+v", name, v, want)
			}
			if want.rank >= 0 && !slices.Contains(v.Ranks, want.rank) ||
				want.node != "" && !slices.Contains(v.Nodes, want.node) {
				t.Errorf("%s: ranks %v nodes %v, want %+v", name, v.Ranks, v.Nodes, want)
			}
		}
		if r.First == nil || !strings.Contains(r.First.Where, name+":") {
			t.Errorf("%s: first %+v", name, r.First)
		}
	}
}

func TestConsequencesAreCounted(t *testing.T) {
	r, err := Read(nil, "testdata/user-error.log")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Cascade, func(c Count) bool { return c.Kind == "log.peer-lost" })
	if i < 0 || r.Cascade[i].Lines != 2 || !slices.Equal(r.Cascade[i].Ranks, []int{4, 6}) {
		t.Errorf("cascade %+v, want 2 lines of ranks 4 and 6", r.Cascade)
	}
	if f := r.First; f.At != "shards.py:48" || f.Where != "testdata/user-error.log:10" || f.Time.IsZero() {
		t.Errorf("first %+v, want shards.py:48 with a time", f)
	}
}

func TestDirectoryOfRanks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("2026-01-01 10:00:00,000 Traceback (most recent call last):\n" +
		"  File \"a.py\", line 1, in <module>\nZeroDivisionError: division by zero\n"))
	_ = z.Close()
	write("none/attempt_0/3/stderr.log", packed.String())
	write("none/attempt_0/0/stderr.log", "2026-01-01 10:00:02,000 RuntimeError: Connection reset by peer\n")
	write("none/attempt_0/1/stdout.log", "\x7fELF\x00\x00")
	write("none/notes.md", "Traceback (most recent call last):\n")
	secret := write("rank9.log", "")
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Symlink(dir, filepath.Join(dir, "loop"))
	_ = os.Symlink("self.log", filepath.Join(dir, "self.log"))
	r, err := Read(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Verdicts) != 1 || !slices.Equal(r.Verdicts[0].Ranks, []int{3}) || r.Verdicts[0].Cause != "rank.failed" {
		t.Errorf("verdicts %+v, want rank 3", r.Verdicts)
	}
	for _, want := range []string{"stdout.log", "pipe.log"} {
		if !slices.ContainsFunc(r.Gaps, func(g Gap) bool { return strings.HasSuffix(g.Path, want) && g.Why != "" }) {
			t.Errorf("gaps %+v lack %s", r.Gaps, want)
		}
	}
}

func TestNoReadableLogIsAnError(t *testing.T) {
	_, err := Read(nil, filepath.Join(t.TempDir(), "gone.log"))
	if err == nil || !strings.Contains(err.Error(), "gone.log") || !strings.Contains(err.Error(), "name a readable log") {
		t.Errorf("error %v", err)
	}
	if _, err = Read(nil); err == nil {
		t.Error("no path: no error")
	}
}

func TestPrefixes(t *testing.T) {
	for line, want := range map[string]struct {
		rank, local int
		node, body  string
	}{
		"[rank3]: ValueError: x":                             {3, -1, "", "ValueError: x"},
		"[default3]:[rank11]: ValueError: x":                 {11, 3, "", "ValueError: x"},
		"[1,4]<stderr>:ValueError: x":                        {4, -1, "", "ValueError: x"},
		"[prterun-h-12@1,4]<stderr>: ValueError: x":          {4, -1, "", "ValueError: x"},
		" 12: ValueError: x":                                 {12, -1, "", "ValueError: x"},
		"[pod/job-worker-1/main] ValueError: x":              {-1, -1, "job-worker-1", "ValueError: x"},
		"job-worker-1 pytorch ValueError: x":                 {-1, -1, "job-worker-1", "ValueError: x"},
		"\x1b[36mjob-worker-1\x1b[0m pytorch ValueError: x":  {-1, -1, "job-worker-1", "ValueError: x"},
		"2026-01-02T03:04:05.678901Z [rank7]: ValueError: x": {7, -1, "", "ValueError: x"},
		"(TrainWorker pid=120, ip=10.0.0.5) ValueError: x":   {-1, -1, "10.0.0.5", "ValueError: x"},
		"[2026-01-02 03:04:05,678] [rank0]:ValueError: x":    {0, -1, "", "ValueError: x"},
		"[rank2]:   File \"a.py\", line 3":                   {2, -1, "", "  File \"a.py\", line 3"},
		"[W1122 10:00:00.123 s.cpp:1] [c10d] ValueError":     {-1, -1, "", "[W1122 10:00:00.123 s.cpp:1] [c10d] ValueError"},
	} {
		p := strip([]byte(line))
		if p.rank != want.rank || p.local != want.local || p.node != want.node || string(p.body) != want.body {
			t.Errorf("%q: %d %d %q %q, want %+v", line, p.rank, p.local, p.node, p.body, want)
		}
	}
	for path, want := range map[string]int{
		"out/attempt_0/3/stderr.log": 3, "rank3.log": 3, "slurm-123_4.out": 4, "slurm-123.out": -1,
		"train-20260102.log": -1, "logs/node-rank-2.txt": 2, "worker.rank_17.err.gz": 17,
	} {
		if got := rankOf(path); got != want {
			t.Errorf("rankOf(%q) = %d, want %d", path, got, want)
		}
	}
}
