package logs

import (
	"cmp"
	"slices"
	"time"
)

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
