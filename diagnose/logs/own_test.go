package logs

import (
	"slices"
	"strings"
	"testing"
)

const (
	ownStopped = "launch: warn job.hangs       the job does not go on: rank 1 (host1, pid 9) is stopped by a signal; " +
		"the other ranks wait for it (rank.stopped, certain)\n"
	ownStoppedFix = "launch:      job.hangs       host0  seen    host1: pid 9 is in state T\n" +
		"launch:      job.hangs       host0  fix     kill -CONT 9   # on host1\n"
	ownBroken = "launch: warn job.hangs       the job does not go on: rank 1 (host1, pid 9) is\n" +
		"                             stopped by a signal; the other ranks wait for it\n" +
		"                             (rank.stopped, certain)\n" +
		"             seen    host1: pid 9 is in state T\n" +
		"             fix     kill -CONT 9   # on host1\n"
	ownLost = "launch: warn node.lost       node rank 1, host1, was lost (seen at 10:00:00)\n" +
		"launch:      node.lost       host0  fix     nft list ruleset\n"
)

// What launch has found next to the command is the cause of a log that has no other.
func TestFindingsOfLaunchInALogAreRepeated(t *testing.T) {
	labelled := strings.ReplaceAll(ownBroken, "\n     ", "\nlaunch:      ")
	for name, tc := range map[string]struct{ log, cause, node, fix string }{
		"one line each":      {ownStopped + ownStoppedFix, "rank.stopped", "host1", "kill -CONT 9   # on host1"},
		"broken":             {ownBroken, "rank.stopped", "host1", "kill -CONT 9   # on host1"},
		"broken, with label": {labelled, "rank.stopped", "host1", "kill -CONT 9   # on host1"},
		"after a prefix":     {"2026-01-02T10:00:00Z " + ownStopped, "rank.stopped", "host1", ""},
		"a lost node":        {"step 1 loss 0.5\n" + ownLost, "node.lost", "host1", "nft list ruleset"},
		"a failed rank": {"launch: warn node.rank       rank 3 (host1, pid 8) was killed (SIGKILL)\n" +
			"launch:      node.rank       host1  fix     dmesg | tail\n", "node.rank", "host1", "dmesg | tail"},
		"a failed check": {"launch: fail peer.reach      host2 is not reached from host0 on\n" +
			"                             port 5000: no answer\n             fix     nft list ruleset\n", "log.launch-check", "",
			"nft list ruleset"},
		"a wait of others after it": {ownStopped + ownStoppedFix + "[rank0]:[E ProcessGroupNCCL.cpp:523] [Rank 0] Watchdog " +
			"caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, " +
			"Timeout(ms)=600000) ran for 600145 milliseconds before timing out.\n", "rank.stopped", "host1", "kill -CONT 9"},
	} {
		r := readText(t, tc.log)
		if len(r.Verdicts) != 1 {
			t.Errorf("%s: %+v", name, r.Verdicts)
			continue
		}
		v := r.Verdicts[0]
		wrong := tc.node != "" && !slices.Equal(v.Nodes, []string{tc.node})
		if wrong || v.Cause != tc.cause || !strings.Contains(v.Do, tc.fix) || strings.Contains(v.Says, "  ") ||
			strings.Contains(v.Says, "certain") {
			t.Errorf("%s: %+v", name, v)
		}
		if r.First == nil {
			t.Errorf("%s: no first failure", name)
		}
	}
}

// A job that goes on after what launch has found has no failure.
func TestAFindingOfLaunchIsOverWhereTheJobGoesOn(t *testing.T) {
	steps := strings.Repeat("step 7 loss 0.5\n", 3)
	for name, log := range map[string]string{
		"launch says so": ownStopped + ownStoppedFix +
			"launch: ok   job.hangs       the job goes on again (since 10:00:00), after no progress for 90s\n",
		"steps":           ownBroken + steps,
		"a good end":      ownStopped + "Training finished\n",
		"a lost node":     ownLost + "launch: warn node.lost       node rank 1, host1, answers again (seen at 10:00:09)\n",
		"another start":   ownLost + "launch: 2 nodes joined after 3s; this is node rank 0\n",
		"another warning": "launch: warn limits.memlock  the limit of locked memory is 64 KiB\n" + steps,
		"prose":           "readme: launch: warn of job.hangs means that nothing moves\n",
	} {
		if r := readText(t, log); len(r.Verdicts) > 0 || len(r.Open) > 0 {
			t.Errorf("%s: %+v %+v", name, r.Verdicts, r.Open)
		}
	}
}
