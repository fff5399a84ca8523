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
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"launch/internal/child"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight/threshold"
)

const (
	userPrefix = "user."
	// maxUser is more checks than a user writes, and fewer than the programs of a directory like /usr/bin.
	maxUser = 64
	// skipStatus is EX_TEMPFAIL of sysexits.h: try again later.
	skipStatus = 75
	// maxShown limits the output of a check in a report, in bytes.
	maxShown = 500
	// maxQuoted is that limit for output that is not text.
	maxQuoted = 64
)

// CheckDir returns the user's own checks: one for each executable file of a directory. A file that is not
// executable, or that another user may have written, becomes a check that reports this; hidden files and those
// that end in ~ are left out. The fields Thresholds, Dir and UserEnv of in apply; without UserEnv the checks are
// skipped. The error reports a directory that cannot be read, or that holds more programs than a directory of
// checks would.
func CheckDir(dir string, in Input) ([]Check, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	limit := time.Duration(in.Threshold(threshold.UserCheck) * float64(time.Second))
	var out []Check
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // a ConfigMap's files are symbolic links
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if len(out) == maxUser {
			return nil, fmt.Errorf("more than %d files, is this the right directory?", maxUser)
		}
		c := Check{ID: userID(e.Name(), out), Title: path, Limit: limit + child.Slack}
		switch {
		case err != nil:
			c.Run = always(finding.Warnf("%s cannot be read: %v", path, cause(err)).Do("ls -lL %s", quoted(path)))
		case info.Mode().Perm()&0o111 == 0:
			c.Run = always(finding.Warnf("%s is not executable, so it does not run", path).
				Do("chmod +x %s   # a ConfigMap: defaultMode: 0755; not a check: move it elsewhere", quoted(path)))
		case strangers(info) != "":
			c.Run = always(finding.Warnf("%s is not run: %s", path, strangers(info)).
				Do("cat %s   # read it; then: chown $(id -u) %s && chmod go-w %s", quoted(path), quoted(path), quoted(path)))
		default:
			c.Run = One(func(ctx context.Context, in Input) finding.Finding { return runUser(ctx, path, limit, in) })
		}
		out = append(out, c)
	}
	return out, nil
}

// strangers returns who else could have written a program; "": only this user, or root.
func strangers(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode().Perm(); {
	case !ok:
		return ""
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Sprintf("user %d owns it", st.Uid)
	case mode&0o002 != 0:
		return fmt.Sprintf("all users may write it (%v)", mode)
	case mode&0o020 != 0 && int(st.Gid) != os.Getegid():
		return fmt.Sprintf("group %d may write it (%v)", st.Gid, mode)
	}
	return ""
}

func quoted(path string) string { return launcher.Quote([]string{path}) }

func always(f finding.Finding) func(context.Context, Input) []finding.Finding {
	return One(func(context.Context, Input) finding.Finding { return f })
}

// userID returns the ID of the check in a file: unique, and valid in a list that is separated by commas.
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

// runUser runs one check and returns a finding about its end and its output.
func runUser(ctx context.Context, path string, limit time.Duration, in Input) finding.Finding {
	if in.UserEnv == nil {
		return finding.Skipf("this run executes no user checks")
	}
	facts, err := json.Marshal(in.Node)
	if err != nil {
		return finding.Skipf("could not tell: %v", err)
	}
	e := child.Run(ctx, child.Program{Path: path, Dir: in.Dir, Stdin: facts, Limit: limit,
		Env: append(slices.Clone(in.UserEnv), "LAUNCH_CHECK=1")})
	switch {
	case e.NotStarted != nil:
		return notStarted(path, e.NotStarted)
	case e.Late:
		f := finding.Warnf("did not end within %s and was killed", limit).
			Do("%s   # by hand; for more time: --threshold %s=%s", quoted(path), threshold.UserCheck,
				threshold.Seconds.Format(4*max(limit, time.Second).Seconds()))
		if e.Stuck != 0 {
			f.What = fmt.Sprintf("did not end within %s, and SIGKILL does not end it: pid %d is stuck in the kernel",
				limit, e.Stuck)
			f = f.Breaking("every process that touches the same resource hangs, as with a mount whose server is gone")
		}
		return lastWords(e, f, path)
	case e.Signal != "":
		return lastWords(e, finding.Warnf("was killed by %s", e.Signal).Do("%s   # by hand", quoted(path)), path)
	}
	return userVerdict(e, path)
}

