package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"launch/internal/finding"
	"launch/internal/launcher"
)

// commandChecks begin with two for the command, because they end in two exit
// codes, as in a shell: 127 where it is not found, 126 where it cannot be
// executed. Both look at the first word, which is what is executed; what stands
// behind numactl or uv run is found by that program, in a way of its own.
func commandChecks() []Check {
	return []Check{{
		ID: "command.found", Limit: computed,
		Title: "the command exists on this node",
		Doc:   "One node that cannot start the command leaves all the others waiting for it.",
		Run:   one(commandFound),
	}, {
		ID: "command.executable", Needs: []string{"command.found"}, Limit: computed,
		Title: "the command may be executed by this user",
		Doc:   "One node that cannot start the command leaves all the others waiting for it.",
		Run:   one(commandExecutable),
	}, {
		ID: "command.script", Needs: []string{"command.found"}, Limit: network,
		Title: "the file that Python is to run can be read on this node",
		Doc:   "Python looks for it when all nodes have waited for each other; a file on one node's disk is on no other's.",
		Run:   one(commandScript),
	}}
}

// lookUp finds the command. ok is false where there is nothing to look for.
func (in Input) lookUp() (name, path string, err error, ok bool) {
	if len(in.Job.Line.Argv) == 0 || in.LookPath == nil {
		return "", "", nil, false
	}
	name = in.Job.Line.Argv[0]
	path, err = in.LookPath(name)
	return name, path, err, true
}

// notLookedUp says why nothing was looked for.
func (in Input) notLookedUp() finding.Finding {
	if len(in.Job.Line.Argv) == 0 {
		return finding.Skipf("no command is given")
	}
	return finding.Skipf("no program is looked up now")
}

func commandFound(_ context.Context, in Input) finding.Finding {
	name, path, err, ok := in.lookUp()
	switch {
	case !ok:
		return in.notLookedUp()
	case errors.Is(err, fs.ErrPermission):
		return finding.Passf("%s is here", name)
	case err != nil:
		return in.stops(finding.Failf("%s is not found on this node", name)).
			See("look up "+name, "%v", err).
			Do("activate the environment that has %s, or give its full path", name)
	case path == name:
		return finding.Passf("%s", path)
	}
	return finding.Passf("%s is %s", name, path)
}

// commandScript judges the file that torchrun or python is given. Each of them
// looks for it in the working directory, and neither searches for it.
func commandScript(_ context.Context, in Input) finding.Finding {
	line := in.Job.Line
	switch {
	case line.Script <= 0 || line.Script >= len(line.Argv) || byModule(in):
		return finding.Skipf("the command names no Python file")
	case in.Stat == nil:
		return finding.Skipf("no file is looked at now")
	}
	path := line.Argv[line.Script]
	if !filepath.IsAbs(path) && moves(line) {
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
	return in.stops(f).See("look at "+path, "%v", err)
}

// byModule tells whether the environment makes torchrun take its first word as
// a module or a program (PET_MODULE=1, as -m).
func byModule(in Input) bool {
	for _, name := range []string{"PET_MODULE", "PET_NO_PYTHON"} {
		v, set := in.env(name)
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

// chdir are the options by which a prefix changes the working directory: env -C,
// uv run --directory, conda run --cwd, gdb -cd.
var chdir = regexp.MustCompile(`^(-[0-9A-Za-z]*C|--?c(d|h|wd)|--directory)`)

func moves(line launcher.Line) bool {
	for _, p := range line.Prefix {
		switch program, _, _ := strings.Cut(p, " "); program {
		case "hatch": // runs in its project's directory
			return true
		case "env", "uv", "conda", "poetry", "gdb":
			return slices.ContainsFunc(line.Argv[:line.At], chdir.MatchString)
		}
	}
	return false
}

func commandExecutable(_ context.Context, in Input) finding.Finding {
	name, path, err, ok := in.lookUp()
	switch {
	case !ok:
		return in.notLookedUp()
	case errors.Is(err, fs.ErrPermission):
		return in.stops(notExecutable(in, name, err)).See("look up "+name, "%v", err)
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	}
	return finding.Passf("%s may be executed", path)
}

// notExecutable says what is in the way, as far as the file itself shows it;
// the error may know which one was found.
func notExecutable(in Input, name string, err error) finding.Finding {
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
func (in Input) stops(f finding.Finding) finding.Finding {
	if !in.Job.Several() {
		return f.Breaking("the command cannot start")
	}
	return f.Breaking("this node cannot start the job, and the others would wait for it")
}
