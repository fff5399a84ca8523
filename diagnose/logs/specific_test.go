package logs

import (
	"strings"
	"testing"
)

// TestTheLineWithTheReasonIsQuoted: not the summary before or after it.
func TestTheLineWithTheReasonIsQuoted(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"after a summary", "engine: building the transport map failed\n" +
			"engine: ERROR: start of rank 3 failed\n" +
			"engine: ERROR: module /opt/x/transport.ko is not loaded\n", "is not loaded"},
		{"before a summary", "gridd: daemon /opt/grid/agent not found on this node\n" +
			"gridd: ERROR: job aborted\n", "not found"},
		{"of hints", "gridd: unable to finish, exiting\n" +
			"gridd: unable to open '/etc/grid/key': access denied\n", "access denied"},
		{"an assertion", "Traceback (most recent call last):\n  File \"/app/run.py\", line 3, in f\n" +
			"    assert heads % size == 0\nAssertionError\n", "assert heads % size == 0"},
		{"a second line", "Traceback (most recent call last):\n  File \"/app/run.py\", line 3, in f\n" +
			"    raise ValueError(text)\nValueError: the sizes differ\n    expected 8 heads, got 6\n", "got 6"},
		{"an inner error", "[rank1]: RuntimeError: EZ9999: Inner Error!\n" +
			"[rank1]: EZ9999: [PID: 4711] 2025-02-03-04:05:06.001 heads = 7 is odd.[FUNC:f][FILE:a.cc][LINE:1]\n", "is odd"},
	} {
		r := readText(t, c.log)
		if r.First == nil || !strings.Contains(r.First.Error, c.want) {
			t.Errorf("%s: %+v, want %q", c.name, r.First, c.want)
		}
	}
}
