package start

import (
	"os"
	"slices"
	"strings"

	"launch/internal/exit"
	"launch/rendezvous"
)

// noWait reports whether an unfit node ends the wait of all: there is no replacement for a node of a Slurm
// step. --fail-fast=false waits there too.
func (s *Start) noWait() bool {
	typed := s.Opt.Given["fail-fast"] || os.Getenv(Variable("fail-fast")) != ""
	return s.Opt.FailFast || s.Job.Fixed() && !typed
}

// whyNoWait returns what else the other nodes would do about an unfit one.
func (s *Start) whyNoWait() string {
	if s.Opt.FailFast {
		return "without --fail-fast the other nodes would wait for it or for a replacement"
	}
	return "no node is added to a Slurm step; --fail-fast=false waits all the same"
}

// exclude adds to an error of unfit nodes of a Slurm step the option that leaves them out of the next job.
func (s *Start) exclude(f *exit.Error, notes []rendezvous.Note) {
	if s.Job.Step == "" {
		return
	}
	names := slices.Clone(s.decision.Exclude)
	for _, n := range notes {
		if n.Index >= 0 && n.Index < len(s.Job.Hosts) && !slices.Contains(names, s.Job.Hosts[n.Index]) {
			names = append(names, s.Job.Hosts[n.Index])
		}
	}
	switch {
	case f.Code == exit.Unfit && len(s.Local.Failed()) > 0:
		names = []string{s.Job.Step}
	case f.Code != exit.Unfit && f.Code != exit.PeerUnfit:
		return
	}
	if line := excludeLine(names); line != "" {
		f.Do("%s\n%s", f.Fix, line)
	}
}

// excludeLine returns the option of sbatch, salloc and srun that leaves nodes out.
func excludeLine(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "sbatch --exclude=" + strings.Join(names, ",") + " …   # leaves it out of the next job"
}
