// Package command holds the checks of the command: the program, its script, and the variables that it inherits.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"launch/internal/finding"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report. The first two end in two exit statuses, as
// in a shell: 127 if the command is not found, 126 if it is not executable. Both look at the first word of the
// line, which launch executes; numactl or uv run find the command after them on their own.
// Those of the environment report the findings of the lint, each with the ID that the lint gives it.
func Checks() []preflight.Check {
	return []preflight.Check{{
		ID: "command.found", Limit: lookLimit, Title: "the command exists on this node",
		Doc:    "Where one node cannot start the command, all others wait for it.",
		Unless: notLookedUp, Run: preflight.One(commandFound),
	}, {
		ID: "command.executable", Limit: lookLimit, Needs: []string{"command.found"},
		Title:  "this user may execute the command",
		Doc:    "Where one node cannot start the command, all others wait for it.",
		Unless: notLookedUp, Run: preflight.One(commandExecutable),
	}, {
		ID: "command.script", Needs: []string{"command.found"}, Limit: lookLimit,
		Title: "this node can read the file that Python runs",
		Doc:   "Python opens the file after all nodes have joined. A file on one node's disk is missing on the others.",
		Run:   preflight.One(commandScript),
	}, {
		ID: "command.characters", Title: "the arguments and the variables have no invisible characters",
		Doc: "A carriage return at the end of a line of an edited file, a non-breaking space or a typographic quote of a " +
			"copied line becomes a part of a value. Names are then not found, and numbers are no numbers. An option that " +
			"begins with a dash (\u2013) in place of a hyphen is none.",
		Run: characters,
	}, {
		ID: "env.tmpdir", Title: "sockets of Python's multiprocessing fit into the folder for temporary files",
		Doc: "Linux takes 107 bytes as the path of a socket. In a folder with a long path, workers of a DataLoader or a " +
			"manager end with \"AF_UNIX path too long\", on this node only.",
		Run: preflight.One(socketPath),
	}, {
		ID: "env.interfaces", Title: "the interfaces that inherited variables name exist on this node",
		Doc: "An interface name that was right on the machine where a script was written (eth0) stops NCCL or Gloo " +
			"on another machine.",
		Run: inherited("env.interfaces", "no inherited variable names a wrong interface"),
	}, {
		ID: "env.harmful", Title: "no inherited variable is known to be harmful here",
		Doc: "Settings outlive the machine and the bug that they were made for, and spread from script to script. " +
			"docs/env.md lists each with its own ID, which --skip takes, too.",
		Run: inherited("env.harmful", "no inherited variable is known to be harmful"),
	}}
}

// lookLimit lets the look itself say that it has no answer.
const lookLimit = preflight.File + time.Second

// silent is the finding about a file system that does not answer: the command would hang there, too.
func silent(in preflight.Input, what string, err error) finding.Finding {
	return stops(in, finding.Failf("%s: a file system does not answer", what)).Named("storage.answers").
		See("look at it", "%v", err).
		Do(preflight.FixSilent)
}

// notLookedUp returns why the command is not looked up, or "".
func notLookedUp(in preflight.Input) string {
	switch {
	case len(in.Job.Line.Argv) == 0:
		return "no command is given"
	case in.LookPath == nil:
		return "this run looks up no program"
	}
	return ""
}

func commandFound(_ context.Context, in preflight.Input) finding.Finding {
	name := in.Job.Line.Argv[0]
	path, err := in.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding.Passf("%s exists", name)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silent(in, "looking for "+name+" in PATH", err)
	case err != nil:
		f := stops(in, finding.Failf("%s is not found on this node", name)).See("look up "+name, "%v", err)
		if folder := barred(err); folder != "" {
			f.What += fmt.Sprintf(", as far as this user may look: it may not enter %s", folder)
			return f.Do("%s\n%s", mayEnter(folder), notInPath(in, name))
		}
		return f.Do("%s", notInPath(in, name))
	case passed(in, name) != "":
		return finding.Warnf("%s is %s, and not the first one in PATH, since this user may not enter %s", name, path,
			passed(in, name)).
			See("look up "+name, "%v", in.PassedOver(name)).
			Breaking("another program of that name runs than the environment has, perhaps without torch").
			Do("%s", mayEnter(passed(in, name)))
	case path == name:
		return finding.Passf("%s", path)
	}
	return finding.Passf("%s is %s", name, path)
}

// barred returns the folder that this user may not enter, where an error is about one.
func barred(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Op == "enter" {
		return e.Path
	}
	return ""
}

// passed returns the folder because of which an earlier program in PATH does not count; "": all count.
func passed(in preflight.Input, name string) string {
	if in.PassedOver == nil {
		return ""
	}
	return barred(in.PassedOver(name))
}

// mayEnter says how a user may enter a folder, or need not.
func mayEnter(folder string) string {
	return fmt.Sprintf("setfacl -m u:%d:x %s   # or chmod o+x: lets this user enter it, and list nothing\n"+
		"or make the environment with a Python that this user may run: python3 -m venv --help", os.Geteuid(), folder)
}

