package peers

import (
	"maps"
	"slices"
	"strings"

	"launch/internal/finding"
)

// Around is what a node's command finds there: files, folders and processors. An empty field is unknown, or does not
// matter to the command, and is never a difference.
type Around struct {
	// Modules are digests of the files that the script imports, by their names: the first ones, of the program's own.
	Modules map[string]string `json:"modules,omitempty"`
	// Packages are the versions of installed packages that it imports, by the names of the imports, and checksums of those
	// without, by the files that an import runs first: the first ones.
	Packages map[string]string `json:"packages,omitempty"`
	// Dir is the working directory, and Reads which of the relative paths that the script reads are there.
	Dir   string          `json:"dir,omitempty"`
	Reads map[string]bool `json:"reads,omitempty"`
	// Loads is whether libraries may be loaded from the folders for temporary files and caches: "exec", or the
	// folders that are mounted noexec.
	Loads string `json:"loads,omitempty"`
	// Ranks is what the script counts to start its ranks: "2 processors of its affinity", "8 GPUs".
	Ranks string `json:"ranks,omitempty"`
}

// MostModules is how many modules, and how many packages, a node posts.
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
	return append(slices.Concat(compareModules(posts), comparePackages(posts), compareReads(posts)), out...)
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
	differ := differing(posts, func(p Post) map[string]string { return p.Around.Modules })
	if len(differ) == 0 {
		return nil
	}
	first := differ[0]
	names := finding.Some(finding.Map(differ, func(d versions) string { return d.name }))
	f := finding.Warnf("modules that the script imports differ: %s: %s", names, differs(first.groups)).
		Named("same.modules").About(odd(first.groups)).
		Breaking("ranks that run different versions of a program wait in different collectives or send other sizes, and "+
			"the job hangs, dies or computes wrong results").
		Do("sha256sum %s   # shows each node's version\n"+
			"copy it to all nodes again, or import it from a shared file system", first.name)
	return []judged{{Finding: f}}
}

// comparePackages reports installed packages with other versions.
func comparePackages(posts []Post) []judged {
	differ := differing(posts, func(p Post) map[string]string { return p.Around.Packages })
	if len(differ) == 0 {
		return nil
	}
	all := finding.Map(differ, func(d versions) string { return d.name + ": " + differs(d.groups) })
	f := finding.Warnf("installed packages that the script imports differ: %s",
		strings.Join(all[:min(len(all), most)], "; ")).Named("same.packages").About(odd(differ[0].groups)).
		Breaking("where the versions behave differently, ranks wait in different collectives or send other sizes: the job "+
			"hangs, dies or computes wrong results").
		Do("python -c 'import %s as p; print(p.__file__)'   # shows where a node has it\n"+
			"install the same versions on all nodes", module(differ[0].name))
	return []judged{{Finding: f}}
}

// module returns the name by which a package is imported that has a key of Around.Packages.
func module(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return strings.TrimSuffix(name, ".py")
}

// versions are a name whose values differ between nodes, and the nodes by their values.
type versions struct {
	name   string
	groups []group
}

// differing returns the names whose values differ, sorted.
func differing(posts []Post, of func(Post) map[string]string) (out []versions) {
	all := map[string]bool{}
	for _, p := range posts {
		for name := range of(p) {
			all[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := func(p Post) string { return of(p)[name] }
		if gs := groups(having(posts, value), value); len(gs) > 1 {
			out = append(out, versions{name, gs})
		}
	}
	return out
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
