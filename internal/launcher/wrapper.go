package launcher

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
)

// wrapper is a program that starts a command in its arguments, which launch leaves as typed: a container, or a shell.
type wrapper struct {
	names string // space-separated
	subs  string // the subcommands that start a command, space-separated; "": all lines do
	// command is the option after which the command is one argument, to which letters may be joined: bash -ec; "": the
	// command is words
	command string
	plain   bool   // it executes its words on this node, and no option of it has a program as its value
	sealed  bool   // the variables of launch do not get through
	seals   string // options by which they do not
}

func wrappers() []wrapper {
	const clean = "--cleanenv -e --containall -C"
	return []wrapper{
		{names: "bash sh dash zsh ksh script", command: "c"},
		{names: "singularity apptainer", subs: "exec run", seals: clean},
		{names: "docker docker-compose podman podman-compose nerdctl", subs: "run exec", sealed: true},
		{names: "enroot", subs: "start exec", sealed: true},
		{names: "unbuffer valgrind ltrace prlimit setarch linux64 tini dumb-init catchsegv chronic flock cgexec " +
			"ddtrace-run opentelemetry-instrument uvx", plain: true},
		{names: "perf", subs: "record stat trace", plain: true},
		{names: "pdm rye dotenv memray", subs: "run", plain: true},
		{names: "direnv", subs: "exec", plain: true},
		{names: "systemd-run", subs: "--scope", plain: true},
	}
}

// sub returns how many of the words there are up to the subcommand that starts a command; 0: they have no such
// subcommand.
func (w wrapper) sub(words []string) int {
	return 1 + slices.IndexFunc(words, func(s string) bool { return slices.Contains(strings.Fields(w.subs), s) })
}

// wrapperOf returns the wrapper of a name.
func wrapperOf(name string) (w wrapper, ok bool) {
	all := wrappers()
	i := slices.IndexFunc(all, func(w wrapper) bool { return slices.Contains(strings.Fields(w.names), name) })
	if i < 0 {
		return wrapper{}, false
	}
	return all[i], true
}

// Executes reports whether a program executes a script among its words on this node: a shell, or one that is plain.
func Executes(program string) bool {
	w, _ := wrapperOf(path.Base(program))
	return w.plain || w.command != ""
}

var placing = regexp.MustCompile(`\b(NODE_RANK|MASTER_ADDR|RANK|PET_\w+|SLURM_\w+)\b|` +
	`(?:^|[\s"'(])--(?:node[-_]rank|machine[-_]rank|master[-_]addr|main[-_]process[-_]ip|` +
	`rdzv[-_]endpoint|hostfile|config[-_]file|(?:nnodes|num[-_](?:nodes|machines))[=\s]+["']?(?:[^1\s]|1[^\s"']))`)

// Placed reports whether the text of a launcher's line, or of a shell script with one, takes its place in the job: from
// variables of launch, or from options of its own.
func Placed(text string) bool { return placing.MatchString(text) }

var (
	torchrunText = regexp.MustCompile(`torchrun|torch\.distributed\.(?:run|launch)\b`)
	launchWord   = regexp.MustCompile(`^(?:[./].*/)?launch$`)
)

// torchrunIn returns the index of the word of a line that is torchrun, or a shell's text with it; -1: it is not there,
// or it has a launch of its own.
func (l Line) torchrunIn() int {
	for i := l.Program + 1; i < len(l.Argv); i++ {
		switch w := l.Argv[i]; {
		case launchWord.MatchString(w):
			return -1
		case strings.ContainsAny(w, " \t\n"):
			if torchrunText.MatchString(w) {
				return i
			}
		case strings.HasPrefix(w, "-"):
		case torchrunName.MatchString(path.Base(w)):
			if i+1 == len(l.Argv) || !isProgram(l.Argv[i+1]) {
				return i
			}
		case pythonName.MatchString(path.Base(w)):
			if t, _ := Parse(l.Argv[i:], ""); t.Kind == Torchrun {
				return i
			}
		}
	}
	return -1
}

