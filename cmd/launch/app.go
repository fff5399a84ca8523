package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/secret"
	"launch/internal/ui"
)

// app is one run of launch.
type app struct {
	out, err io.Writer
	o        options
	ui       *ui.UI
	code     int

	keys   *secret.Keys           // of LAUNCH_TOKEN; nil: none is set
	latest atomic.Pointer[string] // what the wait is about, by the last event

	stop   func()           // stop listening to signals
	caught func() os.Signal // the one that ended the wait; nil: none
}

// subcommands are launch's own words; any other first word is the command to
// run, and behind -- so are these.
func (a *app) subcommands() []*cli.Command {
	sub := func(name, usage, args string, f func(*cli.Context) error) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, ArgsUsage: args, Action: f, HideHelp: true, HideHelpCommand: true,
			Flags: flagTable(&a.o), OnUsageError: a.usageError}
	}
	return []*cli.Command{
		sub("check", "run this node's checks and print them all", "[-- COMMAND…]", a.check),
		sub("fabric", "print what this node has: interfaces, HCAs, GPUs, limits", "", a.fabric),
		sub("env", "print the variables that a start would set, for eval", "[-- COMMAND…]", a.env),
		sub("status", "print who is where in a job", "[JOB]", a.status),
		sub("store", "host a store in the foreground, for jobs that meet here", "", a.serve),
		sub("completion", "print a completion script: source <(launch completion bash)", "bash|zsh", a.completion),
		sub("version", "print version, commit, and what this build can do", "", a.version),
	}
}

// run parses args and does what they ask. The command's own flags are never
// looked at: everything from the first word that is no flag belongs to it.
func (a *app) run(args []string) int {
	a.o.given = map[string]bool{}
	own, rest, dashed, err := a.split(args[1:])
	c := &cli.App{
		Name: "launch", Usage: "one word before torchrun or mpirun", Writer: a.out, ErrWriter: a.err,
		Flags: flagTable(&a.o), HideHelp: true, HideHelpCommand: true, HideVersion: true,
		OnUsageError:   a.usageError,
		ExitErrHandler: func(*cli.Context, error) {}, // codes are ours: failure()
		Action:         a.start,
	}
	a.ui = a.newUI(slices.Contains(own, "--json"))
	if err != nil {
		return a.fail(err, nil)
	}
	if slices.ContainsFunc(own, wantsHelp) || len(rest) == 1 && rest[0] == "help" && !dashed {
		a.ui.Print(help(flagTable(&options{}), a.subcommands()))
		return 0
	}
	if slices.Contains(own, "--version") {
		own, rest, dashed = slices.DeleteFunc(own, func(w string) bool { return w == "--version" }), []string{"version"}, false
	}
	if len(rest) > 1 && rest[0] == "env" && !strings.HasPrefix(rest[1], "--") {
		dashed = true // env(1) before the command, not launch's own word
	}
	sub := len(rest) > 0 && !dashed && slices.ContainsFunc(a.subcommands(), func(s *cli.Command) bool { return s.HasName(rest[0]) })
	if sub {
		c.Commands = a.subcommands()
		if flags := rest[1:]; len(flags) > 0 && wantsHelp(flags[0]) {
			a.ui.Print(subHelp(c.Command(rest[0])))
			return 0
		}
		for _, w := range rest[1:] {
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			a.o.given[name] = a.o.given[name] || strings.HasPrefix(w, "--")
		}
	}
	line := append([]string{"launch"}, own...)
	if sub { // its flags may stand on either side of its name
		line = slices.Concat(line[:1], rest[:1], own, rest[1:])
	} else {
		line = append(append(line, "--"), rest...)
	}
	if err := c.Run(line); err != nil {
		return a.fail(err, nil)
	}
	return a.code
}

// split parts launch's own flags from what follows. dashed tells that a --
// stood between them.
func (a *app) split(args []string) (own, rest []string, dashed bool, err error) {
	takes := map[string]bool{}
	for _, f := range flagTable(&options{}) {
		_, isBool := f.(*cli.BoolFlag)
		takes[f.Names()[0]] = !isBool
	}
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w == "--" {
			return own, args[i+1:], true, nil
		}
		if len(w) < 2 || w[0] != '-' {
			return own, args[i:], false, nil
		}
		own = append(own, w)
		name, _, joined := strings.Cut(strings.TrimLeft(w, "-"), "=")
		a.o.given[name] = true
		if takes[name] && !joined {
			if i++; i == len(args) {
				return own, nil, false, &job.Error{Code: exitUsage, What: w + " needs a value", Fix: "launch --help says which"}
			}
			own = append(own, args[i])
		}
	}
	return own, nil, false, nil
}

