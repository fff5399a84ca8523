package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
	"launch/preflight/threshold"
)

// scripts writes a directory of checks.
func scripts(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// own runs the checks of a directory as a start does.
func own(t *testing.T, dir string, in Input) map[string]finding.Finding {
	t.Helper()
	if in.UserEnv == nil {
		in.UserEnv = os.Environ()
	}
	checks, err := CheckDir(dir, in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), checks, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]finding.Finding{}
	for _, f := range r {
		out[f.ID] = f
	}
	return out
}

func TestHowAUsersCheckEndsIsItsFinding(t *testing.T) {
	sh := func(s string) string { return "#!/bin/sh\n" + s + "\n" }
	for _, tt := range []struct {
		name, script string
		want         finding.Status
		what         string
	}{
		{"ends well", sh("exit 0"), finding.Pass, "ended with exit status 0"},
		{"says something", sh("echo checking; echo; echo mounted"), finding.Pass, "mounted"},
		{"fails", sh("echo not mounted; exit 1"), finding.Fail, "not mounted"},
		{"fails on stderr", sh("echo no quota >&2; exit 3"), finding.Fail, "no quota"},
		{"fails without a word", sh("exit 3"), finding.Fail, "ended with exit status 3"},
		{"could not tell", sh("echo no tool here; exit 75"), finding.Skip, "no tool here"},
		{"a line that warns", sh(`echo '{"status":"warn","what":"90% full"}'`), finding.Warn, "90% full"},
		{"a line that fails, status 0", sh(`echo '{"status":"fail","what":"w"}'`), finding.Fail, "w"},
		{"a line that passes, status 1", sh(`echo '{"status":"ok","what":"w"}'; exit 1`), finding.Fail, "w"},
		{"a line that skips, status 0", sh(`echo '{"status":"skip","what":"w"}'`), finding.Skip, "w"},
		{"a line without status", sh(`echo '{"what":"w"}'; exit 1`), finding.Fail, "w"},
		{"a line of an unknown status", sh(`echo '{"status":"bad","what":"w"}'; exit 1`), finding.Fail, "w"},
		{"a line that is no JSON", sh(`echo '{"status":'; exit 1`), finding.Fail, `{"status":`},
		{"dies", sh("kill -SEGV $$"), finding.Warn, "was killed by SIGSEGV"},
		{"no first line", "echo hi\n", finding.Warn, "exec format error"},
		{"ends of line as on Windows", "#!/bin/sh\r\nexit 0\r\n", finding.Warn, "no such file"},
		{"no such interpreter", "#!/no/such/sh\n", finding.Warn, "no such file"},
		{"no text", sh(`printf '\001\377\002'; exit 1`), finding.Fail, `"\x01\xff\x02"`},
		{"its own environment", sh(`[ "$LAUNCH_CHECK" = 1 ] && grep -q '"hostname":"h9"' && echo yes`), finding.Pass, "yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{}
			in.Node.Hostname = "h9"
			got := own(t, scripts(t, map[string]string{"x": tt.script}), in)["user.x"]
			if got.Status != tt.want || !strings.Contains(got.What, tt.what) {
				t.Errorf("%s: %q, want %s: %q", got.Status, got.What, tt.want, tt.what)
			}
			if got.Status == finding.Fail && got.Fix == "" {
				t.Errorf("no fix: %+v", got)
			}
		})
	}
}

func TestWhatWasSeenAndWhatToDoComeFromTheLine(t *testing.T) {
	got := own(t,
		scripts(t, map[string]string{"x": "#!/bin/sh\nprintf '%s\\n' " +
			"'{\"status\":\"ok\",\"what\":\"w\",\"breaks\":\"b\",\"fix\":\"one\\ntwo\"}'\nexit 4\n"}), Input{})["user.x"]
	path := got.Seen[0].Where
	want := finding.Finding{ID: "user.x", Status: finding.Fail, What: "w", Breaks: "b", Fix: "one\ntwo",
		Seen: []finding.Seen{{Where: path, What: `exit status 4, and its last line has status "ok"`}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACheckThatHangsIsKilledWithAllItStarted(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	hang := "#!/bin/sh\nsleep 300 & echo $! >>" + pids + "; sleep 300 >/dev/null 2>&1 & echo $! >>" + pids +
		"; echo waits; "
	in := Input{Thresholds: map[string]float64{threshold.UserCheck: 1}}
	got := own(t, scripts(t, map[string]string{"hangs": hang + "wait\n", "leaves": hang + "exit 0\n"}), in)
	if f := got["user.hangs"]; f.Status != finding.Warn || !strings.Contains(f.What, "did not end within 1s") {
		t.Errorf("%s: %s", f.Status, f.What)
	}
	if f := got["user.leaves"]; f.Status != finding.Pass || f.What != "waits" {
		t.Errorf("%s: %s", f.Status, f.What)
	}
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(b))
	if len(list) != 4 {
		t.Fatalf("started %v", list)
	}
	for _, p := range list {
		pid, _ := strconv.Atoi(p)
		for end := time.Now().Add(10 * time.Second); running(pid); <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("process %d is still there", pid)
				break
			}
		}
	}
}

