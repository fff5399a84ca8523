package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// rule looks at one job for one family of causes.
type rule func(*view) []claim

// rules are asked in this order; among causes of one depth that are as sure the earlier one is the main verdict.
var rules = []rule{
	(*view).starved, (*view).processes, (*view).daemons, (*view).endedNodes, (*view).worlds, (*view).unlike,
	(*view).larger, (*view).renumbered, (*view).barred, (*view).twins, (*view).lines, (*view).storeHolders,
	(*view).storeReach, (*view).addresses, (*view).endedAgents, (*view).missingNodes, (*view).crawls, (*view).paths,
	(*view).unheard, (*view).dials, (*view).failedInits, (*view).groups, (*view).mismatch, (*view).arguments,
	(*view).crossed, (*view).calls, (*view).undone, (*view).nccl,
	(*view).closed, (*view).goneRanks, (*view).apart, (*view).absentRanks, (*view).thinMesh, (*view).exits,
	(*view).idle,
}

// Judge says of each job that the scenes show whether it hangs, and why. Scenes of one host count once, the latest.
func Judge(scenes []scene.Scene) []verdict.Answer {
	var out []verdict.Answer
	for _, v := range views(scenes) {
		out = append(out, v.answer())
	}
	if len(out) == 0 {
		out = []verdict.Answer{waitingLaunch(scenes)}
	}
	slices.SortStableFunc(out, func(a, b verdict.Answer) int { return cmp.Compare(order(a.State), order(b.State)) })
	return out
}

// waitingLaunch answers where no job was found: launch may wait for its nodes.
func waitingLaunch(scenes []scene.Scene) verdict.Answer {
	for _, s := range scenes {
		for _, p := range s.Procs {
			if p.Role != scene.Launch {
				continue
			}
			c := claimed("launch.waits", verdict.Certain, fmt.Sprintf(
				"launch (pid %d on %s) has not started its command: the last line that it printed says what it waits for",
				p.PID, s.Host))
			c.Nodes = []string{s.Host}
			c = c.see(procPath(&p, "cmdline"), command(&p))
			return verdict.Answer{State: verdict.Hung, Why: []verdict.Verdict{c.Verdict}, Need: gaps(scenes)}
		}
	}
	return verdict.Answer{State: verdict.NoJob, Need: gaps(scenes)}
}

// order puts jobs that hang first.
func order(s verdict.State) int {
	return slices.Index([]verdict.State{verdict.Hung, verdict.Open, verdict.Slow, verdict.Running, verdict.NoJob}, s)
}

func (v *view) answer() verdict.Answer {
	var claims []claim
	for _, r := range rules {
		claims = append(claims, r(v)...)
	}
	claims = fold(v.explain(ownTimeouts(claims)))
	a := verdict.Answer{Job: v.title(), State: v.state(claims)}
	if a.State == verdict.Slow { // whom the others wait for, even those that do not move
		slices.SortStableFunc(claims, func(a, b claim) int { return working(b) - working(a) })
	}
	for _, c := range claims {
		if c.loops && c.Sure == verdict.Certain { // after all are in order
			c.Sure = verdict.Likely
		}
		a.Why = append(a.Why, c.Verdict)
	}
	if a.State != verdict.Running {
		a.Need = v.needs(claims)
	}
	a.Ranks = v.ranks()
	return a
}

func working(c claim) int {
	if c.Cause == "rank.working" {
		return 1
	}
	return 0
}

// ranks lists the ranks for people.
func (v *view) ranks() (out []verdict.Rank) {
	seen := map[int]bool{}
	for _, s := range v.seats {
		r := verdict.Rank{Rank: s.rank, Node: s.node.name, PID: s.proc.PID, Phase: string(s.phase)}
		switch is, _ := halted(s.proc, s.node); {
		case s.proc.State == "Z":
			r.Phase = "ended"
		case is != "":
			r.Phase = "stopped"
		}
		if m := mainStack(s.proc); m != nil {
			r.At = line(m)
		}
		seen[s.rank] = true
		out = append(out, r)
	}
	for r := range min(v.world, maxListed) {
		if n := v.nodeOf(r); !seen[r] && !v.nameless() {
			phase := "unseen"
			if n != nil && n.scene != nil && v.readable(n) {
				phase = "gone"
			}
			out = append(out, verdict.Rank{Rank: r, Node: nodeName(n), Phase: phase})
		}
	}
	slices.SortStableFunc(out, func(a, b verdict.Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}

// maxListed bounds the list of ranks: a WORLD_SIZE may be anything.
const maxListed = 1 << 16

// title names the job for people.
func (v *view) title() string {
	if v.run != "" && v.run != "none" {
		return v.run
	}
	for _, s := range v.stores {
		return s.Addr
	}
	return v.mpiTitle()
}

// state says what the job does, by the claims that remain.
func (v *view) state(claims []claim) verdict.State {
	open, asks := false, false
	for _, c := range claims {
		switch {
		case c.Cause == "rank.working":
		case c.unattended():
			asks = true
		case c.cause.depth >= waiting, c.Sure == verdict.Possible:
			open = true
		default:
			return verdict.Hung
		}
	}
	switch {
	case slices.ContainsFunc(claims, func(c claim) bool { return c.Cause == "rank.working" }):
		return verdict.Slow
	case asks:
		return verdict.Hung
	case open, len(claims) == 0 && !v.moves():
		return verdict.Open
	default:
		return verdict.Running
	}
}

// moves reports whether some rank works, or bytes move between ranks.
func (v *view) moves() bool {
	return v.busy() || slices.ContainsFunc(v.seats, func(s *seat) bool {
		return !v.spins(s) && (works(s.proc.Moved, s.node.scene.Span) || strings.HasPrefix(s.proc.State, "R"))
	})
}

// explain removes claims that a deeper one explains, and sorts the rest by depth, the surest of each first.
func (v *view) explain(all []claim) []claim {
	slices.SortStableFunc(all, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.cause.depth, b.cause.depth), cmp.Compare(grade(a.Sure), grade(b.Sure)))
	})
	var out []claim
	for _, c := range all {
		if !slices.ContainsFunc(out, func(d claim) bool { return v.explains(d, c) }) {
			out = append(out, c)
		}
	}
	// A rank that could not connect to what another one has published fails by that.
	return slices.DeleteFunc(out, func(c claim) bool {
		return (c.Cause == "rank.failed" || c.Cause == "rank.thread") && slices.ContainsFunc(out, func(d claim) bool {
			return strings.HasPrefix(d.Cause, "address.") && v.within(c, d)
		})
	})
}