func (a *app) newUI(json bool) *ui.UI {
	if v := os.Getenv("LAUNCH_JSON"); v != "" && v != "0" && v != "false" {
		json = true
	}
	return ui.New(a.out, a.err, ui.Options{JSON: json, Env: os.Getenv})
}

// prepare takes over what the parsed context holds; called first by every
// action.
func (a *app) prepare(c *cli.Context) error {
	a.o.skip, a.o.only = c.StringSlice("skip"), c.StringSlice("only")
	a.ui = a.newUI(a.o.json)
	if a.o.token = os.Getenv("LAUNCH_TOKEN"); a.o.token == "" {
		return nil
	}
	var err error
	if a.keys, err = secret.New(a.o.token); err != nil {
		return &job.Error{Code: exitConfig, What: "LAUNCH_TOKEN: " + err.Error(), Fix: "export LAUNCH_TOKEN=$(openssl rand -hex 16)   # once, the same on all nodes"}
	}
	return nil
}

// badValue is how the flag package, and the cli package for variables, say that
// a value is none.
var badValue = regexp.MustCompile(`^(?:invalid value|could not parse) ("[^"]*") (?:for|as .* for) flag -?([a-z-]+):`) //

// usageError turns what the flag package says into words and a suggestion.
func (a *app) usageError(c *cli.Context, err error, _ bool) error {
	e := &job.Error{Code: exitUsage, What: err.Error(), Fix: "launch --help lists the flags"}
	if m := badValue.FindStringSubmatch(err.Error()); m != nil {
		e.What = fmt.Sprintf("--%s: %s is not a value for it", m[2], m[1])
		if m[2] == "join-timeout" {
			e.Fix = "--join-timeout 90s, 10m or 1h30m"
		}
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		e.What = fmt.Sprintf("unknown flag --%s", name)
		if s := nearest(name); s != "" {
			e.Fix = fmt.Sprintf("did you mean --%s? (the command's own flags go behind the command)", s)
		}
	} else if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		e.What = fmt.Sprintf("--%s needs a value", strings.TrimLeft(name, "-"))
	}
	return e
}

// fail prints why launch ends and returns the exit status.
func (a *app) fail(err error, caught os.Signal) int {
	f := failure(err, caught)
	a.ui.Fail(f)
	return f.Code
}

// job resolves who this node is. argv may be empty for a subcommand that
// works without a command.
func (a *app) job(argv []string) (job.Job, error) {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	if len(argv) == 0 {
		argv = []string{"true"}
	}
	return job.Resolve(job.Input{
		Argv: argv, Flags: a.o.Flags, Env: handoff.Environ(),
		Root: os.DirFS("/"), Home: homeDir(), Dir: dir, Hostname: host,
	})
}

// nearest is the flag that name may have been meant to be, or "".
func nearest(name string) string {
	best, least := "", 1+len(name)/4 // a slip or two, not another word
	for _, f := range flagTable(&options{}) {
		if d := distance(name, f.Names()[0]); d <= least {
			best, least = f.Names()[0], d
		}
	}
	return best
}

// distance is how many letters were added, left out, changed or swapped with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// homeDir is this user's home directory as NCCL finds it, by the password
// database and not by HOME. Of that only the file is read: a directory service
// can hang, and a dry run opens no socket.
func homeDir() string {
	b, _ := os.ReadFile("/etc/passwd")
	uid := strconv.Itoa(os.Getuid())
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 6 && f[2] == uid {
			return f[5]
		}
	}
	return os.Getenv("HOME")
}

// start is the main job.
func (a *app) start(c *cli.Context) error {
	if err := a.prepare(c); err != nil {
		return err
	}
	argv := c.Args().Slice()
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return &job.Error{Code: exitUsage, What: "no command", Fix: "launch --store HOST torchrun --nnodes N train.py   (launch --help says more)"}
	}
	var ctx context.Context
	ctx, a.stop, a.caught = handoff.NotifyContext(context.Background())
	defer a.stop()
	err := a.launch(ctx, argv)
	if err == nil {
		return nil
	}
	a.stop()
	var sig os.Signal
	if ctx.Err() != nil {
		sig = a.caught()
	}
	a.code = a.fail(err, sig)
	return nil
}
