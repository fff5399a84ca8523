package fabric

import "testing"

func TestAControlGroupIsNarrowWhereFewThreadsHaveRoom(t *testing.T) {
	for group, want := range map[Cgroup]bool{
		{}: false, {Pids: 14, PidsUsed: 8}: true, {Pids: 5000, PidsUsed: 4990}: true, {Pids: 5000, PidsUsed: 10}: false,
	} {
		if got := group.Narrow(); got != want {
			t.Errorf("%+v: %v, want %v", group, got, want)
		}
	}
}
