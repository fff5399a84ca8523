package logs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// works is what the watchdogs of the ranks say of the collective that timed out.
type works struct {
	of map[int]work
}

// work is what one rank waited for.
type work struct {
	rank, seq   int
	group       string // of processes, by torch's numbers; "": the line names no group
	op, size    string
	enqueued    int // the last work that the program asked for; -1: unknown
	where, line string
}

const maxWorks = 1 << 16

func newWorks() works { return works{of: map[int]work{}} }

var (
	workForm = regexp.MustCompile(`\[(?:PG ([^\]]*?) )?Rank (\d+)\].*` +
		`WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?`)
	lastForm = regexp.MustCompile(`(?:\[PG ([^\]]*?) )?Rank (\d+)\].*[Ll]ast enqueued (?:NCCL )?work: (\d+)`)
)

// add reads a line of a watchdog. The first line of a rank counts. The line has the rank in its group; inJob is the
// rank in the job, by its prefix, or -1.
func (w works) add(line []byte, inJob int, where string) {
	if m := workForm.FindSubmatch(line); m != nil {
		rank := number(string(m[2]))
		if inJob >= 0 {
			rank = inJob
		}
		if old, ok := w.of[rank]; (!ok || old.seq < 0) && len(w.of) < maxWorks {
			last := -1
			if ok {
				last = old.enqueued
			}
			w.of[rank] = work{rank: rank, group: string(m[1]), seq: number(string(m[3])), op: string(m[4]),
				size: string(m[5]), enqueued: last, where: where, line: string(line[:min(len(line), maxQuote)])}
		}
	}
	if m := lastForm.FindSubmatch(line); m != nil {
		rank := number(string(m[2]))
		if inJob >= 0 {
			rank = inJob
		}
		one, ok := w.of[rank]
		if !ok {
			one = work{rank: rank, group: string(m[1]), seq: -1, enqueued: -1, where: where,
				line: string(line[:min(len(line), maxQuote)])}
		}
		if one.enqueued < 0 && len(w.of) < maxWorks {
			one.enqueued = number(string(m[3]))
			w.of[rank] = one
		}
	}
}

// verdict compares the ranks: in different collectives, or one behind the others.
func (w works) verdict() (verdict.Verdict, bool) {
	var all []work
	for _, one := range w.of {
		if one.seq >= 0 {
			all = append(all, one)
		}
	}
	if len(all) < 2 {
		return verdict.Verdict{}, false
	}
	slices.SortFunc(all, func(a, b work) int { return cmp.Compare(a.rank, b.rank) })
	if slices.ContainsFunc(all, func(one work) bool { return one.group != all[0].group }) {
		return verdict.Verdict{}, false
	}
	if v, ok := differing(all); ok {
		return v, true
	}
	if v, ok := w.silent(all); ok {
		return v, true
	}
	if v, ok := lagging(all); ok {
		return v, true
	}
	if v, ok := farBehind(all); ok {
		return v, true
	}
	return apartIn(all)
}

// silent finds the ranks whose last work is an earlier collective than the one that all others wait for, and that do
// not say that they wait: their heartbeat monitor reports it.
func (w works) silent(all []work) (verdict.Verdict, bool) {
	var late []work
	for _, one := range w.of {
		sameGroup := one.group == all[0].group || one.group == "" || all[0].group == ""
		if one.seq < 0 && one.enqueued >= 0 && one.enqueued < all[0].seq && sameGroup {
			late = append(late, one)
		}
	}
	differ := slices.ContainsFunc(all, func(one work) bool { return one.seq != all[0].seq || one.op != all[0].op })
	if differ || len(late) == 0 || len(late) >= len(all) {
		return verdict.Verdict{}, false
	}
	slices.SortFunc(late, func(a, b work) int { return cmp.Compare(a.rank, b.rank) })
	return verdict.Verdict{
		Cause: "log.rank-behind", Sure: verdict.Likely, Ranks: ranksOf(late), Seen: append(quotes(late)[:1], quotes(all)[0]),
		Says: fmt.Sprintf("%s did not ask for collective number %d (%s), for which the others wait: the last one there is "+
			"number %d", rankList(ranksOf(late)), all[0].seq, all[0].op, late[0].enqueued),
		Do: behindDo,
	}, true
}

// behindDo is what to do about ranks that do not reach a collective.
const behindDo = "look at the output and the stack of the ranks that are behind (py-spy dump): they are slow, hang, " +
	"or do other work than the others"

