package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"launch/internal/finding"
)

// commandChecks are two, because they end in two exit codes, as in a shell:
// 127 where the command is not found, 126 where it cannot be executed. Both
// look at the first word, which is what is executed; what stands behind numactl
// or uv run is found by that program, in a way of its own.
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

func commandFound(_ context.Context, in Input) finding.Finding {
	name, path, err, ok := in.lookUp()
	switch {
	case !ok:
		return finding.Skipf("no command is given")
	case errors.Is(err, fs.ErrPermission):
		return finding.Passf("%s is here", name)
	case err != nil:
		return finding.Failf("%s is not found on this node", name).
			See("look up "+name, "%v", err).
			Breaking("this node cannot start the job, and the others would wait for it").
			Do("activate the environment that has %s, or give its full path", name)
	case path == name:
		return finding.Passf("%s", path)
	}
	return finding.Passf("%s is %s", name, path)
}

func commandExecutable(_ context.Context, in Input) finding.Finding {
	name, path, err, ok := in.lookUp()
	switch {
	case !ok:
		return finding.Skipf("no command is given")
	case errors.Is(err, fs.ErrPermission):
		return finding.Failf("%s is here, but this user may not execute it", name).
			See("look up "+name, "%v", err).
			Breaking("this node cannot start the job, and the others would wait for it").
			Do("%s", executableFix(err, name))
	case err != nil:
		return finding.Skipf("could not tell: %v", err)
	}
	return finding.Passf("%s may be executed", path)
}

// executableFix names the file that was found, which the error knows.
func executableFix(err error, name string) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		name = e.Path
	}
	return fmt.Sprintf("chmod +x %s, or put its interpreter before it", name)
}
