package diagnose

import (
	"slices"
	"testing"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// A rank that an earlier run has left is not one of this job, unless it has a connection to the job's store.
func TestALeftoverIsNoRankOfTheJob(t *testing.T) {
	for name, tt := range map[string]struct {
		earlier bool
		state   string // of its connections
		member  bool
	}{
		"of this run":                {false, "close-wait", true},
		"of the run before":          {true, "close-wait", false},
		"it has come to this store":  {true, "established", true},
		"it listens, and no more":    {true, "listen", false},
		"of this run, no connection": {false, "listen", true},
	} {
		t.Run(name, func(t *testing.T) {
			all := readGolden(t, "testdata/scenes/two-locks-later.json.gz")
			s := &all[1]
			i := slices.IndexFunc(s.Procs, func(p scene.Proc) bool { return p.Role == scene.Rank })
			left, of := s.Procs[i], s.Procs[i].PID
			left.PID, left.State, left.Earlier, left.Stacks = of+100_000, "T", tt.earlier, nil
			s.Procs = append(s.Procs, left)
			for _, k := range s.Sockets {
				if k.PID == of && k.State == "established" {
					k.PID, k.State, k.Inode = left.PID, tt.state, 0
					s.Sockets = append(s.Sockets, k)
				}
			}
			answers := Judge(all)
			member := slices.ContainsFunc(answers[0].Why, func(w verdict.Verdict) bool { return w.Cause == "rank.stopped" })
			if member != tt.member || len(answers) != 1 {
				t.Errorf("a rank of the job: %v, want %v\n%+v", member, tt.member, answers)
			}
		})
	}
}
