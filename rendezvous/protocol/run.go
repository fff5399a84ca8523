package protocol

import (
	"fmt"
	"slices"
	"strings"
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
		posts := make([][]byte, n.ep.Size)
		for rank := range posts {
			posts[rank] = got[rank]
		}
		n.ask(Action{Kind: Reduce, Name: name, Posts: posts})
	}
}

// reduced publishes a result. The go is a result with which the epoch becomes
// started, in one transaction: no member may have changed, and none of the world
// may have given up, even if its key is gone with its lease.
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

// verdict returns whether a started run is over, and which node ended it: the
// lowest rank that is lost or failed; "" where all commands ended well.
func (n *Node) verdict() (over bool, why string) {
	worst, ended := n.ep.Size, 0
	for p, now := range n.seats() {
		failed := ""
		switch {
		case now == nil:
			failed = "is gone"
		case now.Left != "":
			failed = "left: " + now.Left
		case now.Phase == PhaseEnded && now.Status != 0:
			failed = fmt.Sprintf("failed: its command ended with %d", now.Status)
		case now.Phase == PhaseEnded:
			ended++
		}
		if failed != "" && p.Rank < worst {
			worst, why = p.Rank, fmt.Sprintf("rank %d, %s, %s", p.Rank, p.Name, failed)
		}
	}
	return why != "" || ended == n.ep.Size, why
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

// roll is the leader's state while the nodes start.
type roll struct {
	nonce     string
	since     time.Time
	published int      // how many of lost
	over      bool     // the time for a start is over
	lost      []string // the nodes that vanished without a reason, or have not started in time
}

// begins starts the roll of an epoch that is found started.
func (n *Node) begins() {
	if n.lead.roll.nonce == n.ep.Nonce {
		return
	}
	n.lead.roll = roll{nonce: n.ep.Nonce, since: n.now}
	n.wake(n.cfg.StartTimeout + milli)
}

// vanished remembers a node whose key is gone and that has not said that it leaves.
func (n *Node) vanished(key string, m Member) {
	r := &n.lead.roll
	p, ours := n.lead.places[n.k.World(r.nonce)+strings.TrimPrefix(key, n.k.Members)]
	if ours && p.ID == m.ID && n.now.Sub(r.since) < n.cfg.StartTimeout {
		r.lost = append(r.lost, fmt.Sprintf("rank %d, %s, was lost", p.Rank, p.Name))
	}
}

// late publishes which nodes have not started when the time for it is over, and
// which were lost before: the others wait for them. It returns whether it did.
func (n *Node) late() bool {
	r := &n.lead.roll
	if limit := n.cfg.StartTimeout; limit > 0 && !r.over && n.now.Sub(r.since) >= limit {
		r.over = true
		acked := n.lead.posts[n.k.Round(n.ep.N, AckRound)]
		for p, now := range n.seats() {
			if _, ok := acked[p.Rank]; now != nil && now.Phase == PhaseArrived && !ok {
				r.lost = append(r.lost, fmt.Sprintf("rank %d, %s, has not started", p.Rank, p.Name))
			}
		}
	}
	if len(r.lost) == r.published {
		return false
	}
	who := slices.Sorted(slices.Values(r.lost))
	r.published = len(who)
	n.asLeader(Warn, "report late nodes",
		Op{Do: Put, Key: n.k.Late, Value: Lateness{n.ep.Nonce, who[:min(few, len(who))]}})
	return true
}

func (n *Node) warned(e Event) {
	n.watchOver(n.lead)
	n.pass(e)
}
