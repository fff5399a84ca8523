package peers

import (
	"slices"
	"strings"

	"launch/internal/finding"
)

// parts returns what a comparison compares with each other: all nodes, or those of each role.
func (c comparison) parts(posts []Post) [][]Post {
	if !c.apart {
		return [][]Post{posts}
	}
	var out [][]Post
	for _, g := range groups(posts, roleOf) {
		out = append(out, g.nodes)
	}
	return out
}

func roleOf(p Post) string { return p.Role }

// compareRoles judges whether the roles of the nodes go together.
func compareRoles(posts []Post) (out []judged) {
	with := having(posts, roleOf)
	if len(with) == 0 {
		return nil
	}
	if without := slices.DeleteFunc(slices.Clone(posts), func(p Post) bool { return p.Role != "" }); len(without) > 0 {
		out = append(out, judged{finding.Failf("%s: no --role, but %s has the role %q", finding.Some(namesOf(without)),
			with[0].Name, with[0].Role).Named("same.role").
			Do("give each node of the job its --role, or none of them"), ranksOf(without)})
	}
	for _, g := range groups(with, roleOf) {
		for _, p := range g.nodes {
			out = append(out, waitsInVain(p, with)...)
		}
	}
	return out
}

// waitsInVain judges what a node waits for before its command starts.
func waitsInVain(p Post, with []Post) (out []judged) {
	for _, role := range p.After {
		if !slices.ContainsFunc(with, func(o Post) bool { return o.Role == role }) {
			out = append(out, judged{finding.Failf("%s waits for the role %q (--after), which no node has; the roles are %s",
				p.Name, role, finding.Some(roles(with))).Named("same.role").
				Do("name one of these roles with --after, or start the nodes of %s; --nnodes counts the nodes of all roles",
					role), []int{p.Rank}})
			continue
		}
		if back := path(with, role, p.Role, nil); back != nil {
			out = append(out, judged{finding.Failf("%s waits for itself: %s after %s", p.Name, p.Role,
				strings.Join(back, " after ")).Named("same.role").
				Breaking("none of these nodes would ever start").Do("drop one --after"), []int{p.Rank}})
		}
	}
	return out
}

// roles returns the names of the roles, sorted.
func roles(posts []Post) []string {
	names := finding.Map(groups(posts, roleOf), func(g group) string { return g.value })
	slices.Sort(names)
	return names
}

// path returns the roles by which one waits for another, directly or through others; nil: it does not.
func path(posts []Post, from, to string, seen []string) []string {
	if seen = append(seen, from); from == to {
		return seen
	}
	for _, p := range posts {
		if p.Role != from {
			continue
		}
		for _, next := range p.After {
			if slices.Contains(seen, next) {
				continue
			}
			if found := path(posts, next, to, slices.Clone(seen)); found != nil {
				return found
			}
		}
	}
	return nil
}
