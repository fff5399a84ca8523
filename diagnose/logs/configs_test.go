package logs

import (
	"strings"
	"testing"
)

// agent returns the lines of an agent of torchrun that gave up waiting for others.
func agent(clock, id, nodes, endpoint string) string {
	const at = " 711 torch/distributed/launcher/api.py:194] "
	out := "I0203 " + clock + at + "Starting elastic_operator with launch configs:\n"
	for _, l := range []string{"min_nodes        : " + nodes, "max_nodes        : " + nodes, "run_id           : " + id,
		"rdzv_backend     : c10d", "rdzv_endpoint    : " + endpoint} {
		out += "I0203 " + clock + at + "  " + l + "\n"
	}
	return out + "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
}

func TestSettingsOfAgents(t *testing.T) {
	const a, b, later = "04:05:06.007000", "04:05:09.007000", "09:05:06.007000"
	for _, c := range []struct {
		name, want string // "": nothing is said
		logs       []string
	}{
		{"other ids", "not the same run_id on all: 77 in a.log, 78 in b.log", []string{agent(a, "77", "2", "red-1:29500"),
			agent(b, "78", "2", "red-1:29500")}},
		{"other sizes", "not the same min_nodes on all: 3 in a.log, 2 in b.log", []string{agent(a, "77", "3", "red-1:29500"),
			agent(b, "77", "2", "red-1:29500")}},
		{"other ports", "not the same rdzv_endpoint on all", []string{agent(a, "77", "2", "red-1:29500"),
			agent(b, "77", "2", "red-1:29501")}},
		{"own hosts", "2 nodes each wait for 2 nodes", []string{agent(a, "77", "2", "localhost:29500"),
			agent(b, "77", "2", "localhost:29500")}},
		{"no endpoint", "the rendezvous endpoint is empty", []string{agent(a, "none", "2", ""), agent(b, "none", "2", "")}},
		{"the same", "", []string{agent(a, "77", "2", "red-1:29500"), agent(b, "77", "2", "red-1:29500")}},
		{"a name and an address", "", []string{agent(a, "77", "2", "red-1:29500"), agent(b, "77", "2", "10.9.0.1:29500")}},
		{"the first node names itself", "", []string{agent(a, "77", "2", "localhost:29500"),
			agent(b, "77", "2", "red-1:29500")}},
		{"a name and an IPv6", "", []string{agent(a, "77", "2", "red-1:29500"), agent(b, "77", "2", "[fd00::1]:29500")}},
		{"the default port", "", []string{agent(a, "77", "2", "red-1"), agent(b, "77", "2", "red-1:29400")}},
		{"own hosts, no port", "2 nodes each wait", []string{agent(a, "77", "2", "localhost"), agent(b, "77", "2", "[::1]")}},
		{"only the maximum", "", []string{agent(a, "77", "2", "red-1:29500"),
			strings.Replace(agent(b, "77", "2", "red-1:29500"), "max_nodes        : 2", "max_nodes        : 4", 1)}},
		{"two of three", "all: 77 in a.log, 78 in c.log", []string{agent(a, "77", "3", "red-1:29500"),
			agent(b, "77", "3", "red-1:29500"), agent(b, "78", "3", "red-1:29500")}},
		{"a second attempt", "", []string{agent(a, "77", "2", "red-1:29500"),
			agent("04:09:06.007000", "78", "2", "red-1:29500")}},
		{"two jobs", "", []string{agent(a, "77", "2", "red-1:29500"), agent(b, "78", "2", "red-3:29500")}},
		{"two starts", "", []string{agent(a, "77", "2", "red-1:29500"), agent(later, "78", "2", "red-1:29500")}},
		{"starts in one log", "", []string{agent(a, "77", "2", "red-1:29500") + agent(b, "78", "2", "red-1:29500"),
			agent(b, "77", "2", "red-1:29500")}},
		{"one node each", "", []string{agent(a, "77", "1", "localhost:0"), agent(b, "78", "1", "localhost:0")}},
	} {
		says := ""
		for _, v := range readFiles(t, c.logs...).Verdicts {
			says += v.Says
		}
		if c.want == "" && says != "" || !strings.Contains(says, c.want) {
			t.Errorf("%s: %q, want %q", c.name, says, c.want)
		}
	}
}
