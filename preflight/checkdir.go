package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"launch/internal/child"
	"launch/internal/finding"
	"launch/internal/launcher"
)

const (
	userLimit   = "user.limit"
	userSeconds = 5 // a mount or a service that is healthy answers in far less; a start should not wait long for one that is not

	userPrefix = "user."
	// maxUser is more checks than anybody writes, and fewer programs than stand
	// in a directory that was named by mistake (/usr/bin).
	maxUser = 64
	// skipStatus is EX_TEMPFAIL of sysexits.h: try again later.
	skipStatus = 75
	// maxShown is how much of what a check said is shown, in bytes.
	maxShown = 500
	// maxQuoted is the same for what is no text.
	maxQuoted = 64
)

// CheckDir is the user's own checks: each executable file of a directory, by
// its name. A file that cannot be executed is a check that says so; hidden
// files and those that end in ~ are left out. What in has says how they are run:
// Thresholds, Dir, and UserEnv; where that is nil they are skipped. The error is
// that of a directory that cannot be read, or that has too many programs to be
// meant.
func CheckDir(dir string, in Input) ([]Check, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	limit := time.Duration(in.Threshold(userLimit) * float64(time.Second))
	var out []Check
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // a ConfigMap's files are symbolic links
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if len(out) == maxUser {
			return nil, fmt.Errorf("more than %d files: is it the directory that was meant?", maxUser)
		}
		c := Check{ID: userID(e.Name(), out), Title: path, Limit: limit + child.Slack}
		switch {
		case err != nil:
			c.Run = always(finding.Warnf("%s cannot be looked at: %v", path, cause(err)).Do("ls -lL %s", launcher.Quote([]string{path})))
		case info.Mode().Perm()&0o111 == 0:
			c.Run = always(finding.Warnf("%s is not executable, so it was not run", path).
				Do("chmod +x %s   # of a ConfigMap: defaultMode: 0755; what is no check: move it elsewhere", launcher.Quote([]string{path})))
		default:
			c.Run = One(func(ctx context.Context, in Input) finding.Finding { return runUser(ctx, path, limit, in) })
		}
		out = append(out, c)
	}
	return out, nil
}

func always(f finding.Finding) func(context.Context, Input) []finding.Finding {
	return One(func(context.Context, Input) finding.Finding { return f })
}

// userID makes an ID of a file's name that stands in a comma list, and that no
// other file has.
func userID(name string, others []Check) string {
	base := userPrefix + strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}
		return '-'
	}, name)
	id := base
	for n := 2; slices.ContainsFunc(others, func(c Check) bool { return c.ID == id }); n++ {
		id = base + "-" + strconv.Itoa(n)
	}
	return id
}

// runUser runs one check and makes a finding of how it ended and what it said.
func runUser(ctx context.Context, path string, limit time.Duration, in Input) finding.Finding {
	if in.UserEnv == nil {
		return finding.Skipf("nothing is executed here")
	}
	facts, err := json.Marshal(in.Node)
	if err != nil {
		return finding.Skipf("could not tell: %v", err)
	}
	e := child.Run(ctx, child.Program{Path: path, Dir: in.Dir, Env: append(slices.Clone(in.UserEnv), "LAUNCH_CHECK=1"), Stdin: facts, Limit: limit})
	switch {
	case e.NotStarted != nil:
		return notStarted(path, e.NotStarted)
	case e.Late:
		f := finding.Warnf("did not end within %s, and was killed", limit).
			Do("%s   # by hand; more time: --threshold %s=%s", launcher.Quote([]string{path}), userLimit, Seconds.Format(4*max(limit, time.Second).Seconds()))
		if e.Stuck != 0 {
			f.What = fmt.Sprintf("did not end within %s, and SIGKILL does not end it: pid %d is stuck in the kernel", limit, e.Stuck)
			f = f.Breaking("what it looked at hangs every process that looks at it, as a mount whose server is gone does")
		}
		return lastWords(e, f, path)
	case e.Signal != "":
		return lastWords(e, finding.Warnf("died of %s", e.Signal).Do("%s   # by hand", launcher.Quote([]string{path})), path)
	}
	return userVerdict(e, path)
}

