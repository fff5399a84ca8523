package peers

import (
	"maps"
	"slices"

	"launch/internal/finding"
)

// Around is what a node's command finds there: files, folders and processors. An empty field is unknown, or does not
// matter to the command, and is never a difference.
type Around struct {
	// Modules are digests of the files that the script imports, by their names: the first ones, of the program's own.
	Modules map[string]string `json:"modules,omitempty"`
	// Dir is the working directory, and Reads which of the relative paths that the script reads are there.
	Dir   string          `json:"dir,omitempty"`
	Reads map[string]bool `json:"reads,omitempty"`
	// Loads is whether libraries may be loaded from the folders for temporary files and caches: "exec", or the
	// folders that are mounted noexec.
	Loads string `json:"loads,omitempty"`
	// Ranks is what the script counts to start its ranks: "2 processors of its affinity", "8 GPUs".
	Ranks string `json:"ranks,omitempty"`
}

// MostModules is how many modules a node posts.
const MostModules = 24

// Executable is the value of Around.Loads where no folder is mounted noexec.
const Executable = "exec"

// compareAround compares what the nodes' commands find, where these are the same but for the nodes' places.
func compareAround(posts []Post) (out []judged) {
	if len(groups(posts, func(p Post) string { return p.Command })) > 1 && !placed(posts) {
		return nil
	}
	for _, rule := range aroundRules() {
		gs := groups(having(posts, rule.of), rule.of)
		if len(gs) < 2 {
			continue
		}
		f := finding.Warnf("%s: %s", rule.title, shares(gs, func(p Post) string { return rule.of(p) }, "kinds")).
			Named(rule.id).About(odd(gs)).Breaking("%s", rule.breaks).Do("%s", rule.fix)
		for _, g := range gs[:min(len(gs), most)] {
			f = f.See(ranked(g.nodes[0]), "%s", g.value)
		}
		out = append(out, judged{Finding: f})
	}
	return append(slices.Concat(compareModules(posts), compareReads(posts)), out...)
}

// aroundRule is one value that should be the same on all nodes.
type aroundRule struct {
	id, title, breaks, fix string
	of                     func(Post) string
}

func aroundRules() []aroundRule {
	return []aroundRule{{
		id: "same.noexec", title: "libraries cannot be loaded from the same folders on all nodes",
		of: func(p Post) string { return p.Around.Loads },
		breaks: "a library that is built or unpacked there (extensions of torch, Triton) does not load: " +
			"\"failed to map segment from shared object\"; its rank dies, and the others wait for it",
		fix: "mount -o remount,exec FOLDER   # there\n" +
			"or name folders that may hold programs: TMPDIR, TORCH_EXTENSIONS_DIR, TRITON_CACHE_DIR",
	}, {
		id: "same.counted", title: "the script starts a rank for each of what it counts, and the nodes have other numbers",
		of: func(p Post) string { return p.Around.Ranks },
		breaks: "the nodes start other numbers of ranks: where each takes its own number for that of all, they wait for " +
			"ranks that no node starts",
		fix: "taskset -p $$; cat /proc/self/status | grep Cpus_allowed_list; nvidia-smi -L   # there\n" +
			"or give the script the same number on every node",
	}}
}

// compareModules reports the modules of the program whose content differs.
func compareModules(posts []Post) []judged {
	names := map[string]bool{}
	for _, p := range posts {
		for name := range p.Around.Modules {
			names[name] = true
		}
	}
	var differ []string
	var first []group
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of := func(p Post) string { return p.Around.Modules[name] }
		if gs := groups(having(posts, of), of); len(gs) > 1 {
			if differ = append(differ, name); len(differ) == 1 {
				first = gs
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	f := finding.Warnf("modules that the script imports differ: %s: %s", finding.Some(differ), differs(first)).
		Named("same.modules").About(odd(first)).
		Breaking("ranks that run different versions of a program wait in different collectives or send other sizes, and "+
			"the job hangs, dies or computes wrong results").
		Do("sha256sum %s   # shows each node's version\ncopy it to all nodes again, or import it from a shared file system",
			differ[0])
	return []judged{{Finding: f}}
}

// compareReads reports the relative paths that only some nodes have, where they are in different working directories.
func compareReads(posts []Post) []judged {
	dir := func(p Post) string { return p.Around.Dir }
	if len(groups(having(posts, dir), dir)) < 2 {
		return nil
	}
	paths := map[string]bool{}
	for _, p := range posts {
		for name := range p.Around.Reads {
			paths[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		there := having(posts, func(p Post) string { return map[bool]string{true: "there"}[p.Around.Reads[name]] })
		gone := having(posts, func(p Post) string {
			if is, asked := p.Around.Reads[name]; asked && !is {
				return "gone"
			}
			return ""
		})
		apart := func(p Post) bool {
			return !slices.ContainsFunc(there, func(o Post) bool { return dir(o) == dir(p) })
		}
		if gone = slices.DeleteFunc(gone, func(p Post) bool { return !apart(p) }); len(there) == 0 || len(gone) == 0 {
			continue
		}
		f := finding.Warnf("the script reads %s, which %s does not have in its working directory %s; %s has it in %s", name,
			finding.Some(namesOf(gone)), dir(gone[0]), finding.Some(namesOf(there)), dir(there[0])).
			Named("same.dir").
			Breaking("a rank that does not find it may begin elsewhere than the others, as at step 0 without a checkpoint: "+
				"they wait in different collectives").
			Do("cd %s   # before launch, on %s; or give the script absolute paths", dir(there[0]),
				finding.Some(namesOf(gone)))
		if len(gone) < len(there) {
			f = f.About(namesOf(gone))
		}
		return []judged{{Finding: f}}
	}
	return nil
}
