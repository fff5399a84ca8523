package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// reducible returns the rounds of the sealed world that have no result yet and
// that this node takes part in.
func (n *Node) reducible() []string {
	var out []string
	for name, p := range n.posts {
		if _, done := n.results[n.k.Result(n.ep.N, name)]; !done && p.reduces && n.joined.Nonce == n.ep.Nonce {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// reduce computes the result of the next round to which all nodes have posted.
func (n *Node) reduce() {
	l := n.lead
	for len(l.due) > 0 && !n.asked {
		name := l.due[0]
		l.due = l.due[1:]
		got := l.posts[n.k.Round(n.ep.N, name)]
		if len(got) < n.ep.Size {
			continue
		}
		posts, all := make([][]byte, n.ep.Size), true
		for rank := range posts {
			var ok bool
			posts[rank], ok = got[rank]
			all = all && ok // others are not of this world
		}
		if all {
			n.ask(Action{Kind: Reduce, Name: name, Posts: posts})
		}
	}
}

// reduced publishes a result, with the go the started epoch too, if no member has changed
// and none of the world has given up, even if its key is gone with its lease.
func (n *Node) reduced(e Event) {
	ep := n.ep
	if e.Value == nil { // no decision
		n.reduce()
		n.pass(e)
		return
	}
	ops := []Op{{Do: Put, Key: n.k.Result(ep.N, e.Ask.Name), Value: e.Value}}
	if e.Start {
		ep.State = Started
		ops = append(ops, Op{Do: Put, Key: n.k.Epoch, Value: ep})
	}
	n.commit(Decide, ops, n.unchanged(), Cond{Guard: NoQuit, Of: Create, Key: n.k.Quit(ep.Nonce), Is: '='})
}

// endGrace is how long a node that is gone may take to come back and report how its command
// ended, where all other commands ended well: it may have been suspended just then.
const endGrace = 15 * time.Second

// verdict returns whether a started run is over, and which node ended it: the lowest rank
// that is lost, else that failed, which is often the effect; "" where all commands ended well.
func (n *Node) verdict() (over bool, why string) {
	var lost, failed blamed
	ended, gone := 0, 0
	for p, now := range n.seats() {
		switch status, known := endOf(p, now); {
		case known && status == 0:
			ended++
		case known:
			failed.add(p, failure(status))
		case now == nil:
			gone++
			lost.add(p, "is gone")
		case now.Left != "":
			lost.add(p, "left: "+now.Left)
		}
	}
	if r := &n.lead.roll; gone > 0 && ended+gone == n.ep.Size && !r.waited(n.now) {
		if r.ended.IsZero() {
			r.ended = n.now
			n.wake(endGrace + milli)
		}
		return false, ""
	}
	why = cmp.Or(lost.why, failed.why)
	return why != "" || ended == n.ep.Size, why
}

// blamed is the lowest rank of those that ended a run.
type blamed struct {
	rank int
	why  string
}

func (b *blamed) add(p Place, what string) {
	if b.why == "" || p.Rank < b.rank {
		*b = blamed{p.Rank, p.is(what)}
	}
}

// is returns a statement about the node of a place.
func (p Place) is(what string) string {
	return fmt.Sprintf("node rank %d, %s, %s", p.Rank, p.Name, what)
}

// StatusText returns an exit status with the signal that it means, as in "137 (killed)". A shell's status of a signal
// N is 128+N.
func StatusText(status int) string {
	if n := status - 128; n > 0 && n < 32 {
		return fmt.Sprintf("%d (%s)", status, syscall.Signal(n))
	}
	return strconv.Itoa(status)
}

// waited returns whether the nodes that are gone have had their time to come back.
func (r *roll) waited(now time.Time) bool { return !r.ended.IsZero() && now.Sub(r.ended) >= endGrace }

// endOf returns how the command of a place ended, as its member reports it or its place does.
func endOf(p Place, now *Member) (status int, known bool) {
	switch {
	case now != nil && now.Phase == PhaseEnded && now.Left == "":
		return now.Status, true
	case now == nil && p.Over && p.Status != nil:
		return *p.Status, true
	}
	return 0, false
}

// finish ends a run: it opens the next epoch while a restart is left, else the job
// is over.
func (n *Node) finish(why string) {
	ep := n.ep
	if why != "" && ep.Restart < ep.Restarts {
		ep.Restart++
		n.reopen(ep, why)
		return
	}
	ep.State, ep.Why = Over, why
	n.commit(Finish, []Op{{Do: Put, Key: n.k.Epoch, Value: ep}})
}

// roll is the leader's state of a started world.
type roll struct {
	nonce     string
	since     time.Time
	published int            // how many of late, lost and failed
	over      bool           // the time for a start is over
	ended     time.Time      // when all commands had ended well, but those of nodes that are gone
	late      map[int]string // by rank: the nodes that have not started in time
	lost      map[int]string // the nodes that vanished without a reason
	failed    map[int]string // the nodes whose command failed
}

// begins starts the roll of an epoch that is found started.
func (n *Node) begins() {
	if n.lead.roll.nonce == n.ep.Nonce {
		return
	}
	n.lead.roll = roll{nonce: n.ep.Nonce, since: n.now, late: map[int]string{}, lost: map[int]string{},
		failed: map[int]string{}}
	n.wake(n.cfg.StartTimeout + milli)
}

// report publishes which nodes have not started when the time for it is over, which were lost,
// and whose command failed: the others wait for them. It returns whether it did.
func (n *Node) report() bool {
	r, l := &n.lead.roll, n.lead
	due := n.cfg.StartTimeout > 0 && !r.over && n.now.Sub(r.since) >= n.cfg.StartTimeout
	if !due && !l.moved {
		return false
	}
	acked := l.posts[n.k.Round(n.ep.N, AckRound)]
	for p, now := range n.seats() {
		_, ok := acked[p.Rank]
		switch status, _ := endOf(p, now); {
		case status != 0:
			r.failed[p.Rank] = p.is(failure(status))
		case now == nil && !p.Over:
			r.lost[p.Rank] = p.is("was lost")
		case due && now != nil && now.Phase == PhaseArrived && !ok:
			r.late[p.Rank] = p.is("has not started")
		}
	}
	r.over = r.over || due
	known := len(r.late) + len(r.lost) + len(r.failed)
	if known == r.published {
		return false
	}
	r.published = known
	n.asLeader(Warn, "report late, lost and failed nodes", Op{Do: Put, Key: n.k.Late, Value: Lateness{Nonce: n.ep.Nonce,
		Who: firstFew(r.late), Lost: firstFew(r.lost), Failed: firstFew(r.failed)}})
	return true
}

// firstFew returns the texts of the first few ranks.
func firstFew(by map[int]string) (out []string) {
	for _, rank := range slices.Sorted(maps.Keys(by)) {
		if len(out) < few {
			out = append(out, by[rank])
		}
	}
	return out
}

func (n *Node) warned(e Event) {
	n.watchOver(n.lead)
	n.pass(e)
}