// isProgram reports whether a word is a program rather than a script for torchrun: a word before it is then the name of
// an image or a container.
func isProgram(w string) bool {
	name := path.Base(w)
	_, ok := wrapperOf(name)
	return ok || torchrunName.MatchString(name) || pythonName.MatchString(name) || strings.HasSuffix(name, ".sh")
}

// wrapped finds a torchrun that a wrapper of the line starts. One without a place of its own in the job takes it from
// variables, if they get through.
func (l *Line) wrapped() bool {
	at := l.torchrunIn()
	if at < 0 {
		return false
	}
	name, before := path.Base(l.Argv[l.Program]), l.Argv[l.Program+1:at]
	w, ok := wrapperOf(name)
	if !ok {
		return false
	}
	if w.subs != "" && w.sub(before) == 0 {
		return false
	}
	inText := len(before) > 0 && strings.HasPrefix(before[len(before)-1], "-") &&
		strings.HasSuffix(before[len(before)-1], w.command)
	if w.command != "" && !inText {
		return false
	}
	if !l.waits(at, w.plain) {
		return Placed(strings.Join(l.Argv[at:], " "))
	}
	l.Kind, l.Inside = Torchrun, true
	var seals []string
	for _, b := range before {
		if slices.Contains(strings.Fields(w.seals), b) {
			seals = append(seals, b)
		}
	}
	given := slices.ContainsFunc(before, func(b string) bool {
		return strings.Contains(b, "PET_") || strings.HasPrefix(b, "--env-file") || b == "--env-host"
	})
	if (w.sealed || seals != nil) && !given {
		l.Sealed = name
	}
	return true
}

// waits reports whether the torchrun of a word, or of a shell's text, has no place of its own and takes one from
// variables. plain: it is no value of an option.
func (l Line) waits(at int, plain bool) (ok bool) {
	if strings.ContainsAny(l.Argv[at], " \t\n") {
		return Waits(l.Argv[at])
	}
	if !plain && strings.HasPrefix(l.Argv[at-1], "-") ||
		slices.ContainsFunc(l.Argv[:at], func(w string) bool { return pythonName.MatchString(path.Base(w)) }) {
		return false // it is the value of an option, or an argument of a script
	}
	return allWait([]shellCall{{argv: l.Argv[at:]}})
}

// petPlace matches the variables by which torchrun takes a place.
var petPlace = regexp.MustCompile(`\bPET_(?:NNODES|NODE_RANK|MASTER_|RDZV_|STANDALONE)`)

// MpirunIn returns the name of an mpirun that a shell's text starts with a program on each node; "": there is none.
func MpirunIn(text string) string {
	calls := shellCalls(text)
	if slices.ContainsFunc(calls, func(c shellCall) bool { return c.some }) {
		return "" // the nodes differ
	}
	for _, c := range calls {
		if l, err := Parse(c.argv, ""); err == nil && l.Kind == Mpirun && l.Rest < len(l.Argv) {
			return path.Base(l.Argv[l.At])
		}
	}
	return ""
}

// Waits reports whether each torchrun of a shell's text has no place of its own. What else the text does with variables
// of launch is of no matter, unless they are those that torchrun reads.
func Waits(text string) bool { return !petPlace.MatchString(text) && allWait(shellCalls(text)) }

func allWait(calls []shellCall) (ok bool) {
	for _, c := range calls {
		t, err := Parse(c.argv, "")
		switch {
		case t.Kind != Torchrun:
			continue
		case c.some, err != nil, t.Sealed != "", t.placed(), t.Rest >= len(c.argv),
			strings.IndexAny(c.argv[t.Rest], "$\"`") == 0: // it may have options
			return false
		}
		ok = true
	}
	return ok
}

// placed reports whether the options of a torchrun give it a place: more than the number of nodes, which the job
// has anyway.
func (l Line) placed() bool {
	if l.Standalone.Set || l.has("node_rank") || l.has("master_addr") || l.has("rdzv_endpoint") || l.has("rdzv_backend") {
		return true
	}
	n, _ := strconv.Atoi(l.NNodes.Value)
	return l.NNodes.Set && n < 2 && strings.Trim(l.NNodes.Value, `"${}`) != "NNODES"
}

