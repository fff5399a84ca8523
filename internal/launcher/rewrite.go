package launcher

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"launch/internal/setting"
)

// onLine returns the line without torchrun's rendezvous options and with the
// settings right after the launcher. Everything else stays in place.
func (r rewrite) onLine() Exec {
	e := Exec{Notes: r.notes}
	drop := map[int]bool{}
	typed := map[string]string{}
	for _, o := range torchOptions() {
		if r.decides(o) {
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
			e.Changes = append(e.Changes,
				Change{Old: old, Reason: "not needed: the nodes have agreed on the ranks and the address"})
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

// viaEnv returns the line as it is, and the settings as PET_ variables, torchrun's defaults: an option in the script
// overrides them. What else the script runs has the variables of a plain program.
func (r rewrite) viaEnv(w World) Exec {
	e := Exec{Notes: append(r.notes,
		"launch sets PET_* variables for the torchrun inside (--as torchrun): an option there overrides them")}
	drop := map[int]bool{}
	r.unset(&e, drop)
	e.Argv = r.line.without(drop)
	w.Task = Task{} // torchrun has the whole node
	plain := Line{Kind: Program}.program(w, nil, r.env)
	e.Set, e.Unset = plain.Set, append(e.Unset, plain.Unset...)
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

// unset removes the PET_ variables of the rewritten options from the environment: workers inherit them,
// and a torchrun in the script would use them. It removes assignments of an env prefix from the line.
func (r rewrite) unset(e *Exec, drop map[int]bool) {
	for _, o := range torchOptions() {
		if !r.decides(o) {
			continue
		}
		if v, ok := lookup(r.env, o.pet()); ok {
			gone := identity(o.pet(), v, setting.Node, "launch decides "+o.flag()+"; every worker would inherit it, "+
				"and a torchrun in one would use it")
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

// plain matches texts that no shell changes; syntax.Quote alone would also quote --opt=value.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote returns an argument vector as one line to paste into a shell.
func Quote(argv []string) string {
	out := make([]string, len(argv))
	for i, w := range argv {
		if plain.MatchString(w) {
			out[i] = w
			continue
		}
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil { // a NUL byte, which no argument vector can hold
			q = "'" + strings.ReplaceAll(w, "\x00", "") + "'"
		}
		out[i] = q
	}
	return strings.Join(out, " ")
}
