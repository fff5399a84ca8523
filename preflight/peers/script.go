package peers

import "launch/internal/finding"

// compareScripts names the nodes on which the script has another content. Where
// the commands differ that is told already, and a script of another name is
// another script.
func compareScripts(posts []Post) []judged {
	if len(groups(posts, func(p Post) string { return p.Command })) > 1 {
		return nil
	}
	script := func(p Post) string { return p.Script }
	gs := groups(having(posts, script), script)
	if len(gs) < 2 {
		return nil
	}
	return []judged{{Finding: finding.Warnf("the script's content differs: %s", differs(gs)).Named("same.script").
		Breaking("ranks that run different versions of a program wait in different collectives, and the job hangs or computes nonsense").
		Do("copy it to all nodes again, or run it from a file system that all share; sha256sum tells what each has")}}
}
