package logs

import (
	"strings"
	"testing"
)

// Python prints an exception without a prefix, and torch prints it again with the rank. Where the next one with a rank
// is another one, such as that of a lost connection, it is of another process, and so is the end of that rank.
func TestTheRankOfAnExceptionWithoutAPrefix(t *testing.T) {
	const bare = "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in <module>\n" +
		"    raise ValueError(\"bad sample 17\")\nValueError: bad sample 17\n"
	again := "[rank0]: " + strings.ReplaceAll(strings.TrimSpace(bare), "\n", "\n[rank0]: ") + "\n"
	const lost = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/train.py\", line 9, in <module>\n" +
		"[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer " +
		"[10.91.0.2]:49369.\n"
	const first, second = "srun: error: node1: task 0: Exited with exit code 1\n",
		"srun: error: node2: task 1: Exited with exit code 1\n"
	const agent = "E1129 15:25:58.000000 42 torch/distributed/elastic/multiprocessing/api.py:1006] failed (exitcode: 1) " +
		"local_rank: 0 (pid: 43) of binary: python\nRoot Cause (first observed failure):\n[0]:\n  time      : " +
		"2026-11-29_15:25:58\n  host      : node1\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 43)\n"
	for name, tt := range map[string]struct {
		log  string
		rank int
	}{
		"torch prints it again":           {bare + again, 0},
		"another rank lost it":            {bare + lost, -1},
		"that one ends first":             {bare + lost + first, -1},
		"its torchrun reports that":       {bare + lost + agent, -1},
		"torchrun reports its own end":    {bare + agent, 0},
		"its own rank ends after that":    {bare + lost + first + second, 1},
		"no rank has lost another one":    {bare + second, 1},
		"it is printed again, lost later": {bare + again + strings.ReplaceAll(lost, "rank0", "rank1") + first, 0},
	} {
		r := readText(t, tt.log)
		if r.First == nil || r.First.Rank != tt.rank || tt.rank < 0 && r.First.Local >= 0 ||
			!strings.Contains(r.First.Error, "bad sample 17") {
			t.Errorf("%s: %+v, want rank %d", name, r.First, tt.rank)
		}
	}
}
