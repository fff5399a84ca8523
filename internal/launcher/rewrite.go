package launcher

import (
	"slices"
	"strings"

	"launch/internal/setting"
)

// onLine takes torchrun's rendezvous options out of the line, puts the
// settings right behind the launcher's word and leaves everything else where
// it was.
func (r rewrite) onLine() Exec {
	e := Exec{Notes: r.notes}
	drop := map[int]bool{}
	typed := map[string]string{}
	for _, o := range torchOptions() {
		if r.act(o) != left {
			typed[o.dest] = strings.Join(r.line.mark(o.dest, drop), " ")
		}
	}
	var ours []string
	for _, s := range r.settings {
		word := "--" + s.dest + "=" + s.value // underscores: every version takes them
		ours = append(ours, word)
		e.Changes = append(e.Changes, Change{Old: typed[s.dest], New: word, Reason: s.reason})
		delete(typed, s.dest)
	}
	for _, o := range torchOptions() { // what is left of typed has no successor
		if old := typed[o.dest]; old != "" {
			e.Changes = append(e.Changes, Change{Old: old, Reason: "not used any more: the ranks and the meeting point are agreed on"})
		}
	}
	r.unset(&e, drop)
	for i, w := range r.line.Argv {
		if !drop[i] {
			e.Argv = append(e.Argv, w)
		}
		if i == r.line.At {
			e.Argv = append(e.Argv, ours...)
		}
	}
	return e
}

// viaEnv leaves the line alone and speaks through PET_ variables, torchrun's
// defaults: an option that the script itself gives torchrun beats them.
func (r rewrite) viaEnv() Exec {
	e := Exec{Notes: append(r.notes,
		"--as torchrun: PET_* variables are the only channel to the torchrun inside; an option of the same name there beats them")}
	drop := map[int]bool{}
	r.unset(&e, drop)
	e.Argv = r.line.without(drop)
	for _, s := range r.settings {
		scope := setting.Job
		switch s.dest {
		case "node_rank", "rdzv_conf", "local_addr":
			scope = setting.Node
		}
		pet := torchOption{dest: s.dest}.pet()
		e.Set = append(e.Set, identity(pet, s.value, scope, s.reason))
		e.Unset = slices.DeleteFunc(e.Unset, func(v setting.Var) bool { return v.Name == pet })
	}
	return e
}

// unset takes the PET_ variables of the rewritten options out of the
// environment: workers inherit them, and a torchrun inside the script would
// take them for its own. Assignments of an env prefix leave the line.
func (r rewrite) unset(e *Exec, drop map[int]bool) {
	for _, o := range torchOptions() {
		if o.noEnv || r.act(o) == left {
			continue
		}
		if v, ok := lookup(r.env, o.pet()); ok {
			gone := identity(o.pet(), v, setting.Node, "launch decides "+o.flag()+"; left in place it would reach every worker and a torchrun started inside one")
			e.Unset = append(e.Unset, gone)
		}
		for _, a := range r.line.Env.Set {
			if a.Name == o.pet() {
				drop[a.At] = true
				e.Changes = append(e.Changes, Change{Old: r.line.Argv[a.At], Reason: "launch decides " + o.flag()})
			}
		}
	}
}
