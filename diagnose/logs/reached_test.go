package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostsThatSSHReachesInAnotherLog: the order of two logs is not the order of their lines.
func TestHostsThatSSHReachesInAnotherLog(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{
		"a.log": "ssh: connect to host red-1 port 22: Connection refused\n",
		"b.log": "Warning: Permanently added 'red-1' (ED25519) to the list of known hosts.\nstep 1 loss 0.5\n",
	} {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(nil, files...)
	if err != nil || len(r.Verdicts) == 0 || r.Verdicts[0].Cause != "log.ssh-unreachable" {
		t.Errorf("%+v, %v; want red-1 unreachable", r.Verdicts, err)
	}
}

// TestVeryManyHosts: where not all lines of ssh can be held, no host is taken for reached.
func TestVeryManyHosts(t *testing.T) {
	const refused = "ssh: connect to host red-1 port 22: Connection refused\n"
	const added = "Warning: Permanently added 'red-1' (ED25519) to the list of known hosts.\n"
	for count, want := range map[int]int{maxHits - 1: 0, maxHits + 1: 1} {
		if r := readText(t, strings.Repeat(refused+added, count)); len(r.Verdicts) != want {
			t.Errorf("%d lines: %+v, want %d", count, r.Verdicts, want)
		}
	}
}
