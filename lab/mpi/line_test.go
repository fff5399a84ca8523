package mpi

import (
	"slices"
	"strings"
	"testing"
)

// What the line itself shows is said also where launch asks no other host.
func TestALineThatAsksNoHostIsJudged(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Each[0], 2)
	run, world := tr.line[0], slices.Clone(tr.line[len(tr.line)-1:])
	for _, tt := range []struct {
		options []string
		exit    int
		says    string
	}{
		{[]string{"--host", "host0", "-np", "9"}, 65, "9 processes, but the hosts have 1 slot (--host)"},
		{[]string{"--hostfile", tr.Hostfile("host1"), "--host", "+n0", "-np", "1"}, 0, `launch does not read "+n0"`},
		{[]string{"--host", "host0:*,host1:*", "-np", "999"}, 65, "999 processes, but the hosts have "},
	} {
		tr.line = slices.Concat([]string{run}, tt.options, world)
		o := tr.run(checkSide, launchLimit)
		if !strings.Contains(o.Said, tt.says) || o.Exit != tt.exit {
			t.Errorf("%v: exit %d, want %d and %q\n%s", tt.options, o.Exit, tt.exit, tt.says, o.Said)
		}
	}
}
