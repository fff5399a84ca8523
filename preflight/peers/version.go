package peers

import (
	"fmt"
	"strings"

	"launch/internal/finding"
)

// Form is the version of what nodes post and decide. It changes with any part that a launch of another form would
// misread; earlier ones have none.
const Form = 2

// compareLaunch compares the versions of launch. Nodes whose form differs from that of most nodes, or of node rank 0
// where there is no majority, must leave: they do not read what the others post.
func compareLaunch(posts []Post) []judged {
	gs := groups(posts, func(p Post) string { return p.Version })
	forms := groups(posts, func(p Post) string { return fmt.Sprint(p.Form) })
	if len(forms) > 1 {
		usual := forms[0].nodes[0]
		var unfit []int
		var who []string
		for _, g := range forms[1:] {
			unfit = append(unfit, ranksOf(g.nodes)...)
			who = append(who, runs(g.nodes, usual))
		}
		return []judged{{finding.Failf("%s", strings.Join(who, "; ")).Named("same.launch").
			Breaking("the nodes do not understand what the others post, and the job hangs or dies").Do(oneVersion), unfit}}
	}
	if len(gs) < 2 {
		return nil
	}
	return []judged{{Finding: finding.Warnf("launch version differs: %s", differs(gs)).Named("same.launch").
		Breaking("different versions are not tested together").Do(oneVersion)}}
}

const oneVersion = "launch version   # on each node\ninstall one version on all"

// runs describes nodes of another form than the usual one.
func runs(nodes []Post, usual Post) string {
	age := "a newer"
	if nodes[0].Form < usual.Form {
		age = "an older"
	}
	verb := "run"
	if len(nodes) == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s %s %s launch, %s; the others run %s", finding.Some(namesOf(nodes)), verb, age,
		nodes[0].Version, usual.Version)
}

// OfAnotherForm returns the decision where node rank 0, which decides, runs a launch of another form: what it decided
// is not to be relied upon.
func (d Decision) OfAnotherForm(master, version string) (Decision, bool) {
	if d.Form == Form {
		return d, false
	}
	age := "a newer"
	if d.Form < Form {
		age = "an older"
	}
	return Decision{Form: Form, Unfit: []int{0}, Who: master, Findings: finding.Report{
		finding.Failf("%s, which decides for all nodes, runs %s launch than this node (%s)", master, age, version).
			Named("same.launch").Breaking("the nodes do not understand what the others post, and the job hangs or dies").
			Do(oneVersion)}}, true
}
