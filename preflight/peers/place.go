package peers

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Place is a node's place in the job as its own command line names it: the arguments in which the nodes should differ.
type Place struct {
	// Alike are digests of Post.Command and Post.Bare without the node's place: those of all nodes should be equal.
	Alike [2]string `json:"alike,omitzero"`
	// Values are those of the arguments that give the node a number, in their order.
	Values []string `json:"values,omitempty"`
}

// PlaceIn returns the place of a node with these names and addresses, from its command line and from the same line
// with the bare name of its script.
func PlaceIn(line, bare []string, own ...string) (p Place) {
	var names []*regexp.Regexp
	for _, name := range own { // a name of digits alone may be any number
		if strings.ContainsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
			names = append(names, regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`))
		}
	}
	var text string
	text, p.Values = withoutPlace(line, names)
	p.Alike[0] = digest(text)
	text, _ = withoutPlace(bare, names)
	p.Alike[1] = digest(text)
	return p
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12] }

// withoutPlace returns a command line in which the node's own number and its own names are replaced, and the numbers.
// A line for a shell (bash -c) is an argument of several arguments.
func withoutPlace(line []string, own []*regexp.Regexp) (text string, values []string) {
	args := strings.FieldsFunc(strings.Join(line, " "), func(r rune) bool { return strings.ContainsRune(" \t\n;\"'", r) })
	for i, arg := range args {
		name, value, attached := strings.Cut(arg, "=")
		if !attached && i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.HasPrefix(arg, "-") {
			name, value = args[i-1], arg
		}
		if _, err := strconv.ParseUint(value, 10, 32); err == nil && numbersNode(name) {
			values = append(values, value)
			args[i] = strings.TrimSuffix(arg, value) + "#"
			continue
		}
		if !ofAll(name) {
			for _, o := range own {
				arg = o.ReplaceAllLiteralString(arg, "HOST")
			}
			args[i] = arg
		}
	}
	return strings.Join(args, " "), values
}

var (
	camel   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	nouns   = regexp.MustCompile(`^(node|machine|host|worker|process|proc|task|pod|instance|replica|server|client|shard)$`)
	joined  = regexp.MustCompile(`^(node|machine|host|worker|proc)(rank|id|index|idx)$`)
	numbers = regexp.MustCompile(`^(rank|id|index|idx|no|nr)$`)
	// common are parts of names whose value is one for all nodes: an address of the master is no place.
	common = regexp.MustCompile(`^(master|main|head|leader|store|rdzv|rendezvous|coordinator|init|endpoint|url|etcd)$`)
)

// partsOf returns the parts of a flag's or a variable's name: node and rank of --nodeRank and of
// trainer.node-rank.
func partsOf(name string) []string {
	name = strings.ToLower(camel.ReplaceAllString(name, "$1-$2"))
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.+", r) })
}

// ofAll reports whether the name belongs to a value that all nodes share.
func ofAll(name string) bool { return slices.ContainsFunc(partsOf(name), common.MatchString) }

// numbersNode reports whether a number with this name is a place of a node: --node-rank, --rank, NODE_ID, --machine.
func numbersNode(name string) bool {
	parts := partsOf(name)
	n := len(parts)
	switch {
	case n == 0 || ofAll(name):
		return false
	case parts[n-1] == "rank", joined.MatchString(parts[n-1]), nouns.MatchString(parts[n-1]):
		return n == 1 || !slices.Contains(parts, "num") && !slices.Contains(parts, "n") && !slices.Contains(parts, "per")
	}
	return n > 1 && numbers.MatchString(parts[n-1]) && nouns.MatchString(parts[n-2])
}

// placed reports whether the nodes' commands differ in nothing but their places: each number is the same on all nodes,
// or counts them.
func placed(posts []Post) bool {
	of := 0
	if bareNames(posts) {
		of = 1
	}
	first := posts[0].Place
	for _, p := range posts {
		if first.Alike[of] == "" || p.Place.Alike[of] != first.Alike[of] || len(p.Place.Values) != len(first.Values) {
			return false
		}
	}
	for i := range first.Values {
		if !counts(posts, func(p Post) string { return p.Place.Values[i] }) {
			return false
		}
	}
	return true
}

// counts reports whether a number is the same on all nodes, or counts them: from 0 in equal steps, as the ranks of
// each node's first process do, or from 1.
func counts(posts []Post, of func(Post) string) bool {
	var all []int
	for _, p := range posts {
		n, err := strconv.Atoi(of(p))
		if err != nil {
			return false
		}
		all = append(all, n)
	}
	slices.Sort(all)
	if all[0] == all[len(all)-1] {
		return true
	}
	step := all[1] - all[0]
	for i, n := range all {
		if n != all[0]+i*step {
			return false
		}
	}
	return step > 0 && (all[0] == 0 || all[0] == 1 && step == 1)
}
