package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"launch/internal/finding"
	"launch/preflight"
)

// strange is a kind of characters that are not seen, or look like others.
type strange struct {
	has       func(r rune) bool
	name, why string
	fix       string
}

const (
	copied = "it was copied from a document or a page"
	again  = "type it again, in an editor that shows such characters"
)

func strangers() []strange {
	of := func(all string) func(rune) bool { return func(r rune) bool { return strings.ContainsRune(all, r) } }
	return []strange{
		{of("\r"), "a carriage return (\\r)", "a file with Windows line ends (CR LF) was read", windowsEnds},
		{of("\u00a0\u2007\u202f\u200b\ufeff"), "a special space, at which no shell separates words", copied, again},
		{of("\u2018\u201c\u201d"), "a typographic quote", copied, again},
		{func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != 0x1b }, "a control character",
			"it was typed or copied by mistake", again},
	}
}

// windowsEnds is how a file loses its Windows line ends.
const windowsEnds = "sed -i 's/\\r$//' FILE   # the file that the value is from: a script, a .env file, a configuration"

// characters looks at the words of the command, and at the variables that torchrun, NCCL and Gloo read. Words with
// spaces are texts, in which a quote or a special space has its right.
func characters(_ context.Context, in preflight.Input) []finding.Finding {
	if len(in.Job.Line.Argv) == 0 {
		return []finding.Finding{finding.Skipf("no command is given")}
	}
	var out []finding.Finding
	for i, arg := range in.Job.Line.Argv {
		what := argument(in.Job.Line.Argv, i)
		if f, ok := unseen(what, arg); ok {
			out = append(out, f)
		}
		if r := dash(arg); r != 0 && (i == 0 || !option.MatchString(in.Job.Line.Argv[i-1])) { // else it may be a value
			out = append(out, finding.Warnf("%s has %U where an option has a hyphen-minus (-); probably %s", what, r,
				copied).Breaking("no program takes it for an option").Do("%s", again))
		}
	}
	for _, name := range variables() {
		if v, _ := in.Getenv(name); v != "" {
			if f, ok := unseen("the variable "+name, v); ok {
				out = append(out, f)
			}
		}
	}
	for _, d := range in.Job.Decided {
		if f, ok := unseen("the variable "+d.Name, d.Value); ok && !slices.Contains(variables(), d.Name) {
			out = append(out, f)
		}
	}
	for _, file := range in.Job.Windows {
		out = append(out, stops(in, finding.Warnf("%s has Windows line ends (CR LF), and a shell reads it", file)).
			See(file, "a carriage return before the end of a line").
			Do("sed -i 's/\\r$//' %s", file))
	}
	return preflight.OrPass(out, "no such character")
}

// variables are those by which a rank finds the others.
func variables() []string {
	return []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "NNODES",
		"PET_NNODES", "PET_NODE_RANK", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_MASTER_PORT", "TMPDIR", "PYTHONPATH",
		"CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA"}
}

// option matches an option that may be shown: not a short one with its value attached (-psecret).
var option = regexp.MustCompile(`^(?:--[A-Za-z][\w.-]*|-[A-Za-z])$`)

// argument names an argument of the command by its place, and by its option or the one before it.
func argument(argv []string, i int) string {
	text := fmt.Sprintf("argument %d of the command", i)
	name, _, own := strings.Cut(argv[i], "=")
	if !own && i > 0 && !strings.HasPrefix(argv[i], "-") {
		name, own = argv[i-1], true
	}
	if own && option.MatchString(name) {
		return fmt.Sprintf("%s (%s)", text, name)
	}
	return text
}

// unseen returns a finding about the first kind of strange characters in a value, which may be a secret and is not
// shown. An apostrophe (’) is one of a name.
func unseen(what, value string) (finding.Finding, bool) {
	from := strings.LastIndexAny(value, " \n") + 1 // a text, as after bash -c or --prompt: only what ends it counts
	if from > 0 && strings.ContainsAny(value[from:], "\u2018\u2019\u201c\u201d\u00a0") {
		return finding.Finding{}, false
	}
	for _, s := range strangers() {
		if at := strings.IndexFunc(value[from:], s.has); at >= 0 {
			return finding.Warnf("%s has %s, %s; probably %s", what, s.name, place(value, from+at), s.why).
				Breaking("the character is a part of the value: a name with it is not found, a number with it is no number").
				Do("%s", s.fix), true
		}
	}
	return finding.Finding{}, false
}

// dashed matches an option of which a hyphen may be another dash.
var dashed = regexp.MustCompile(`^[-\x{2010}-\x{2015}\x{2212}]{1,2}[A-Za-z][\w-]*(=|$)`)

// dash returns the character that stands for a hyphen at the beginning of an option; 0: there is no other one.
func dash(arg string) rune {
	if i := strings.IndexFunc(arg, func(r rune) bool { return r != '-' }); i >= 0 && dashed.MatchString(arg) {
		if r, _ := utf8.DecodeRuneInString(arg[i:]); r > unicode.MaxASCII {
			return r
		}
	}
	return 0
}

// place says which character of a value begins at a byte, and where that is.
func place(value string, at int) string {
	r, n := utf8.DecodeRuneInString(value[at:])
	before := utf8.RuneCountInString(value[:at])
	switch {
	case at+n == len(value):
		return fmt.Sprintf("%U, its last character", r)
	case before == 0:
		return fmt.Sprintf("%U, its first character", r)
	}
	return fmt.Sprintf("%U, after %s", r, finding.Count(before, "character"))
}

// The longest path of a socket (sun_path of unix(7), less its NUL), and what multiprocessing adds to the folder for
// temporary files: /pymp-XXXXXXXX/listener-XXXXXXXX (Lib/multiprocessing/util.py, connection.py).
const (
	longestSocket = 107
	socketName    = len("/pymp-XXXXXXXX/listener-XXXXXXXX")
)

func socketPath(_ context.Context, in preflight.Input) finding.Finding {
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		dir, _ := in.Getenv(name)
		if dir == "" {
			continue
		}
		if n := len(dir) + socketName; n > longestSocket {
			return finding.Warnf("%s is %d bytes long: the path of a socket in it has %d bytes, and Linux takes %d", name,
				len(dir), n, longestSocket).See(name, "%s", dir).
				Breaking("Python's multiprocessing may end with \"AF_UNIX path too long\": DataLoader workers, managers, and "+
					"tensors that are passed between processes; the other nodes wait for this one").
				Do("TMPDIR=/tmp launch …   # or another folder of at most %d bytes", longestSocket-socketName)
		}
		return finding.Passf("%s leaves room for the name of a socket", name)
	}
	return finding.Passf("TMPDIR is not set")
}
