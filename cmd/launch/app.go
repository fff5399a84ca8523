package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/ui"
	"launch/fabric/machine"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/secret"
)

// app is one run of launch.
type app struct {
	out, err io.Writer
	o        options
	ui       *ui.UI
	code     int

	word    string         // launch's own, such as "check"; "" for a start
	own     []string       // launch's flags, as typed
	pending finding.Report // what is to be said about the line, and is not yet

	keys   *secret.Keys                     // of LAUNCH_TOKEN; nil: none is set
	latest atomic.Pointer[string]           // what the wait is about, by the last event
	spare  atomic.Bool                      // this node has no place: the wait has no limit
	joined atomic.Bool                      // this node has its world: who came before is no news
	fell   atomic.Pointer[func(why string)] // what is to end with that world; nil: nothing
	crew   crew                             // the tasks of this node, where there are several
	from   *machine.Machine                 // of --from; nil: this machine

	stop   func()           // stop listening to signals
	caught func() os.Signal // the one that ended the wait; nil: none
}

// run does what args ask and returns the exit status.
func (a *app) run(args []string) int {
	code := a.dispatch(args)
	if err := a.ui.Unwritten(); err != nil && code == 0 {
		return a.fail(&exit.Error{Code: exit.Unwritten, What: "what was asked for was not written, or not all of it: " + err.Error(), Fix: "is the disk full? df -h ."}, nil)
	}
	return code
}

// dispatch parses args and does what they ask. The command's own flags are never
// looked at: everything from the first word that is no flag belongs to it.
func (a *app) dispatch(args []string) int {
	a.o = options{given: map[string]bool{}, joinTimeout: defaultJoinTimeout, startTimeout: defaultStartTimeout, portRange: defaultPortRange, benchPort: defaultBenchPort}
	own, rest, dashed, err := a.split(args[1:])
	a.ui = a.newUI(slices.Contains(own, "--json"))
	if err != nil {
		return a.fail(err, nil)
	}
	if !dashed && len(rest) == 2 && rest[0] == "help" && a.ownWord(rest[1:]) {
		rest = []string{rest[1], "--help"}
	}
	if slices.ContainsFunc(own, wantsHelp) || len(rest) == 1 && rest[0] == "help" && !dashed {
		a.ui.Print(help(startFlags(&options{}), a.subcommands()))
		return 0
	}
	if slices.Contains(own, "--version") {
		own, rest, dashed = slices.DeleteFunc(own, func(w string) bool { return w == "--version" }), []string{"version"}, false
	}
	a.pending = misnamed(handoff.Environ())
	c := &cli.App{
		Name: "launch", Usage: "one word before torchrun or mpirun", Writer: a.out, ErrWriter: a.err,
		Flags: startFlags(&a.o), HideHelp: true, HideHelpCommand: true, HideVersion: true,
		OnUsageError:   a.usageError,
		ExitErrHandler: func(*cli.Context, error) {}, // codes are ours: failure()
		Action:         a.start,
	}
	line := []string{"launch"}
	if !dashed && a.ownWord(rest) {
		a.word, line = rest[0], append(line, rest[0])
		c.Commands, c.Flags = a.subcommands(), nil // variables of flags that it does not have are ignored
		more, behind, err := a.ownSplit(rest[1:])  // its flags may stand on either side of its name
		own, rest = slices.Concat(own, more), behind
		a.ui = a.newUI(slices.Contains(own, "--json"))
		if err != nil {
			return a.fail(err, nil)
		}
		if slices.ContainsFunc(more, wantsHelp) {
			a.ui.Print(subHelp(c.Command(a.word)))
			return 0
		}
	}
	a.own = own
	if err := c.Run(slices.Concat(line, own, []string{"--"}, rest)); err != nil {
		return a.fail(err, nil)
	}
	return a.code
}

