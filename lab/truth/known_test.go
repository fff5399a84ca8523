package truth

import "slices"

// knowns are disagreements that stay, each with its reason: a mechanism, and what launch does.
var knowns = []struct {
	mechanism string
	verdict   verdict
	why       string
}{
	{"mount: /proc is empty", failed, "launch finds its command's processes in /proc, and says that it needs it"},
	{"filter: ephemeral ports are closed", failed, lucky},
	{"filter: nothing new gets through", failed, lucky},
	{"filter: an allow-list of ports", failed, lucky},
}

// lucky is why a job may run alone where launch fails it.
const lucky = "the program chooses which rank calls which, and none calls this node"

// known returns the reason why a disagreement stays.
func known(r result) (string, bool) {
	for _, k := range knowns {
		if k.verdict == r.Verdict && slices.Contains(r.Topics, k.mechanism) {
			return k.why, true
		}
	}
	return "", false
}
