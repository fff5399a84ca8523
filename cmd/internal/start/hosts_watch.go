package start

import (
	"context"
	"slices"

	"launch/cmd/internal/hostwatch"
)

// watchHosts leaves a process next to mpirun that notices a host which is lost, and a job that does not go on. Slurm
// notices it itself, and a task for each host would take its place there.
func (s *Start) watchHosts(context.Context) error {
	if len(s.watched) == 0 || s.Mpirun.Agent.Srun {
		return nil
	}
	spec := hostwatch.Spec{Agent: s.Mpirun.Agent.Argv, HangAfter: s.hangAfter(), FailFast: s.Opt.FailFast,
		Host: s.Node.Hostname, JSON: s.UI.JSON(), Mixed: s.mixes()}
	spec.Program, spec.Hash = ownHash()
	for _, h := range s.watched {
		if slices.Contains(s.Job.Hosts, h.Name) { // --drop-unfit may have left it out
			spec.Hosts = append(spec.Hosts, h)
		}
	}
	if err := hostwatch.Start(spec); err != nil {
		s.UI.Note("the hosts are not watched while the job runs: %v", err)
	}
	return nil
}