// notInPath says what to type for a program that is in no directory of PATH.
func notInPath(in preflight.Input, name string) string {
	otherwise := fmt.Sprintf("activate the environment that has %s, or give its full path", name)
	if in.Stat == nil || strings.Contains(name, "/") {
		return otherwise
	}
	if mode, err := in.Stat(name); err == nil && mode.IsRegular() {
		if strings.HasSuffix(name, ".py") {
			return fmt.Sprintf("python %[1]s, or torchrun %[1]s   # the script is in this folder, and is no program", name)
		}
		return "./" + name + "   # it is in this folder, which is not in PATH"
	}
	return otherwise
}

// commandScript checks the file that torchrun or python runs. Both look for it in the working directory only.
func commandScript(_ context.Context, in preflight.Input) finding.Finding {
	line := in.Job.Line
	switch {
	case len(line.Argv) == 0:
		return finding.Skipf("no command is given")
	case line.Script <= 0 || line.Script >= len(line.Argv) || byModule(in):
		return finding.Skipf("the command names no Python file")
	case in.Stat == nil:
		return finding.Skipf("this run looks at no file")
	}
	path := line.Argv[line.Script]
	if !filepath.IsAbs(path) && preflight.Moves(line) {
		return finding.Skipf("could not tell: the programs before %s may start it in another directory", path)
	}
	mode, err := in.Stat(path)
	var f finding.Finding
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		f = finding.Failf("%s does not exist on this node", path).
			Do("copy it to this node, or mount its file system; the working directory is %s", in.Dir)
		if filepath.IsAbs(path) {
			f = f.Do("ls -l %s   # copy it to this node, or mount its file system", path)
		}
		if r := dash(path); r != 0 {
			f = finding.Failf("%s has %U where an option has a hyphen-minus (-): it is taken for the script, and does not exist",
				path, r).Do("%s", again)
		}
	case barred(err) != "":
		f = finding.Failf("%s cannot be read: this user may not enter %s, a folder on the way to it", path, barred(err)).
			Do("setfacl -m u:%d:x %s   # or chmod o+x: lets this user enter it, and list nothing", os.Geteuid(), barred(err))
	case errors.Is(err, fs.ErrPermission):
		f = finding.Failf("%s cannot be read by this user", path).Do("ls -ld %s   # and the directories above it", path)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silent(in, "looking at "+path, err)
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	case mode.IsDir():
		if err = noMain(in, path); err == nil {
			return finding.Skipf("%s is a directory, in which Python looks for __main__.py", path)
		}
		f = finding.Failf("%s is a directory without a __main__.py", path).Do("name the program in it: ls %s", path)
	default:
		return finding.Passf("%s exists", path)
	}
	return stops(in, f).See("look at "+path, "%v", err)
}

// noMain returns why Python cannot run a directory; nil: it can, or that is unknown.
func noMain(in preflight.Input, dir string) error {
	var err error
	for _, name := range []string{"__main__.pyc", "__main__.py"} {
		if _, err = in.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// byModule reports whether torchrun takes its first word as a module or a program (PET_MODULE=1, like -m).
func byModule(in preflight.Input) bool {
	for _, name := range []string{"PET_MODULE", "PET_NO_PYTHON"} {
		v, set := in.Getenv(name)
		for _, o := range in.Job.Line.Env.Set {
			if o.Name == name {
				v, set = o.Value, true
			}
		}
		if set && v != "0" {
			return true
		}
	}
	return false
}

func commandExecutable(_ context.Context, in preflight.Input) finding.Finding {
	name := in.Job.Line.Argv[0]
	path, err := in.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return stops(in, notExecutable(in, name, err)).See("look up "+name, "%v", err)
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	}
	return finding.Passf("%s may be executed", path)
}

// notExecutable returns a finding about a file that this user cannot execute, with the
// reason as far as its mode shows it. The error may name the file.
func notExecutable(in preflight.Input, name string, err error) finding.Finding {
	if folder := barred(err); folder != "" {
		return finding.Failf("%s cannot be executed: it or its interpreter is below %s, and this user may not enter that "+
			"folder", name, folder).Do("%s", mayEnter(folder))
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		name = e.Path
	}
	var mode fs.FileMode
	if in.Stat != nil && strings.Contains(name, "/") { // otherwise its place in PATH is not known
		mode, _ = in.Stat(name)
	}
	switch {
	case mode.IsDir():
		return finding.Failf("%s is a directory", name).Do("name the program in it: ls %s", name)
	case mode&0o111 != 0: // the error of the lookup has the reason
		return finding.Failf("%s exists, but cannot be executed", name).Do("ls -l %s; file %s", name, name)
	}
	return finding.Failf("%s exists, but this user may not execute it", name).
		Do("chmod a+x %s   # or put its interpreter before it", name)
}

// stops adds what the job loses where a node cannot start its command.
func stops(in preflight.Input, f finding.Finding) finding.Finding {
	if !in.Job.Several() {
		return f.Breaking("the command cannot start")
	}
	return f.Breaking("this node cannot start the job, and the other nodes would wait for it")
}

// inherited returns a Run that reports the findings of the lint that belong to a check.
func inherited(check, pass string) func(context.Context, preflight.Input) []finding.Finding {
	return func(_ context.Context, in preflight.Input) []finding.Finding {
		other := func(f finding.Finding) bool { return preflight.LintCheck(f.ID) != check }
		return preflight.OrPass(slices.DeleteFunc(slices.Clone(in.Lint), other), "%s", pass)
	}
}
