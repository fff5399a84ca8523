package logs

import (
	"cmp"
	"strings"
	"testing"
)

// TestLoggersNameTheRank: the rank in what a logger writes before a line.
func TestLoggersNameTheRank(t *testing.T) {
	for line, want := range map[string]int{
		"[E ProcessGroupNCCL.cpp:475] [Rank 5] Watchdog caught collective operation timeout":         5,
		"[E203 04:05:06.1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank 5] Exception":              5,
		"[E203 04:05:06.1 ProcessGroupNCCL.cpp:1] [PG ID 2 PG GUID 7 Rank 1] Exception":              -1, // in its group
		"[2031-02-03 04:05:06] CRITICAL [fit.util:158, rank=6] Uncaught KeyError: 'x'":               6,
		"[2031-02-03 04:05:06,123] [ERROR] [fit.cli.main:11] [PID:4711] [RANK:3] no such file":       3,
		"2031-02-03 04:05:06,123: rank9[4711][MainThread]: ERROR: composer.cli.launcher: died":       9,
		"[2031-02-03 04:05:06 TP7] Scheduler hit an exception: Traceback (most recent call last):":   7,
		"[2031-02-03 04:05:06 DP1 TP0] Scheduler hit an exception: Traceback (most recent call las)": -1,
		"04:05:06.789 [rank2]: KeyError: 'x'":                                                        2,
		" [rank2]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:1] Exception":                                2,
		"  [rank] of the matrix: 2": -1,
		"04:05:06 step 7: loss 0.5": -1,
	} {
		if p := strip([]byte(line)); p.rank != want {
			t.Errorf("%q: rank %d, want %d", line, p.rank, want)
		}
	}
}

// TestWhoIsNamedAroundALine: the rank that is named in the head of a traceback, in a squeezed report, or by a line that
// says the same; and numbers before lines that are no ranks.
func TestWhoIsNamedAroundALine(t *testing.T) {
	const (
		key   = "Traceback (most recent call last):\n  File \"/app/a.py\", line 7, in <module>\n    f()\nKeyError: 'x'\n"
		assri = "/x/Loss.cu:94: operator(): block: [7,0,0], thread: [2,0,0] Assertion `t >= 0` failed.\n"
		other = "5: red-3:471:475 [1] NCCL INFO comm 0x5 rank 41 nranks 64 cudaDev 1 - Init START\n"
		none  = "5: red-3:471:475 [1] init.cc:9 NCCL WARN Message truncated : received 8 bytes instead of 4\n"
		task  = "6: [rank50]:[W203 04:05:06.1 x.cpp:7] Warning: 0x has no effect\n"
	)
	for _, c := range []struct{ name, log, says string }{
		{"the head of a traceback", "[2031-02-03 04:05:06 TP7] Scheduler hit an exception: " + key, "rank 7 failed first"},
		{"a later line of the same cause", assri + "[E ProcessGroupNCCL.cpp:9] [Rank 5] NCCL watchdog thread terminated " +
			"with exception: CUDA error: device-side assert triggered\n", "a kernel of rank 5"},
		{"a squeezed report", "Root Cause (first observed failure) :\n[0]:\ntime\nhost\n2031-02-03 04:05:06\nred-3\n" +
			"rank11 (local rank: 3)exitcode: -9 (pid: 4711)error file: <N/A>\n", "rank 11 was killed"},
		{"a number that is a rank", none, "rank 5 (node red-3) received"},
		{"a number that is no rank", none + task, "node red-3 received"},
		{"a number that is no rank, and NCCL's rank", other + none + task, "rank 41 (node red-3) received"},
		{"a number that is the rank of all", none + strings.ReplaceAll(task, "rank50", "rank6"), "rank 5 (node red-3)"},
		{"a blank before an exception", strings.ReplaceAll(key, "Key", " Key"), "KeyError: 'x', at a.py:7"},
		{"a traceback without a head", "[rank2]:   File \"/app/load.py\", line 55, in load\n[rank2]:     lock()\n" +
			"[rank2]:   File \"/usr/lib/python3/dist-packages/box/_unix.py\", line 68, in lock\n[rank2]:     os.fch\n",
			"in the middle of a traceback of rank 2, at load.py:55, in box/_unix.py:68"},
		{"the checkpoint of another rank", "[rank0]: Traceback (most recent call last): (RANK 7)\n[rank0]:   File " +
			"\"/app/save.py\", line 7, in save\n[rank0]:     w()\n[rank0]: KeyError: 'x'\n", "rank 7 failed first"},
		{"a file of a program in brackets", "[gcs_rpc_client.h:179] Failed to connect to GCS at address 10.9.0.1:6379\n",
			"a process cannot connect"},
		{"a second pair of ranks", "init.cc:9 NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device f0\n" +
			"init.cc:9 NCCL WARN Duplicate GPU detected : rank 7 and rank 0 both on CUDA device f0\n", "ranks 0, 3, 7 share"},
		{"the name of a look-up", "nslookup: can't resolve 'fit-master-0': Name does not resolve\n", "(fit-master-0)"},
		{"and the log goes on", "[rank2]:   File \"/app/load.py\", line 55, in load\n" + strings.Repeat("done\n", 5), ""},
	} {
		r, says := readText(t, c.log), ""
		if len(r.Verdicts) > 0 {
			says = r.Verdicts[0].Says
		} else if len(r.Open) > 0 {
			says = r.Open[0].Says
		}
		if !strings.Contains(says, cmp.Or(c.says, says)) || c.says == "" && says != "" {
			t.Errorf("%s: %q; want %q in it", c.name, says, c.says)
		}
	}
}
