package faultbench

import "strings"

// reachFaults: who reaches whom.
func reachFaults() []fault {
	return []fault{{
		group: "reach", name: "firewall drops what comes in", ci: true,
		inject: func(tr *trial) { tr.sick.firewall("input", "drop") },
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "firewall rejects what comes in",
		inject: func(tr *trial) { tr.sick.firewall("input", "meta l4proto tcp reject with tcp reset") },
		want:   []string{"peer.reach"},
	}}
}

// firewall lets in or out what belongs to a connection that is there, the
// store's port, and what it has to; the verdict is for the rest.
func (h *host) firewall(hook, verdict string, before ...string) {
	rules := []string{"type filter hook " + hook + " priority 0", map[string]string{"input": "iif", "output": "oif"}[hook] + " lo accept",
		"ct state established accept", "tcp dport 29377 accept"}
	rules = append(append(rules, before...), verdict)
	h.Run("table inet f {\nchain c {\n"+strings.Join(rules, "\n")+"\n}\n}\n", "nft", "-f", "-")
}
