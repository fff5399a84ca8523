package launcher

import (
	"slices"
	"strings"
	"testing"
)

// Where a balancer asks each replica, and each is on two of four nodes, the first node of each serves HTTP.
func TestTheFirstNodeOfEachReplicaServesHTTP(t *testing.T) {
	for line, want := range map[string]string{
		"vllm serve m -tp 2 -dp 2":                 "- headless headless headless",
		"vllm serve m -tp 2 -dp 2 -dpe":            "-dpe -dpe,headless -dpe -dpe,headless",
		"vllm serve m -tp 2 -dp 2 -asc 1 -dph":     "-asc,-dph headless -asc,-dph headless",
		"vllm serve m -dp 4 -dpe":                  "-dpe -dpe -dpe -dpe",
		"vllm serve m -dp 8 --headless -dph":       "-dph -dph -dph -dph",
		"vllm serve m -tp 4 --api-server-count=2":  "--api-server-count=2 headless headless headless",
		"vllm serve m -tp 4 --api_server_count 02": "--api_server_count headless headless headless",
	} {
		var got []string
		for rank := range 4 {
			w := twoNodes(0)
			w.Nodes, w.NodeRank = Known(4), Known(rank)
			argv := command(t, line, w).Argv
			var has []string
			for _, w := range []string{"-asc", "--api-server-count=2", "--api_server_count", "-dpe", "-dph", "--headless"} {
				if slices.Contains(argv, w) {
					has = append(has, strings.Replace(w, "--headless", "headless", 1))
				}
			}
			if len(has) == 0 {
				has = []string{"-"}
			}
			got = append(got, strings.Join(has, ","))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
