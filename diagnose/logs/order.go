package logs

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// first returns the root to report. An error of Python next to a line that the table knows is that line's. A line that
// leaves the reason to others gives way to them.
func first(roots []*event) *event {
	const near = 200
	top := roots[0]
	if top.cause.wraps {
		for _, e := range roots {
			sameID := e.cause.id == top.cause.id
			if !e.cause.wraps && (e.cause.grade == decisive || sameID) && e.file == top.file && (e.st == top.st || sameID) &&
				max(e.order-top.order, top.order-e.order) < near {
				return e
			}
		}
	}
	for _, e := range roots { // what the server of ssh says is the reason of what its clients get
		if e.cause.server && e.cause.id == top.cause.id && !otherNode(e.node, top.node) {
			e.node = cmp.Or(top.node, e.node)
			return e
		}
	}
	if top.cause.grade == decisive {
		return top
	}
	for _, want := range []grade{decisive, family} {
		for _, e := range roots {
			ofJob := e.st.object || isLimit(e) // a fact of its own
			if e.cause.grade == want && want < top.cause.grade && e.file == top.file && e.st == top.st && !ofJob &&
				max(e.order-top.order, top.order-e.order) < near {
				return e
			}
		}
	}
	return top
}

// ofLastStart leaves out the ends after which the job started again, and failed in another way. Without a sign of
// progress between both it is the same start.
func ofLastStart(roots []*event) []*event {
	const restart = 5 * time.Minute
	return slices.DeleteFunc(slices.Clone(roots), func(e *event) bool {
		return e.cause.again && !e.time.IsZero() && slices.ContainsFunc(roots, func(o *event) bool {
			return !o.cause.again && o.file == e.file && o.order > e.order && o.time.Sub(e.time) > restart &&
				o.went > e.went
		})
	})
}

// reasonsBefore leaves out the errors of programs that only sum up, where a line shortly before them in the log has
// the reason: the error follows from that.
func reasonsBefore(roots, live []*event) []*event {
	const near = 200
	sums := func(e *event) bool {
		name := exceptionName([]byte(e.text))
		return e.cause.grade == failed && !e.trace && (name == "Error" || specific([]byte(e.text)) <= 0)
	}
	return slices.DeleteFunc(slices.Clone(roots), func(e *event) bool {
		return sums(e) && slices.ContainsFunc(live, func(o *event) bool {
			if o.file != e.file || o.order >= e.order || e.order-o.order >= near {
				return false
			}
			return o.cause.grade == open && o.cause != &unexplained && !o.warning() ||
				o.cause.grade == unknown && specific([]byte(o.text)) > max(1, specific([]byte(e.text)))
		})
	})
}

// detailed leaves out the errors of programs whose next line has what they are about, which is of a known kind.
func detailed(live []*event) []*event {
	return slices.DeleteFunc(slices.Clone(live), func(e *event) bool {
		return e.trace && e.cause == &unexplained && slices.ContainsFunc(live, func(o *event) bool {
			return o.st == e.st && o.order == e.order+1 && !o.trace && o.cause.grade <= ended && !o.isError()
		})
	})
}

// survived says whether the process of an error goes on after it: it later waits for others, or loses them. An error
// that is raised while the first one is handled is no sign of that.
func survived(e *event, live []*event) bool {
	return e.cause.grade == failed && e.st.alone && slices.ContainsFunc(live, func(o *event) bool {
		return o.st == e.st && o.order > e.order && !o.chained && (o.trace && o.cause.grade > failed &&
			o.cause.grade < harmless || o.cause.grade == waits && exceptionName([]byte(o.text)) != "")
	})
}

// softLast puts errors after which programs often try again, and those whose reason is on another line, after those
// that end them.
func softLast(a, b *event) int {
	late := func(e *event) int {
		if e.cause.soft || e.cause.wraps {
			return 1
		}
		return 0
	}
	return cmp.Compare(late(a), late(b))
}

