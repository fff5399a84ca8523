package peers

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
	for _, p := range posts {
		for name := range p.Constants {
			names[name] = true
		}
	}
	gpus := onGPU(loadsOf(posts))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		gs := groupsBySetting(posts, name)
		if len(gs) < 2 || gpus && explained(posts, name) {
			continue
		}
		f := finding.Warnf("%s differs: %s", name, differs(gs)).Named("same.env").
			Breaking("it has to be the same on all nodes: else ranks disagree about their messages, and hang or fail").
			Do("set it on all nodes alike, or on none; look at the environment and the library's own files there (launch env --explain)")
		var unfit []int
		if gpus && strings.HasPrefix(name, "NCCL_") {
			f.Status = finding.Fail
			unfit = ranksIn(gs[1:])
		}
		out = append(out, judged{f, unfit})
	}
	return out
}

func groupsBySetting(posts []Post, name string) []group {
	return groups(posts, func(p Post) string {
		if v, set := p.Constants[name]; set {
			return name + "=" + v
		}
		return name + " not set"
	})
}

// consequence is the setting that a node's plan makes of a trait, by the ID of its
// rule: where a node alone has the trait, the setting is there alone. stops tells
// that NCCL does not go on then: sockets of another family it opens as its peer's
// address is.
func consequence(rule string) (setting string, stops bool) {
	setting = map[string]string{"same.fabric": "NCCL_NET", "same.gid": "NCCL_IB_ADDR_FAMILY", "same.family": "NCCL_SOCKET_FAMILY"}[rule]
	return setting, setting != "" && rule != "same.family"
}

// follows tells that the setting differs between the same nodes as the trait.
func (r traitRule) follows(posts []Post) bool {
	setting, _ := consequence(r.id)
	if setting == "" {
		return false
	}
	a, b := r.groups(posts), groupsBySetting(posts, setting)
	return len(a) > 1 && len(b) > 1 && sameOdd(a, b)
}

// explained tells that a difference in a setting is told with its cause.
func explained(posts []Post, setting string) bool {
	return slices.ContainsFunc(traitRules(), func(r traitRule) bool {
		of, _ := consequence(r.id)
		return of == setting && r.follows(posts)
	})
}
