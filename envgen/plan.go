package envgen

import (
	"fmt"
	"slices"

	"launch/internal/finding"
	"launch/internal/setting"
)

// rule is one variable that the plan may set. The texts are what docs/env.md
// and Explain say; want is what they say as code.
type rule struct {
	name    string
	library string // that reads it
	scope   setting.Scope
	span    span   // versions of NCCL (for NCCL's variables) that the rule is for
	alone   string // what the library does with nothing set: completes "NCCL …"
	when    string // where that is wrong: completes "set where …"
	value   string // what is set then
	source  string
	single  bool             // it holds for a job on one machine too
	head    bool             // mpirun itself reads it, on its own node
	used    func(*view) bool // the library that reads it may be in use
	want    func(*view) want
	agrees  func(v *view, value string) bool // a value has the effect that we want; nil: it is ours
}

// want is the right value, and what the library does without it.
type want struct {
	value   string
	wrong   string // what is wrong with the library's own choice: "NCCL would …"; "" where nothing is
	because string // what makes value the right one; a different value of the user's is shown beside it
	not     string // why nothing is set, where that is not that the library is right: "no RDMA port is ACTIVE"
	seen    []finding.Seen
}

func right(not string) want { return want{not: not} }

// verdict is a rule, judged.
type verdict struct {
	rule
	want
	user   setting.Decided // in force, where decided
	given  bool            // somebody decided it
	agreed bool            // and what was decided has the effect of ours
}

// sets tells whether the plan holds the variable.
func (d verdict) sets() bool { return !d.given && d.wrong != "" && d.want.value != "" }

// kept tells whether the plan shows the user's value and ours beside it.
func (d verdict) kept() bool { return d.given && !d.agreed && d.want.value != "" && d.because != "" }

// judge judges the rules of all libraries in use.
func (v *view) judge() []verdict {
	var out []verdict
	for _, r := range rules() {
		if !r.used(v) {
			continue
		}
		d := verdict{rule: r}
		d.user, d.given = v.decided(r.name)
		agrees := func(value string) bool {
			if r.agrees == nil {
				return value == d.want.value
			}
			return r.agrees(v, value)
		}
		if !v.apart() && !r.single {
			d.want = right("the job is on one machine")
		} else if version := v.versionOf(r); !r.span.holds(version) {
			d.want = right(spanWords(r, version))
		} else {
			d.want = r.want(v)
		}
		// A value that would not select what it names (an interface that is
		// down, a family that it lacks) is worse than none.
		if d.want.value != "" && !agrees(d.want.value) {
			d.want.value, d.not = "", "no value would choose right here"
		}
		d.agreed = d.given && d.want.value != "" && agrees(d.user.Value)
		out = append(out, d)
	}
	return out
}

// perNode tells that the rule is for each node by itself and this is mpirun,
// which would carry one node's value to the others.
func (v *view) perNode(r rule) bool { return v.Mpirun && r.scope == setting.Node && !r.head }

// versionOf is the version that the span of a rule is about.
func (v *view) versionOf(r rule) version {
	if r.library == setting.NCCL {
		return v.nccl
	}
	return version{}
}

func spanWords(r rule, now version) string {
	if !now.known() {
		return fmt.Sprintf("it is for %s %s, and the version here is not known; a current one is taken for granted", r.library, r.span)
	}
	return fmt.Sprintf("it is for %s %s, and this is %d.%d.%d", r.library, r.span, now[0], now[1], now[2])
}

// Make computes the plan: the variables without which a library would do
// something else, and wrong. It is empty wherever the libraries choose right by
// themselves. What is already decided is never replaced; where it has another
// effect it is listed as Kept, ours beside it. Under mpirun only constants of
// the job are planned, and what mpirun itself reads.
func Make(in Input) Plan {
	var plan Plan
	v := look(in)
	for _, d := range v.judge() {
		if v.perNode(d.rule) || !d.sets() && !d.kept() {
			continue
		}
		p := setting.Var{Name: d.name, Value: d.want.value, Scope: d.scope, Source: d.source, Seen: d.seen, Reason: d.wrong}
		if d.because != "" {
			p.Reason += "; " + d.because
		}
		if d.kept() {
			p.Kept, p.User, p.From = true, d.user.Value, d.user.From
			p.Seen = []finding.Seen{{Where: d.user.From, What: d.user.Name + "=" + d.user.Value}}
			p.Reason = "your value is kept, but " + d.because
		}
		plan = append(plan, p)
	}
	return plan
}

// rules is the table of what a plan may hold, in its order.
func rules() []rule {
	all := slices.Concat(addressRules(), fabricRules(), gidRules(), nodeRules(), mpiRules(), nvshmemRules(), frameworkRules())
	for i := range all {
		all[i].library = setting.Library(all[i].name)
	}
	return all
}
