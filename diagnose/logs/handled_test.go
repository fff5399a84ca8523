package logs

import (
	"strings"
	"testing"
)

// TestHandledErrors: an error of which the program says that it has another way gives way to a later error, not to
// what may follow from it.
func TestHandledErrors(t *testing.T) {
	const (
		trace = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/app/a.py\", line 7, in load\n" +
			"[rank2]:     f()\n"
		first  = trace + "[rank2]: ValueError: bad shard 7\n"
		second = "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/app/a.py\", line 9, in step\n" +
			"[rank5]:     g()\n[rank5]: KeyError: 'vocab'\n"
		again  = "[rank2]: network is down, retrying\n"
		before = "[rank2]: no cache, skipping\n"
		ended  = "srun: error: red-2: task 2: Exited with exit code 1\n"
		lost   = "[rank1]: torch.distributed.DistBackendError: NCCL error in: a.cpp:1, remote process exited or there was " +
			"a network error\n"
		warning = "[W203 04:05:30.1 socket.cpp:697] [c10d] The client socket has failed to connect to [red-1]:29500 " +
			"(errno: 111 - Connection refused).\n"
		tensor = "[rank2]: RuntimeError: Trying to resize storage that is not resizable\n"
		near   = "[rank4]: loading\n"
	)
	for _, c := range []struct{ name, log, want string }{
		{"another error is later", first + again + second, "KeyError"},
		{"another error is later, and it was announced", before + first + second, "KeyError"},
		{"its process ends", before + first + ended, "ValueError"},
		{"others lose it", first + again + lost, "ValueError"},
		{"a warning is later", first + again + warning + ended, "ValueError"},
		{"the next line is an error with such a word", first + tensor, "ValueError"},
		{"the line of its writer is next, though lines of others are between", first + strings.Repeat(near, 7) + again +
			second, "KeyError"},
		{"the line of its writer is much later", first + strings.Repeat(near, 8) + again + second, "ValueError"},
	} {
		if r := readText(t, c.log); r.First == nil || !strings.Contains(r.First.Error, c.want) {
			t.Errorf("%s: %+v, want %s", c.name, r.First, c.want)
		}
	}
}
