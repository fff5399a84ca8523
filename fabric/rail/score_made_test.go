package rail

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestScoreOnMachinesThatWereMade interprets the machines of testdata/made.txt, each with addresses,
// rates, buses and routes, and compares rails, kind, roles and certainty with the right answer. The
// table in docs/machines.md has the shares by class.
func TestScoreOnMachinesThatWereMade(t *testing.T) {
	right, all := map[string]int{}, map[string]int{}
	for _, m := range readMade(t) {
		n := m.node(t)
		addr, _ := netip.ParseAddr(m.peers)
		f := Of(n, addr)
		var rails, wrong []string
		for _, r := range f.Rails {
			rails = append(rails, f.Name(r))
		}
		want := sorted(m.rails)
		if rails = sorted(rails); !slices.Equal(want, rails) || f.Kind != m.kind {
			wrong = append(wrong, fmt.Sprintf("%s %s, want %s %s", f.Kind, rails, m.kind, want))
		}
		if f.Sure == m.guess {
			wrong = append(wrong, fmt.Sprintf("sure is %v", f.Sure))
		}
		for _, name := range slices.Sorted(maps.Keys(m.roles)) {
			nic, _ := find(f.NICs, func(nic NIC) bool { return nic.Name == name })
			if nic.Missing {
				nic.Role = "missing"
			}
			if !slices.Contains(strings.Split(m.roles[name], "/"), string(nic.Role)) {
				wrong = append(wrong, fmt.Sprintf("%s is %s (%s), want %s", name, nic.Role, nic.Why, m.roles[name]))
			}
		}
		for _, want := range m.gids {
			name, index, _ := strings.Cut(want, "=")
			r, _ := find(f.Rails, func(r Rail) bool { return f.Name(r) == name })
			if fmt.Sprint(r.GID) != index {
				wrong = append(wrong, fmt.Sprintf("GID of %s is %d, want %s", name, r.GID, index))
			}
		}
		var warned []string
		for _, nic := range f.NICs {
			if nic.Missing || nic.NoAddress || nic.Limited || slices.Contains(f.Down, nic.Name) {
				warned = append(warned, nic.Name)
			}
		}
		if m.warned != nil && !slices.Equal(sorted(warned), sorted(m.warned)) {
			wrong = append(wrong, fmt.Sprintf("warns of %v, want %v", warned, m.warned))
		}
		all[m.class]++
		if len(wrong) == 0 {
			right[m.class]++
			continue
		}
		t.Errorf("%s (%s): %s\nwhy: %s", m.name, m.class, strings.Join(wrong, "; "), f.Why)
	}
	for _, c := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%-10s %2d of %2d", c, right[c], all[c])
	}
}