// checkSealed returns the error of a torchrun that does not get its place in the job.
func (l Line) checkSealed() error {
	return exit.Errorf(exit.Config, "%s starts torchrun without the variables of launch, and the line of torchrun has no "+
		"place in the job: each node would train or wait alone", l.Sealed)
}

// insteadSealed returns the line by which the variables get through.
func (l Line) insteadSealed() []string {
	at := l.torchrunIn()
	w, _ := wrapperOf(path.Base(l.Argv[l.Program]))
	begin := l.Program + 1 + w.sub(l.Argv[l.Program+1:at])
	out := slices.Clone(l.Argv[:begin])
	if i := slices.Index(l.Argv[:l.Program], "sudo"); i >= 0 && l.Env.Clear { // docker takes the values of -e from there
		out = slices.Insert(out, i+1, "-E")
	}
	words := l.Argv[begin:at]
	if !w.sealed {
		words = slices.DeleteFunc(slices.Clone(words), func(o string) bool {
			return slices.Contains(strings.Fields(w.seals), o)
		})
		return slices.Concat(out, words, l.Argv[at:])
	}
	network := slices.ContainsFunc(words, func(w string) bool {
		return w == "--network" || w == "--net" || strings.HasPrefix(w, "--network=") || strings.HasPrefix(w, "--net=")
	})
	compose := slices.ContainsFunc(l.Argv[l.Program:begin], func(w string) bool { return strings.Contains(w, "compose") })
	if !network && !compose && l.Argv[begin-1] == "run" { // enroot has the host's, compose the one of its file
		out = append(out, "--network", "host")
	}
	for _, name := range []string{"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT",
		"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} {
		out = append(out, "-e", name)
	}
	return slices.Concat(out, words, l.Argv[at:])
}

// TakesPlace reports whether a torchrun in the arguments of a program takes its place in the job.
func (l Line) TakesPlace() bool {
	at := l.torchrunIn()
	return l.Kind == Program && at >= 0 && Placed(strings.Join(l.Argv[at:], " "))
}

// several matches an option of srun for several nodes, with its value.
var several = regexp.MustCompile(`^(?:-N|--nodes)[= ]?(?:[2-9]|[1-9][0-9])`)

// checkSrun returns the error of a line by which each node would start the whole step: launch goes after srun.
func (l Line) checkSrun() error {
	if l.Kind != Program || l.Program >= len(l.Argv) || path.Base(l.Argv[l.Program]) != "srun" {
		return nil
	}
	wide := false
	for i := l.Program + 1; i < len(l.Argv); i++ {
		w := path.Base(l.Argv[i])
		if torchrunName.MatchString(w) || pythonName.MatchString(w) {
			if !wide {
				return nil
			}
			return exit.Errorf(exit.Config, "launch runs the command on each node, but srun starts the tasks of all "+
				"nodes itself").
				Do("%s   # once", Quote(slices.Insert(slices.Clone(l.Argv), i, "launch")))
		}
		wide = wide || several.MatchString(strings.Join(l.Argv[i:min(i+2, len(l.Argv))], " "))
	}
	return nil
}

// Wraps reports whether the program is a shell or a container, which starts its command on this node.
func (l Line) Wraps() bool {
	_, ok := wrapperOf(path.Base(l.Argv[l.Program]))
	return ok
}

// hint notes that a plain program seems to call torchrun: launch cannot rewrite its
// arguments, and without that torchrun would start N worlds of one node.
func (l *Line) hint() string {
	at := l.torchrunIn()
	if _, _, ok := l.Entry(); ok || at < 0 || Placed(strings.Join(l.Argv[at:], " ")) {
		return ""
	}
	return "torchrun is an argument of " + path.Base(l.Argv[l.Program]) + ", which launch does not parse: put launch " +
		"right before torchrun, or add --as torchrun"
}