// ownSplit parts a subcommand's flags from its arguments. Where these are a
// COMMAND with flags of its own they end at its first word, else at --.
func (a *app) ownSplit(args []string) (own, rest []string, err error) {
	for {
		more, behind, dashed, err := a.split(args)
		own = append(own, more...)
		if err != nil || a.takesCommand() || dashed || len(behind) == 0 {
			return own, append(rest, behind...), err
		}
		rest, args = append(rest, behind[0]), behind[1:]
	}
}

// split parts launch's own flags from what follows. dashed tells that a --
// stood between them.
func (a *app) split(args []string) (own, rest []string, dashed bool, err error) {
	takes := ownFlags()
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
				return own, nil, false, &exit.Error{Code: exit.Usage, What: w + " needs a value", Fix: "launch --help says which"}
			}
			own = append(own, args[i])
		}
	}
	return own, nil, false, nil
}

func (a *app) newUI(json bool) *ui.UI {
	if v, err := strconv.ParseBool(os.Getenv("LAUNCH_JSON")); err == nil && v {
		json = true
	}
	return ui.New(a.out, a.err, ui.Options{JSON: json, Env: os.Getenv})
}

// prepare takes over what the parsed context holds, and checks it before
// anything is done; called first by every action.
func (a *app) prepare(c *cli.Context) error {
	a.o.skip, a.o.only, a.o.rails = a.o.ids(c, "skip"), a.o.ids(c, "only"), a.o.ids(c, "rails")
	a.ui = a.newUI(a.o.json)
	flags, has := c.App.Flags, map[string]bool{}
	if a.word != "" {
		flags = c.Command.Flags
	}
	for _, f := range flags {
		has[f.Names()[0]] = true
	}
	if err := a.o.check(has); err != nil {
		return err
	}
	if has["threshold"] {
		if err := a.o.readThresholds(); err != nil {
			return err
		}
	}
	if err := a.replay(); err != nil {
		return err
	}
	if a.o.token = os.Getenv("LAUNCH_TOKEN"); a.o.token == "" || !has["store"] {
		return nil
	}
	var err error
	if a.keys, err = secret.New(a.o.token); err != nil {
		return &exit.Error{Code: exit.Config, What: "LAUNCH_TOKEN: " + err.Error(), Fix: "export LAUNCH_TOKEN=$(openssl rand -hex 16)   # once, the same on all nodes"}
	}
	return nil
}

// warn prints the findings about this line that nobody has printed yet.
func (a *app) warn() {
	a.ui.Findings(a.pending, false)
	a.pending = nil
}

// fail prints why launch ends and returns the exit status.
func (a *app) fail(err error, caught os.Signal) int {
	a.warn()
	f := failure(err, caught)
	a.ui.Fail(f)
	return f.Code
}

// job resolves who this node is. argv may be empty for a subcommand that
// works without a command.
func (a *app) job(argv []string) (job.Job, error) {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	j, err := job.Resolve(job.Input{
		Word: a.word, Argv: argv, Own: takes(startFlags(&options{})), Flags: a.o.Flags, Env: handoff.Environ(),
		Root: a.root(), Home: homeDir(), Dir: dir, Hostname: host,
	})
	if err == nil && a.from == nil {
		err = a.readInputs(j)
	}
	if a.keys != nil && j.Several() && !j.Store.V.Embedded && !strings.HasPrefix(j.Store.V.Endpoints[0], "https://") {
		a.pending = append(a.pending, finding.Warnf("LAUNCH_TOKEN protects the side channel between the nodes, not the external store").Named("job.token"))
	}
	j.Notes = slices.Concat(a.pending, j.Notes)
	if a.pending = nil; err != nil {
		a.pending = j.Notes
	}
	return j, err
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
	if len(argv) == 0 {
		return &exit.Error{Code: exit.Usage, What: "no command", Fix: "launch --store HOST torchrun --nnodes N train.py   (launch --help says more)"}
	}
	if argv[0] == "" {
		return &exit.Error{Code: exit.Usage, What: "the command is an empty word (a variable that was not expanded?)", Fix: "launch --store HOST torchrun --nnodes N train.py"}
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
	err = meantForLaunch(err, argv[0])
	a.code = a.fail(err, sig)
	a.handFailure(failure(err, sig))
	return nil
}
