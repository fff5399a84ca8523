package diagnose

import (
	"fmt"
	"slices"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// spawned reports whether scripts started all ranks that were seen.
func (v *view) spawned() bool {
	return len(v.seats) > 0 && !slices.ContainsFunc(v.seats, func(s *seat) bool { return !s.proc.Spawned })
}

// unlike finds nodes whose scripts started other numbers of ranks, where all ranks wait in init_process_group: a script
// that takes its own node's number for the number of all waits for ranks that no node starts.
func (v *view) unlike() []claim {
	started := []phase{dialing, unanswered, counting, keys, mesh}
	if !v.spawned() || slices.ContainsFunc(v.seats, func(s *seat) bool { return !slices.Contains(started, s.phase) }) {
		return nil
	}
	var nodes []*node
	count := map[*node]int{}
	for _, s := range v.seats {
		if count[s.node]++; count[s.node] == 1 {
			nodes = append(nodes, s.node)
		}
	}
	if !slices.ContainsFunc(nodes, func(n *node) bool { return count[n] != count[nodes[0]] }) {
		return nil
	}
	words := finding.Join(nodes[:min(len(nodes), 4)], func(n *node) string {
		return fmt.Sprintf("%s %d", n.name, count[n])
	})
	return []claim{claimed("world.differs", verdict.Likely, fmt.Sprintf("the scripts start other numbers of ranks: %s; "+
		"all wait in init_process_group", words)).of(nil, nodes...).
		see("processes below the script", words).
		do("give the script the same number on every node, or compare what it counts: taskset -p PID; nvidia-smi -L")}
}