// closedLast puts what a rank found closed, or whose end it saw, after what closed it.
func closedLast(a, b *event) int {
	closed := func(e *event) int {
		if e.cause.id == "log.rendezvous-closed" {
			return 1
		}
		return 0
	}
	return cmp.Compare(closed(a), closed(b))
}

// reasonOf returns the line shortly before the end of a process, in its log, that looks like an error with a reason;
// nil: there is no such line.
func reasonOf(end *event, live []*event) *event {
	const near = 200
	for _, e := range live {
		if e.cause.grade == unknown && e.file == end.file && e.order < end.order && end.order-e.order < near &&
			specific([]byte(e.text)) > 1 {
			return e
		}
	}
	return nil
}

// schedulerEnds are ends of whole jobs, after which the processes that still run fail.
var schedulerEnds = []string{"log.slurm-preempted", "log.slurm-requeued", "log.slurm-time", "log.slurm-node",
	"log.batch-time", "log.k8s-evicted", "log.preempted"}

// limitsLast leaves out the end at a time limit where processes waited in vain before, and the job did not go on: more
// time would not help.
func limitsLast(roots, live []*event) []*event {
	const goesOn = 5 // steps in that log
	return slices.DeleteFunc(slices.Clone(roots), func(e *event) bool {
		return isLimit(e) && slices.ContainsFunc(live, func(o *event) bool {
			return o.cause.grade == waits && !o.warning() && (o.file == e.file && o.order < e.order && e.went-o.went < goesOn ||
				o.file != e.file && !o.time.IsZero() && o.time.Before(e.time))
		})
	})
}

// isLimit says whether an event is the end of a job at its time limit.
func isLimit(e *event) bool { return e.cause.id == "log.slurm-time" || e.cause.id == "log.batch-time" }

// hardwareFirst puts a fatal error of an NVSwitch before the failed kernels on the GPUs that it connects: they alone
// may be a bug of the program.
func hardwareFirst(roots, live []*event) []*event {
	const near = 24 * time.Hour // also where the logs have times of different zones
	if len(roots) == 0 || roots[0].cause.id != "log.cuda-memory-access" {
		return roots
	}
	at := slices.IndexFunc(live, func(e *event) bool {
		return e.cause.id == "log.xid" && strings.Contains(e.text, "SXid") && !strings.Contains(e.text, "Non-fatal") &&
			!otherNode(e.node, roots[0].node) &&
			(e.time.IsZero() || roots[0].time.IsZero() || e.time.Sub(roots[0].time).Abs() < near)
	})
	if at < 0 {
		return roots
	}
	return append([]*event{live[at]}, roots...)
}

// schedulerFirst puts the end of the job by its scheduler before the errors that have a later time, in whatever order
// the log has the lines.
func schedulerFirst(roots []*event) []*event {
	at := slices.IndexFunc(roots, func(e *event) bool {
		return slices.Contains(schedulerEnds, e.cause.id) && !e.time.IsZero() && e.time.Before(roots[0].time)
	})
	if at <= 0 {
		return roots
	}
	out := append([]*event{roots[at]}, roots[:at]...)
	return append(out, roots[at+1:]...)
}

// onlyWarned separates warnings after which programs go on, where the logs have nothing else.
func onlyWarned(all []*event) (live, warnings []*event) {
	if slices.ContainsFunc(all, func(e *event) bool { return !e.cause.warns }) {
		return all, nil
	}
	return nil, all
}

// retried separates errors after which the program tries again, where the logs have no other: few of them decide
// nothing, and of many it is open what they lead to.
func retried(all []*event) (live, again []*event) {
	const many = 20
	if slices.ContainsFunc(all, func(e *event) bool { return !e.cause.retried && e.cause.grade != maybe }) {
		return all, nil
	}
	for _, e := range all {
		switch {
		case !e.cause.retried:
			live = append(live, e)
		case e.lines <= many:
			again = append(again, e)
		default:
			c := *e.cause
			c.grade = waits
			e.cause = &c
			live = append(live, e)
		}
	}
	return live, again
}