// userVerdict is what an exit status and a last line say. 0 is a pass, 75 a skip,
// any other a fail; where the line says something graver that counts.
func userVerdict(e child.End, path string) finding.Finding {
	line := lastLine(e.Stdout)
	f := finding.Finding{Status: finding.Fail, What: shown(cmp.Or(line, lastLine(e.Stderr), fmt.Sprintf("ended with exit status %d", e.Status)))}
	switch e.Status {
	case 0:
		f = finding.Passf("%s", shown(cmp.Or(line, "ended well")))
	case skipStatus:
		f.Status = finding.Skip
	}
	by := f.Status
	said, ok, odd := parseVerdict(line)
	if ok {
		f = finding.Finding{Status: f.Status, What: shown(cmp.Or(said.What, fmt.Sprintf("ended with exit status %d", e.Status))), Breaks: shown(said.Breaks), Fix: shown(said.Fix)}
		if Gravity(said.Status) > Gravity(f.Status) {
			f.Status = said.Status
		}
	}
	if f.Status == finding.Pass || f.Status == finding.Skip {
		return f
	}
	if odd != "" {
		f = f.See(path, "%s", odd)
	}
	how := fmt.Sprintf("exit status %d", e.Status)
	if ok && said.Status != "" && said.Status != by {
		how += fmt.Sprintf(", and its line says %q", said.Status)
	}
	f = f.See(path, "%s", how)
	if text := lastLine(e.Stderr); text != "" && shown(text) != f.What {
		f = f.See(path+" stderr", "%s", shown(text))
	}
	if f.Fix == "" {
		f = f.Do("%s   # by hand", launcher.Quote([]string{path}))
	}
	return f
}

// lastWords adds the last words of a check that gave no verdict.
func lastWords(e child.End, f finding.Finding, path string) finding.Finding {
	if text := cmp.Or(lastLine(e.Stderr), lastLine(e.Stdout)); text != "" {
		f = f.See(path, "%s", shown(text))
	}
	return f
}

// userLine is the JSON line that a check may end with.
type userLine struct {
	Status finding.Status `json:"status"`
	What   string         `json:"what"`
	Breaks string         `json:"breaks"`
	Fix    string         `json:"fix"`
}

// parseVerdict reads a last line. ok: it is a verdict, whose Status may be
// empty. odd is what is wrong with one that was meant to be.
func parseVerdict(line string) (v userLine, ok bool, odd string) {
	if !strings.HasPrefix(line, "{") {
		return v, false, ""
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return userLine{}, false, "its last line is no JSON object with status, what, breaks, fix: " + shown(err.Error())
	}
	if v.Status != "" && Gravity(v.Status) == 0 {
		odd = fmt.Sprintf("its status is %q, not ok, warn, fail or skip", shown(string(v.Status)))
		v.Status = ""
	}
	return v, true, odd
}

// counts orders what a check may say of itself: of two the higher one counts,
// and "could not tell" is more than a pass. 0: no status.
func Gravity(s finding.Status) int {
	return 1 + slices.Index([]finding.Status{finding.Pass, finding.Skip, finding.Warn, finding.Fail}, s)
}

// notStarted says why a program could not be executed. The kernel's word for a
// first line that names nothing is "no such file", of a file that is there.
func notStarted(path string, err error) finding.Finding {
	first := firstLine(path)
	interpreter, script := strings.CutPrefix(first, "#!")
	f := finding.Warnf("could not be started: %v", cause(err))
	switch {
	case script && strings.HasSuffix(first, "\r"):
		return f.See(path, "its first line is %q", first).Do(`sed -i 's/\r$//' %s   # its lines end as on Windows`, launcher.Quote([]string{path}))
	case script && errors.Is(err, fs.ErrNotExist):
		return f.See(path, "its first line is %q", first).Do("is %q on this node?", strings.TrimSpace(interpreter))
	case errors.Is(err, fs.ErrPermission):
		return f.Do("ls -l %s; is it on a mount with noexec, or its interpreter not executable?", launcher.Quote([]string{path}))
	case !script && isText(first):
		return f.See(path, "its first line is %q", first).Do("give it a first line: #!/bin/sh")
	}
	return f.Do("file %s   # is it for this machine?", launcher.Quote([]string{path}))
}

// firstLine is the beginning of a file up to its first end of line.
func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256) // the kernel reads as much of it (BINPRM_BUF_SIZE)
	n, _ := f.Read(b)
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	return line
}

func isText(s string) bool { return !strings.ContainsAny(s, "\x00\x7f\x01\x02") }

// cause is an error without the path and the call that stand before it.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// lastLine is the last line that is not empty.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// shown is text of a user's program, short enough for a report; quoted where it
// is not all text.
func shown(s string) string {
	cut := ""
	if len(s) > maxShown {
		s, cut = s[:maxShown], "…"
		for r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1; r, n = utf8.DecodeLastRuneInString(s) {
			s = s[:len(s)-1] // half a rune, or no text at all
		}
	}
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if strings.ContainsFunc(s, odd) {
		s = strconv.Quote(s[:min(len(s), maxQuoted)])
	}
	return s + cut
}
