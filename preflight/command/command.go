// Package command holds the checks of the command itself: the program, its
// script, and the variables that it inherits.
package command

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"launch/internal/finding"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report.
func Checks() []preflight.Check {
	return slices.Concat(commandChecks(), envChecks())
}

// commandChecks begin with two for the command, because they end in two exit
// codes, as in a shell: 127 where it is not found, 126 where it cannot be
// executed. Both look at the first word, which is what is executed; what stands
// behind numactl or uv run is found by that program, in a way of its own.
func commandChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "command.found", Limit: preflight.Computed,
		Title: "the command exists on this node",
		Doc:   "One node that cannot start the command leaves all the others waiting for it.",
		Run:   preflight.One(commandFound),
	}, {
		ID: "command.executable", Needs: []string{"command.found"}, Limit: preflight.Computed,
		Title: "the command may be executed by this user",
		Doc:   "One node that cannot start the command leaves all the others waiting for it.",
		Run:   preflight.One(commandExecutable),
	}, {
		ID: "command.script", Needs: []string{"command.found"}, Limit: preflight.Network,
		Title: "the file that Python is to run can be read on this node",
		Doc:   "Python looks for it when all nodes have waited for each other; a file on one node's disk is on no other's.",
		Run:   preflight.One(commandScript),
	}}
}

// lookUp finds the command. ok is false where there is nothing to look for.
func lookUp(in preflight.Input) (name, path string, err error, ok bool) {
	if len(in.Job.Line.Argv) == 0 || in.LookPath == nil {
		return "", "", nil, false
	}
	name = in.Job.Line.Argv[0]
	path, err = in.LookPath(name)
	return name, path, err, true
}

// notLookedUp says why nothing was looked for.
func notLookedUp(in preflight.Input) finding.Finding {
	if len(in.Job.Line.Argv) == 0 {
		return finding.Skipf("no command is given")
	}
	return finding.Skipf("no program is looked up now")
}

func commandFound(_ context.Context, in preflight.Input) finding.Finding {
	name, path, err, ok := lookUp(in)
	switch {
	case !ok:
		return notLookedUp(in)
	case errors.Is(err, fs.ErrPermission):
		return finding.Passf("%s is here", name)
	case err != nil:
		return stops(in, finding.Failf("%s is not found on this node", name)).
			See("look up "+name, "%v", err).
			Do("activate the environment that has %s, or give its full path", name)
	case path == name:
		return finding.Passf("%s", path)
	}
	return finding.Passf("%s is %s", name, path)
}

// commandScript judges the file that torchrun or python is given. Each of them
// looks for it in the working directory, and neither searches for it.
func commandScript(_ context.Context, in preflight.Input) finding.Finding {
	line := in.Job.Line
	switch {
	case line.Script <= 0 || line.Script >= len(line.Argv) || byModule(in):
		return finding.Skipf("the command names no Python file")
	case in.Stat == nil:
		return finding.Skipf("no file is looked at now")
	}
	path := line.Argv[line.Script]
	if !filepath.IsAbs(path) && preflight.Moves(line) {
		return finding.Skipf("could not tell: what stands before %s may start it in another directory", path)
	}
	mode, err := in.Stat(path)
	var f finding.Finding
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		f = finding.Failf("%s does not exist on this node", path).Do("is it on this node's disk? the working directory is %s", in.Dir)
		if filepath.IsAbs(path) {
			f = f.Do("is it on this node's disk, or its file system mounted here? ls -l %s", path)
		}
	case errors.Is(err, fs.ErrPermission):
		f = finding.Failf("%s cannot be read by this user", path).Do("ls -ld %s and the directories above it", path)
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	case mode.IsDir():
		return finding.Skipf("%s is a directory, in which Python looks for __main__.py", path)
	default:
		return finding.Passf("%s is here", path)
	}
	return stops(in, f).See("look at "+path, "%v", err)
}

// byModule tells whether the environment makes torchrun take its first word as
// a module or a program (PET_MODULE=1, as -m).
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
	name, path, err, ok := lookUp(in)
	switch {
	case !ok:
		return notLookedUp(in)
	case errors.Is(err, fs.ErrPermission):
		return stops(in, notExecutable(in, name, err)).See("look up "+name, "%v", err)
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	}
	return finding.Passf("%s may be executed", path)
}

// notExecutable says what is in the way, as far as the file itself shows it;
// the error may know which one was found.
func notExecutable(in preflight.Input, name string, err error) finding.Finding {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		name = e.Path
	}
	var mode fs.FileMode
	if in.Stat != nil && strings.Contains(name, "/") { // else it is somewhere in PATH
		mode, _ = in.Stat(name)
	}
	switch {
	case mode.IsDir():
		return finding.Failf("%s is a directory", name).Do("name the program in it: ls %s", name)
	case mode&0o111 != 0: // what was seen when it was looked up says why
		return finding.Failf("%s is here, but cannot be executed", name).Do("what is it? ls -l %s; file %s", name, name)
	}
	return finding.Failf("%s is here, but this user may not execute it", name).Do("chmod +x %s, or put its interpreter before it", name)
}

// stops adds what a job loses by a node that cannot start its command.
func stops(in preflight.Input, f finding.Finding) finding.Finding {
	if !in.Job.Several() {
		return f.Breaking("the command cannot start")
	}
	return f.Breaking("this node cannot start the job, and the others would wait for it")
}
