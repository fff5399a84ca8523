package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readFiles reads some logs, in this order.
func readFiles(t *testing.T, texts ...string) Reading {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnotherLogMayBeOfAnotherJob: what one log shows of its job does not count for the failure in another log.
func TestAnotherLogMayBeOfAnotherJob(t *testing.T) {
	const (
		given = "Throughput: 12.20 requests/s, 4311.11 total tokens/s, 2120.2 output tokens/s\n"
		lost  = "[rank3]:[W203 01:48:44.2 ProcessGroupNCCL.cpp:1771] [PG ID 0 PG GUID 0 Rank 3] Failed to check the " +
			"\"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe\n"
		ranks = "red-1:471:471 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init START\n" +
			"red-1:472:472 [1] NCCL INFO comm 0x5 rank 1 nranks 2 - Init START\n"
		full = "CUDA out of memory\n"
	)
	for _, c := range []struct {
		name, want string
		logs       []string
	}{
		{"results of another log", "rank 3 lost torch's store", []string{given, lost}},
		{"the host of another log", "a process has run out of GPU memory", []string{ranks, full}},
		{"the host of the same log", "node red-1 has run out of GPU memory", []string{ranks + full, "step 1\n"}},
		{"the host of another command", "a process has run out of GPU memory", []string{ranks + "$ mpirun ./b\n" + full}},
	} {
		r := readFiles(t, c.logs...)
		says := ""
		for _, v := range r.Verdicts {
			says += v.Says
		}
		for _, o := range r.Open {
			says += o.Says
		}
		if !strings.Contains(says, c.want) {
			t.Errorf("%s: %q, want %q", c.name, says, c.want)
		}
	}
}