// hole finds the few ranks that have no such line, where all others of the job wait for one collective. That they still
// prepare data is likely only before the first one, and where the logs have lines of them.
func (w works) hole(of int, have map[int]bool, prepares bool) (verdict.Verdict, bool) {
	var all []work
	top := of - 1
	for _, one := range w.of {
		all = append(all, one)
		top = max(top, one.rank)
	}
	slices.SortFunc(all, func(a, b work) int { return cmp.Compare(a.rank, b.rank) })
	if len(all) < 3 || slices.ContainsFunc(all, func(one work) bool {
		whole := one.group == "" || one.group == "0" || strings.Contains(one.group, "default_pg")
		return one.seq < 0 || one.seq != all[0].seq || one.op != all[0].op || one.size != all[0].size || !whole
	}) {
		return verdict.Verdict{}, false
	}
	missing := numbers(absent(strings.Trim(strings.ReplaceAll(fmt.Sprint(ranksOf(all)), " ", ","), "[]")))
	for rank := all[len(all)-1].rank + 1; rank <= top; rank++ {
		missing = append(missing, rank)
	}
	if len(missing) == 0 || len(missing)*4 > top+1 {
		return verdict.Verdict{}, false
	}
	v := verdict.Verdict{
		Cause: "log.rank-behind", Sure: verdict.Possible, Ranks: missing, Seen: quotes(all),
		Says: fmt.Sprintf("%s did not reach collective number %d (%s), for which all others wait, as far as these logs show",
			rankList(missing), all[0].seq, all[0].op),
		Do: behindDo,
	}
	shown := !slices.ContainsFunc(missing, func(rank int) bool { return !have[rank] })
	if !shown {
		v.Says += " (they may lack that output)"
	}
	if prepares && all[0].seq == 1 {
		if shown {
			v.Sure = verdict.Likely
		}
		v.Says += ": a process still prepares its data"
		v.Do = "prepare the data before the job, in a run of its own, so that its cache is there; or raise the timeout of " +
			"the process group (init_process_group, ddp_timeout)"
	}
	return v, true
}

// farBehind finds the fewer ranks that wait in a collective with a much lower number than the others.
func farBehind(all []work) (verdict.Verdict, bool) {
	const far = 100
	top := slices.MaxFunc(all, func(a, b work) int { return cmp.Compare(a.seq, b.seq) })
	late := slices.DeleteFunc(slices.Clone(all), func(one work) bool { return top.seq-one.seq <= far })
	if len(late) == 0 || len(late)*2 > len(all) ||
		slices.ContainsFunc(all, func(one work) bool { return one.op != top.op }) { // other groups, as a rule
		return verdict.Verdict{}, false
	}
	sure, unless := verdict.Likely, ""
	if top.group == "" { // an older torch, whose lines name no group
		sure, unless = verdict.Possible, ", or they are of different groups of processes"
	}
	return verdict.Verdict{
		Cause: "log.rank-behind", Sure: sure, Ranks: ranksOf(late), Seen: append(quotes(late)[:1], quotes([]work{top})...),
		Says: fmt.Sprintf("%s%s in collective number %d, and %s in number %d: the first ones are %d behind%s",
			rankList(ranksOf(late)), waitVerb(late), late[0].seq, rankList([]int{top.rank}), top.seq, top.seq-late[0].seq,
			unless),
		Do: behindDo,
	}, true
}

// apartIn finds ranks that wait in two collectives, of other kinds and with numbers close to each other.
func apartIn(all []work) (verdict.Verdict, bool) {
	const near = 100
	low := slices.MinFunc(all, func(a, b work) int { return cmp.Compare(a.seq, b.seq) })
	high := slices.MaxFunc(all, func(a, b work) int { return cmp.Compare(a.seq, b.seq) })
	if low.seq == high.seq || high.seq-low.seq > near || low.op == high.op {
		return verdict.Verdict{}, false
	}
	var early, late []work
	for _, one := range all {
		switch {
		case one.seq == low.seq && one.op == low.op:
			early = append(early, one)
		case one.seq == high.seq && one.op == high.op:
			late = append(late, one)
		default:
			return verdict.Verdict{}, false
		}
	}
	few := early
	if len(late) < len(early) {
		few = late
	}
	return verdict.Verdict{
		Cause: "log.collective-mismatch", Sure: verdict.Likely, Ranks: ranksOf(few),
		Seen: append(quotes(early)[:1], quotes(late)[0]),
		Says: fmt.Sprintf("the ranks are out of step: %s in collective number %d (%s), and %s in number %d (%s)",
			rankList(ranksOf(early))+waitVerb(early), low.seq, low.op, rankList(ranksOf(late)), high.seq, high.op),
		Do: "compare what these ranks call at this point: in one group of processes all must call the same collectives in " +
			"the same order (an if on the rank, or other numbers of batches); where they are of different groups, look for " +
			"the rank of each group that is missing",
	}, true
}

