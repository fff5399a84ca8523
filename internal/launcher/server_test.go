package launcher

import (
	_ "embed"
	"slices"
	"strconv"
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

//go:embed testdata/servers.txt
var servers string

// The file says what the real parsers made of these lines. A line that changes needs the servers again.
func TestTheServersWereAskedAboutTheWrittenLines(t *testing.T) {
	for record := range strings.SplitSeq(servers, "\n\n") {
		head, written, ok := strings.Cut(strings.TrimSpace(record), "\n")
		if !ok || strings.HasPrefix(head, "#") {
			continue
		}
		nodes, typed, _ := strings.Cut(head, " nodes: ")
		n, err := strconv.Atoi(nodes)
		lines := strings.Split(written, "\n")
		if err != nil || len(lines) != 2*n {
			t.Fatalf("%s: %v, %d lines", head, err, len(lines))
		}
		for rank := range n {
			w := twoNodes(rank)
			w.Nodes = Known(n)
			if got := strings.Join(command(t, typed, w).Argv, " "); got != strings.TrimSpace(lines[2*rank]) {
				t.Errorf("%s, node rank %d: %q, but the servers were asked about %q", head, rank, got, lines[2*rank])
			}
		}
	}
}
