package job

import (
	"regexp"
	"slices"
	"strconv"

	"launch/internal/finding"
	"launch/internal/launcher"
)

var (
	// initHorovod matches the call by which a process of Horovod finds the others.
	initHorovod = regexp.MustCompile(`\b(?:hvd|horovod[\w.]*)\s*\.\s*init\s*\(`)
	// startsHorovod matches the parts of Horovod that start its processes from a script.
	startsHorovod = regexp.MustCompile(`\bhorovod(?:\s*\.\s*|\s+import\s+)(?:ray|spark|run)\b`)
	// initTorch matches the call of a script that can do without Horovod.
	initTorch = regexp.MustCompile(`\binit_process_group\s*\(`)
)

// horovodAlone warns about a program whose Horovod finds no other process: it asks MPI, or reads the variables that
// horovodrun sets (horovod/common/gloo/gloo_context.cc). Without both, hvd.size() is 1 in each process.
func (r *resolver) horovodAlone() {
	l := r.line
	torchrun := l.Kind == launcher.Torchrun
	if !r.job.Several() || r.job.Tasks.Size > 0 || r.in.Flags.As.Set || r.env["HOROVOD_RANK"] != "" ||
		torchrun && l.Script == 0 || !torchrun && r.script() == "" {
		return
	}
	has := func(re *regexp.Regexp) bool {
		return slices.ContainsFunc(r.files, func(f pythonFile) bool { return re.MatchString(f.text) })
	}
	if !slices.Contains(r.job.Uses, "horovod") || !has(initHorovod) || has(startsHorovod) || has(initTorch) {
		return
	}
	program := l.Argv[l.Program:]
	if torchrun {
		program = append([]string{"python"}, l.Argv[l.Script:]...)
	}
	argv := slices.Concat(l.Argv[:l.Program], []string{"horovodrun", "-np", strconv.Itoa(8 * r.job.Nodes.V), "--hostfile",
		"HOSTS"}, program)
	r.note(finding.Warnf("the script calls hvd.init(), but Horovod reads no variable of launch or torchrun").
		Named("job.command").Breaking("each process would be a world of its own, with hvd.size() 1").
		Do("%s; HOSTS has a line for each node: NAME slots=8", r.insteadOf(argv, true)))
}