// userVerdict returns the finding of a check that ended: exit status 0 is a pass, 75 a skip, any
// other a failure. A graver status in the last line of output counts instead.
func userVerdict(e child.End, path string) finding.Finding {
	line, ended := lastLine(e.Stdout), fmt.Sprintf("ended with exit status %d", e.Status)
	f := finding.Finding{Status: finding.Fail, What: shown(cmp.Or(line, lastLine(e.Stderr), ended))}
	switch e.Status {
	case 0:
		f.Status, f.What = finding.Pass, shown(cmp.Or(line, ended))
	case skipStatus:
		f.Status = finding.Skip
	}
	by := f.Status
	said, ok, odd := parseVerdict(line)
	if ok {
		f.What, f.Breaks, f.Fix = shown(cmp.Or(said.What, ended)), shown(said.Breaks), shown(said.Fix)
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
		how += fmt.Sprintf(", and its last line has status %q", said.Status)
	}
	f = f.See(path, "%s", how)
	if text := lastLine(e.Stderr); text != "" && shown(text) != f.What {
		f = f.See(path+" stderr", "%s", shown(text))
	}
	if f.Fix == "" {
		f = f.Do("%s   # by hand", quoted(path))
	}
	return f
}

// lastWords adds the last line of output of a check that gave no verdict.
func lastWords(e child.End, f finding.Finding, path string) finding.Finding {
	if text := cmp.Or(lastLine(e.Stderr), lastLine(e.Stdout)); text != "" {
		f = f.See(path, "%s", shown(text))
	}
	return f
}

// userLine is the JSON object that a check may print as its last line.
type userLine struct {
	Status finding.Status `json:"status"`
	What   string         `json:"what"`
	Breaks string         `json:"breaks"`
	Fix    string         `json:"fix"`
}

// parseVerdict reads a last line. ok: it is a verdict, whose Status may be empty. odd describes an invalid verdict.
func parseVerdict(line string) (v userLine, ok bool, odd string) {
	if !strings.HasPrefix(line, "{") {
		return v, false, ""
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return userLine{}, false,
			"its last line is no valid JSON object of status, what, breaks and fix: " + shown(err.Error())
	}
	if v.Status != "" && Gravity(v.Status) == 0 {
		odd = fmt.Sprintf("its status is %q, not ok, warn, fail or skip", shown(string(v.Status)))
		v.Status = ""
	}
	return v, true, odd
}

// Gravity orders statuses: pass, skip, warn, fail. It is 0 for an invalid one.
func Gravity(s finding.Status) int {
	return 1 + slices.Index([]finding.Status{finding.Pass, finding.Skip, finding.Warn, finding.Fail}, s)
}

// notStarted returns the finding for a program that cannot be executed. The kernel
// reports "no such file" for an existing script whose interpreter is missing.
func notStarted(path string, err error) finding.Finding {
	first := firstLine(path)
	interpreter, script := strings.CutPrefix(first, "#!")
	f := finding.Warnf("could not be started: %v", cause(err))
	switch {
	case script && strings.HasSuffix(first, "\r"):
		return f.See(path, "its first line is %q", first).
			Do(`sed -i 's/\r$//' %s   # it has the line ends of Windows`, quoted(path))
	case script && errors.Is(err, fs.ErrNotExist):
		return f.See(path, "its first line is %q", first).
			Do("install %q on this node, or correct the first line", strings.TrimSpace(interpreter))
	case errors.Is(err, fs.ErrPermission):
		return f.Do("ls -l %s   # a mount with noexec, or an interpreter that is not executable?", quoted(path))
	case !script && !strings.ContainsAny(first, "\x00\x7f\x01\x02"): // text
		return f.See(path, "its first line is %q", first).Do("make its first line: #!/bin/sh")
	}
	return f.Do("file %s   # built for this machine?", quoted(path))
}

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

// cause returns an error without its call and path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// lastLine returns the last line that is not empty.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// shown returns the output of a user's program, short enough for a report and quoted where it is not text.
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