func waitVerb(all []work) string {
	if len(all) == 1 {
		return " waits"
	}
	return " wait"
}

// differing finds the fewer ranks that call something else under the same number.
func differing(all []work) (verdict.Verdict, bool) {
	kinds := map[string][]work{}
	for _, one := range all {
		if one.seq != all[0].seq {
			return verdict.Verdict{}, false
		}
		what := one.op
		if !strings.Contains(one.op, "BASE") && one.op != "BROADCAST" && one.op != "SCATTER" && one.op != "GATHER" &&
			one.size != "" {
			what += " of " + one.size + " elements"
		}
		kinds[what] = append(kinds[what], one)
	}
	if len(kinds) != 2 {
		return verdict.Verdict{}, false
	}
	var few, most string
	for k := range kinds {
		if most == "" || len(kinds[k]) > len(kinds[most]) || len(kinds[k]) == len(kinds[most]) && k < most {
			few, most = most, k
		} else {
			few = k
		}
	}
	v := verdict.Verdict{
		Cause: "log.collective-mismatch", Sure: verdict.Likely, Ranks: ranksOf(kinds[few]),
		Says: fmt.Sprintf("%s in collective number %d %s %s, %s %s", rankList(ranksOf(kinds[few])), all[0].seq,
			calls(len(kinds[few])), few, rankList(ranksOf(kinds[most])), most),
		Do: "compare what these ranks call at this point: they must call the same collectives in the same order",
	}
	v.Seen = append(quotes(kinds[few]), quotes(kinds[most])...)
	return v, true
}

func calls(n int) string {
	if n == 1 {
		return "calls"
	}
	return "call"
}

// lagging finds the ranks whose program has not asked for the collective that the others wait for.
func lagging(all []work) (verdict.Verdict, bool) {
	top := 0
	for _, one := range all {
		if one.enqueued < 0 {
			return verdict.Verdict{}, false
		}
		top = max(top, one.enqueued)
	}
	late := slices.DeleteFunc(slices.Clone(all), func(one work) bool { return one.enqueued >= top })
	if len(late) == 0 || len(late)*2 >= len(all) {
		return verdict.Verdict{}, false
	}
	return verdict.Verdict{
		Cause: "log.rank-behind", Sure: verdict.Likely, Ranks: ranksOf(late), Seen: quotes(late),
		Says: fmt.Sprintf("%s asked for %d collectives, the others for %d: the others waited for the missing ones",
			rankList(ranksOf(late)), late[0].enqueued, top),
		Do: "look at what these ranks did between the two collectives",
	}, true
}

var (
	printOp    = regexp.MustCompile(`OpType=(\w+)`)
	printSeq   = regexp.MustCompile(`SequenceNumber=(\d+)`)
	printShape = regexp.MustCompile(`TensorShape=(\[[^\]]*\])`)
)

// compared adds how the calls of two ranks differ, by the fingerprints that torch prints of them.
func compared(v map[string]string) bool {
	both := func(form *regexp.Regexp) (a, b string) {
		m, n := form.FindStringSubmatch(v["acoll"]), form.FindStringSubmatch(v["bcoll"])
		if m == nil || n == nil || m[1] == n[1] {
			return "", ""
		}
		return m[1], n[1]
	}
	n, m := both(printSeq)
	if a, b := both(printOp); a != "" {
		if n != "" {
			a, b = a+" (number "+n+")", b+" (number "+m+")"
		}
		v["how"] = fmt.Sprintf("rank %s calls %s, rank %s %s", v["a"], a, v["b"], b)
	} else if n != "" {
		fewer, more, x, y := "a", "b", number(n), number(m)
		if x > y {
			fewer, more, x, y = more, fewer, y, x
		}
		v["how"] = fmt.Sprintf("rank %s has called %s fewer than rank %s (it is at number %d, the other one at %d)",
			v[fewer], finding.Count(y-x, "collective"), v[more], x, y)
	} else if a, b := both(printShape); a != "" {
		v["how"] = fmt.Sprintf("the sizes are %s on rank %s and %s on rank %s", a, v["a"], b, v["b"])
	}
	return true
}

func ranksOf(all []work) []int { return finding.Map(all, func(w work) int { return w.rank }) }

func quotes(all []work) []finding.Seen {
	return finding.Map(
		all[:min(2, len(all))],
		func(w work) finding.Seen { return finding.Seen{Where: w.where, What: w.line} },
	)
}

// rankList returns ranks as text: "rank 3", "ranks 0-2, 5".
func rankList(ranks []int) string {
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, strconv.Itoa(ranks[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	return finding.Noun(len(ranks), "rank") + " " + finding.Some(parts)
}