// grade orders how sure verdicts are, the surest first.
func grade(s verdict.Sure) int {
	return slices.Index([]verdict.Sure{verdict.Certain, verdict.Likely, verdict.Possible}, s)
}

// explains reports whether the deeper claim d makes c superfluous: c blames only what d blames already, or c is
// what remains where nothing was found.
func (v *view) explains(d, c claim) bool {
	if d.Cause == c.Cause && len(c.Ranks)+len(c.Nodes) == 0 {
		return true
	}
	if d.Cause == "world.counted" && slices.Contains([]string{"rank.duplicate", "rank.absent"}, c.Cause) {
		return true // the script computes these numbers, too
	}
	if d.cause.depth >= c.cause.depth && d.Cause != c.Cause {
		return d.cause.depth == c.cause.depth && c.cause.depth == waiting && v.within(c, d)
	}
	if c.cause.depth == guess || c.Cause == "mesh.incomplete" || c.Cause == "exit.barrier" {
		return d.Cause != "rank.working" || c.cause.depth == guess
	}
	if c.Cause == "node.missing" &&
		slices.Contains([]string{"nnodes.differ", "rdzv.ids-differ", "node.duplicate"}, d.Cause) {
		return true
	}
	if c.Cause == "peer.ended" && d.cause.depth == onTheSpot {
		return true
	}
	return v.within(c, d)
}

// fold makes one claim of those that say the same of several ranks, and writes their sentences.
func fold(all []claim) (out []claim) {
	for _, c := range all {
		same := slices.IndexFunc(out, func(d claim) bool {
			return len(c.seats) > 0 && len(d.seats) > 0 && d.Cause == c.Cause && d.Sure == c.Sure && d.what == c.what
		})
		if same < 0 {
			out = append(out, c)
			continue
		}
		d := &out[same]
		d.seats = append(d.seats, c.seats...)
		for _, n := range c.Nodes {
			if !slices.Contains(d.Nodes, n) {
				d.Nodes = append(d.Nodes, n)
			}
		}
		d.Ranks = slices.Compact(slices.Sorted(slices.Values(append(d.Ranks, c.Ranks...))))
		if d.Seen = append(d.Seen, c.Seen...); len(d.Seen) > maxSeen {
			d.Seen = d.Seen[:maxSeen]
		}
	}
	for i, c := range out {
		if len(c.seats) > 0 {
			out[i].Says = sentence(c.seats, c.what)
		}
	}
	return out
}

// maxSeen bounds the evidence of a claim about many ranks.
const maxSeen = 6

// within reports whether all that c blames is blamed by d: the same ranks, or ranks of the same nodes.
func (v *view) within(c, d claim) bool {
	if len(c.Ranks) == 0 && len(c.Nodes) == 0 {
		return false
	}
	for _, r := range c.Ranks {
		n := v.nodeOf(r)
		if !slices.Contains(d.Ranks, r) && (n == nil || !slices.Contains(d.Nodes, n.name) || len(d.Ranks) > 0) {
			return false
		}
	}
	if len(c.Ranks) == 0 {
		for _, n := range c.Nodes {
			if !slices.Contains(d.Nodes, n) {
				return false
			}
		}
	}
	return true
}

// needs lists what to gather where the evidence does not decide.
func (v *view) needs(claims []claim) (out []string) {
	certain := slices.ContainsFunc(claims, func(c claim) bool {
		return c.Sure == verdict.Certain && c.cause.depth < waiting
	})
	if certain {
		return nil
	}
	var unseenNodes []string
	for _, n := range v.nodes {
		if n.scene == nil {
			unseenNodes = append(unseenNodes, n.name)
		}
	}
	if len(unseenNodes) > 0 {
		out = append(out, "on "+finding.Some(unseenNodes)+": launch doctor --json; then judge all together: "+
			"launch doctor --merge FILE...")
	}
	var scenes []scene.Scene
	for _, n := range v.nodes {
		if n.scene != nil {
			scenes = append(scenes, *n.scene)
		}
	}
	return append(out, gaps(scenes)...)
}

// gaps lists what the scenes could not read, with how to make it readable.
func gaps(scenes []scene.Scene) (out []string) {
	for _, s := range scenes {
		for _, g := range s.Gaps {
			text := s.Host + ": " + g.What + ": " + g.Why
			if g.Fix != "" {
				text += "; " + g.Fix
			}
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}
