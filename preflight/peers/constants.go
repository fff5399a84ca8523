package peers

import (
	"maps"
	"slices"
	"strings"

	"launch/internal/finding"
)

// compareConstants compares the settings that must be the same on all nodes
// (Post.Constants). With different settings of NCCL the ranks of a job on GPUs disagree
// about messages or choose different networks: then the minority is unfit.
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
			Breaking("ranks that disagree about their messages hang or fail").
			Do("launch env --explain   # shows its source: the environment or the library's own files\n" +
				"set it to the same value on all nodes, or on no node")
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

// consequence returns the setting that a node's plan derives from a trait, by the ID of its rule:
// where only one node has the trait, only that node has the setting. stops reports whether NCCL
// stops then; it opens sockets of another family by the address of its peer.
func consequence(rule string) (setting string, stops bool) {
	setting = map[string]string{"same.fabric": "NCCL_NET", "same.gid": "NCCL_IB_ADDR_FAMILY",
		"same.family": "NCCL_SOCKET_FAMILY"}[rule]
	return setting, setting != "" && rule != "same.family"
}

// follows reports whether the setting differs between the same nodes as the trait.
func (r traitRule) follows(posts []Post) bool {
	setting, _ := consequence(r.id)
	if setting == "" {
		return false
	}
	a, b := r.groups(posts), groupsBySetting(posts, setting)
	return len(a) > 1 && len(b) > 1 && sameOdd(a, b)
}

// explained reports whether the cause of a difference in a setting is reported already.
func explained(posts []Post, setting string) bool {
	return slices.ContainsFunc(traitRules(), func(r traitRule) bool {
		of, _ := consequence(r.id)
		return of == setting && r.follows(posts)
	})
}
