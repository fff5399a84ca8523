package faultbench

import "path/filepath"

// jobFaults: who comes, and what was typed.
func jobFaults() []fault {
	return []fault{{
		group: "job", name: "one node never comes", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			for i, h := range tr.hosts {
				h.flags = []string{"--node-rank", string(rune('0' + i))}
			}
			tr.sick.absent = true
		},
		want: []string{"75 missing"}, nobody: true,
	}, {
		group: "job", name: "the script is on no disk of one node", ci: true,
		inject: func(tr *trial) {
			tr.sick.Prepare = append(tr.sick.Prepare, "mount -t tmpfs none "+filepath.Dir(tools.script))
		},
		want: []string{"command.script"},
	}}
}
