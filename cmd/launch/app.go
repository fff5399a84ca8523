package main

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/start"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/preflight/checks"
)

// app is one run of launch.
type app struct {
	*start.Start
	out, err io.Writer
	own      []string // launch's flags, as typed
	flags    *flags

	watch    bool   // launch status
	prefix   string // launch store clean
	interval time.Duration
	listen   string // of metrics
	svg      string
	doc      doctorOptions
}

func newApp(out, err io.Writer) *app {
	a := &app{out: out, err: err, Start: &start.Start{Opt: start.NewOptions(), Checks: checks.Table(),
		Version: version + " " + commit}}
	a.flags = newFlags(a)
	return a
}

// run runs launch with args and returns the exit status. Lost output is a failure.
func (a *app) run(args []string) int {
	code := a.dispatch(args)
	if err := a.UI.Unwritten(); err != nil && code == 0 {
		return a.Fail(exit.Errorf(exit.Unwritten, "the output was not written completely: %v", err).
			Do("is the disk full? df -h ."), nil)
	}
	return code
}

// dispatch runs what args name and returns the exit status. It ignores the command's
// own flags: everything from the first argument without a dash is the command's.
func (a *app) dispatch(args []string) int {
	own, rest, dashed, err := a.split(args)
	a.UI = a.newUI(slices.Contains(own, "--json"))
	switch {
	case err != nil:
		return a.Fail(err, nil)
	case len(args) > 0 && args[len(args)-1] == completeFlag:
		return a.complete(own, rest)
	case !dashed && len(rest) == 2 && rest[0] == "help" && a.subcommand(rest[1:]) != nil:
		rest = []string{rest[1], "--help"}
	case !dashed && len(rest) == 2 && rest[0] == "help":
		return a.Fail(a.unknownTopic(rest[1]), nil)
	case slices.ContainsFunc(own, wantsHelp), !dashed && len(rest) == 1 && rest[0] == "help":
		a.UI.Print(a.help())
		return 0
	case slices.Contains(own, "--version"):
		own, rest = slices.DeleteFunc(own, func(w string) bool { return w == "--version" }), []string{"version"}
	}
	a.Pending = a.misnamed(handoff.Environ())
	c := a.cli()
	line := []string{"launch"}
	if !dashed && a.subcommand(rest) != nil {
		a.Subcommand, line = rest[0], append(line, rest[0])
		c.Commands, c.Flags = a.subcommands(), nil // variables of flags that it does not have are ignored
		more, args, err := a.splitSubcommand(rest[1:])
		own, rest = slices.Concat(own, more), args // its flags may be on either side of its name
		a.UI = a.newUI(slices.Contains(own, "--json"))
		if err != nil {
			return a.Fail(err, nil)
		}
		if slices.ContainsFunc(more, wantsHelp) {
			a.UI.Print(subcommandHelp(c.Command(a.Subcommand)))
			return 0
		}
	}
	a.own = own
	a.flags = newFlags(a) // now that the typed flags are known
	if c.Flags = a.startFlags(); a.Subcommand != "" {
		c.Commands, c.Flags = a.subcommands(), nil
	}
	if err := c.Run(slices.Concat(line, own, []string{"--"}, rest)); err != nil {
		if status, ok := err.(ended); ok {
			return int(status)
		}
		return a.refuse(rest, err)
	}
	return 0
}

// ended is an exit status whose reason is printed already.
type ended int

func (ended) Error() string { return "" }

// end makes an exit status what a command returns.
func end(status int) error {
	if status == 0 {
		return nil
	}
	return ended(status)
}

// cli returns the parser of a start's flags.
func (a *app) cli() *cli.App {
	return &cli.App{
		Name: "launch", Usage: "one word before torchrun or mpirun", Writer: a.out, ErrWriter: a.err,
		HideHelp: true, HideHelpCommand: true, HideVersion: true,
		OnUsageError:   a.usageError,
		ExitErrHandler: func(*cli.Context, error) {}, // exit statuses are launch's own
		Action:         a.start,
	}
}

// splitSubcommand separates a subcommand's flags from its arguments. If these
// are a COMMAND with flags of its own, launch's end at its first word, else at --.
func (a *app) splitSubcommand(args []string) (own, rest []string, err error) {
	for {
		more, after, dashed, err := a.split(args)
		own = append(own, more...)
		if err != nil || a.takesCommand() || dashed || len(after) == 0 {
			return own, append(rest, after...), err
		}
		rest, args = append(rest, after[0]), after[1:]
	}
}

// split separates launch's own flags from what follows. dashed reports a -- in between.
func (a *app) split(args []string) (own, rest []string, dashed bool, err error) {
	needsValue := takes(a.allFlags())
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
		a.Opt.Given[name] = true
		if needsValue[name] && !joined {
			if i++; i == len(args) {
				return own, nil, false, exit.Errorf(exit.Usage, "%s needs a value", w).Do("launch --help lists the flags")
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
	host, _ := os.Hostname()
	return ui.New(a.out, a.err, ui.Options{JSON: json, Host: host, Env: os.Getenv})
}

// prepare checks the settings that the parsed flags made.
func (a *app) prepare(flags []cli.Flag) error {
	a.UI = a.newUI(a.Opt.JSON)
	has := map[string]bool{}
	for _, f := range flags {
		has[f.Names()[0]] = true
	}
	return a.Prepare(has)
}

// start starts the command.
func (a *app) start(c *cli.Context) error {
	if err := a.prepare(c.App.Flags); err != nil {
		return err
	}
	argv := c.Args().Slice()
	if len(argv) == 0 {
		return exit.Errorf(exit.Usage, "no command").
			Do("launch --store HOST torchrun --nnodes N train.py   (see launch --help)")
	}
	if argv[0] == "" {
		return exit.Errorf(exit.Usage, "the command is empty (a variable that was not expanded?)").
			Do("launch --store HOST torchrun --nnodes N train.py")
	}
	if err := a.unknownCommand(argv); err != nil {
		return err
	}
	if a.Opt.Given["bundle"] && !a.Opt.EndsHung() {
		return exit.Errorf(exit.Usage, "--bundle in a start needs --on-hang end").
			Do("--on-hang end --bundle FILE, or launch doctor --bundle FILE while the job hangs")
	}
	a.Flags, a.Hint, a.Bundle = takes(a.startFlags()), a.meantForLaunch, a.hangBundle
	return end(a.Launch(c.Context, argv))
}
