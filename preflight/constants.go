package preflight

import (
	"maps"
	"slices"
	"strings"

	"launch/internal/finding"
)

// compareConstants names who has another setting of those that have to be the
// same on all nodes (Post.Constants). NCCL's are known to make the ranks of a
// job on GPUs disagree about messages, or choose different networks: then the
// minority is unfit.
func compareConstants(posts []Post) (out []judged) {
	names := map[string]bool{}
	gpus := true
	for _, p := range posts {
		for name := range p.Constants {
			names[name] = true
		}
		gpus = gpus && p.Loads.GPU
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		gs := groups(posts, func(p Post) string {
			if v, set := p.Constants[name]; set {
				return name + "=" + v
			}
			return name + " not set"
		})
		if len(gs) < 2 {
			continue
		}
		f := finding.Warnf("%s differs: %s", name, differs(gs, len(posts))).Named("same.env").
			Breaking("it has to be the same on all nodes: else ranks disagree about their messages, and hang or fail").
			Do("set it on all nodes alike, or on none; look at the environment and the library's own files there (launch env --explain)")
		var unfit []int
		if gpus && strings.HasPrefix(name, "NCCL_") {
			f.Status = finding.Fail
			for _, g := range gs[1:] {
				unfit = append(unfit, g.ranks...)
			}
		}
		out = append(out, judged{f, unfit})
	}
	return out
}