// running reports whether a process exists; one that only waits for its parent
// to ask for its end is not.
func running(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && syscall.Kill(pid, 0) == nil
}

func TestOfWhatACheckWritesTheEndIsKept(t *testing.T) {
	got := own(t,
		scripts(t, map[string]string{"x": "#!/bin/sh\nhead -c 300000 /dev/zero\necho; head -c 3000 /dev/zero | tr '\\0' " +
			"x; echo; exit 1\n"}), Input{})["user.x"]
	if got.Status != finding.Fail || !strings.HasPrefix(got.What, "xxx") || len(got.What) > maxShown+len("…") {
		t.Errorf("%s: %d bytes: %.40q", got.Status, len(got.What), got.What)
	}
}

func TestWhichFilesAreChecks(t *testing.T) {
	dir := scripts(t, map[string]string{"b c": "#!/bin/sh\n", "b-c": "#!/bin/sh\n", ".hidden": "#!/bin/sh\n",
		"old~": "#!/bin/sh\n", "notes.txt": "x"})
	if err := os.Chmod(filepath.Join(dir, "notes.txt"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"b-c", "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, "to-"+to)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]finding.Status{}
	for id, f := range own(t, dir, Input{}) {
		got[id] = f.Status
	}
	want := map[string]finding.Status{"user.b-c": finding.Pass, "user.b-c-2": finding.Pass, "user.notes.txt": finding.Warn,
		"user.to-b-c": finding.Pass, "user.to-nowhere": finding.Warn}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := CheckDir(filepath.Join(dir, "none"), Input{}); err == nil {
		t.Error("a directory that is not there is accepted")
	}
	many := map[string]string{}
	for i := range maxUser + 1 {
		many["c"+strconv.Itoa(i)] = "#!/bin/sh\n"
	}
	if _, err := CheckDir(scripts(t, many), Input{}); err == nil {
		t.Errorf("%d checks are accepted", len(many))
	}
	if checks, _ := CheckDir(dir, Input{}); checks[0].Run(t.Context(), Input{})[0].Status != finding.Skip {
		t.Error("a check runs where nothing is to be executed")
	}
}

func FuzzParseVerdict(f *testing.F) {
	f.Add(`{"status":"fail","what":"w"}`)
	f.Add(`{"status":3}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, line string) {
		v, ok, _ := parseVerdict(line)
		if v.Status != "" && Gravity(v.Status) == 0 {
			t.Errorf("status %q", v.Status)
		}
		if !ok && v != (userLine{}) {
			t.Errorf("no verdict, but %+v", v)
		}
		if s := shown(line); len(s) > 4*maxShown+8 {
			t.Errorf("%d bytes are shown", len(s))
		}
	})
}

// Who can write a check runs it as this user.
func TestAProgramThatAnotherUserMayHaveWrittenDoesNotRun(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	files := map[string]string{}
	for _, name := range []string{"all", "group", "mine", "other"} {
		files[name] = "#!/bin/sh\necho " + name + " >>" + ran + "\n"
	}
	dir := scripts(t, files)
	for name, mode := range map[string]os.FileMode{"all": 0o757, "group": 0o775, "mine": 0o755} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"all": "all users may write it"}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(filepath.Join(dir, "other"), 65534, -1),
			os.Chown(filepath.Join(dir, "group"), -1, 65534)); err != nil {
			t.Fatal(err)
		}
		want["other"], want["group"] = "user 65534 owns it", "group 65534 may write it"
	}
	found := own(t, dir, Input{})
	for name, what := range want {
		if f := found["user."+name]; f.Status != finding.Warn || !strings.Contains(f.What, what) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	text, err := os.ReadFile(ran)
	for name := range files {
		if _, refused := want[name]; err != nil || strings.Contains(string(text), name) == refused {
			t.Errorf("%s: ran %q, %v", name, text, err)
		}
	}
}
