package logs

import (
	"slices"
	"strings"
	"testing"
)

// TestWhoGoesOnIsNotToBlame: an error after which the same process waits for others is not the one that ended it.
func TestWhoGoesOnIsNotToBlame(t *testing.T) {
	const (
		optional = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/app/opt.py\", line 3, in <module>\n" +
			"[rank2]:     import fast_path\n[rank2]: ModuleNotFoundError: No module named 'fast_path'\n"
		lost = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/app/train.py\", line 9, in <module>\n" +
			"[rank2]:     step()\n[rank2]: torch.distributed.DistBackendError: NCCL error in: a.cpp:1, remote process " +
			"exited or " +
			"there was a network error\n"
		bad = "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/app/train.py\", line 7, in <module>\n" +
			"[rank5]:     load()\n[rank5]: KeyError: 'vocab'\n"
		during = "[rank2]: During handling of the above exception, another exception occurred:\n[rank2]: \n"
	)
	for _, c := range []struct {
		name, log, want string
		rank            int
	}{
		{"it goes on, and another one fails", optional + bad + lost, "KeyError", 5},
		{"it fails while it handles it", optional + during + lost, "ModuleNotFoundError", 2},
		{"of a pod with several ranks", strings.ReplaceAll(optional+lost, "[rank2]: ", "[pod/job-worker-2/main] "),
			"ModuleNotFoundError", -1},
	} {
		r := readText(t, c.log)
		if len(r.Verdicts) == 0 || !strings.Contains(r.Verdicts[0].Says, c.want) ||
			c.rank >= 0 && !slices.Equal(r.Verdicts[0].Ranks, []int{c.rank}) {
			t.Errorf("%s: %+v, want %s of rank %d", c.name, r.Verdicts, c.want, c.rank)
		}
	}
}

// TestTimeBeforeTheWriter: a time before the number of a task, or the name of a host, hides neither.
func TestTimeBeforeTheWriter(t *testing.T) {
	for line, want := range map[string]struct {
		rank       int
		node, body string
	}{
		"2025-02-03T04:05:06.000001Z 12: ValueError: x":          {12, "", "ValueError: x"},
		"2025-02-03T04:05:06.000001Z  7: ValueError: x":          {7, "", "ValueError: x"},
		"2025-02-03T04:05:06.000001Z red-07: ValueError: x":      {-1, "red-07", "ValueError: x"},
		"2025-02-03T04:05:06.000001Z red-7.rack.b: ValueError":   {-1, "red-7.rack.b", "ValueError"},
		"2025-02-03 04:05:06,001 step7: loss 0.5":                {-1, "", "step7: loss 0.5"},
		"2025-02-03 04:05:06,001 urllib3.connectionpool: failed": {-1, "", "urllib3.connectionpool: failed"},
	} {
		if p := strip([]byte(line)); p.rank != want.rank || p.node != want.node || string(p.body) != want.body {
			t.Errorf("%q: %d %q %q, want %+v", line, p.rank, p.node, p.body, want)
		}
	}
}
