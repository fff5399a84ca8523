package hangs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// causes are the IDs of the doctor's table of causes.
var causes = []string{
	"rank.before-init", "rank.working", "rank.lock", "rank.child", "rank.events",
	"rank.storage", "rank.failed", "rank.thread", "rank.stopped",
	"rank.traced", "rank.gone", "rank.absent", "rank.vfork", "rank.duplicate", "rank.left", "world.differs",
	"node.missing", "node.ended", "node.duplicate", "nnodes.differ", "rdzv.ids-differ", "store.refused",
	"store.dropped", "store.silent", "store.stopped", "store.foreign", "store.name", "store.key", "address.loopback",
	"address.unreachable", "mesh.dropped", "mesh.refused", "mesh.incomplete", "path.lost", "path.here", "path.stale",
	"path.mtu", "collective.mismatch", "collective.crossed", "collective.idle", "group.subset", "peer.ended",
	"exit.barrier", "mpi.daemon", "mpi.callback", "mpi.shell", "mpi.ssh-unreachable", "mpi.ssh-prompt",
}

func TestTheTablesCoverAllCauses(t *testing.T) {
	tables := []struct {
		kinds   []kind
		least   int
		verdict bool // hung
	}{{hungKinds(), 60, true}, {slowKinds(), 15, false}, {healthyKinds(), 5, false}}
	names, expected, short := map[string]bool{}, map[string]bool{}, 0
	for _, table := range tables {
		if len(table.kinds) < table.least {
			t.Errorf("a table has %d kinds; want %d", len(table.kinds), table.least)
		}
		for _, k := range table.kinds {
			t.Logf("%s: %s %s", k.name, k.want.state, k.want.cause)
			if names[k.name] {
				t.Errorf("two kinds have the name %s", k.name)
			}
			names[k.name] = true
			if k.short {
				short++
			}
			if hung := strings.Contains(k.want.state, "hung"); hung != table.verdict {
				t.Errorf("%s: the state is %s", k.name, k.want.state)
			}
			for c := range strings.SplitSeq(k.want.cause, "|") {
				if expected[c] = true; c != "" && !slices.Contains(causes, c) {
					t.Errorf("%s: no cause has the ID %s", k.name, c)
				}
			}
		}
	}
	for _, c := range causes {
		if !expected[c] {
			t.Errorf("no kind has the cause %s", c)
		}
	}
	if short > 10 {
		t.Errorf("%d kinds run by default; want at most 10", short)
	}
	if asked := os.Getenv("LAUNCH_HANGS"); asked != "" {
		groups := []string{"full", "hung", "slow", "healthy", "rest"}
		for name := range strings.SplitSeq(asked, ",") {
			if !names[name] && !slices.Contains(groups, name) {
				t.Errorf("LAUNCH_HANGS: no kind has the name %s", name)
			}
		}
	}
}
