package diagnose

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// claim is a verdict before the deeper ones have removed those that they explain.
type claim struct {
	verdict.Verdict
	cause Cause
	// seats are the processes that the claim is about, and what is the rest of its sentence: claims with the same
	// rest become one.
	seats []*seat
	what  string
	// shared: of a lost path, a third node reaches both ends.
	shared bool
	// loops: a rank waits and goes on, again and again. What it asks for may have an answer each time.
	loops  bool
	tunnel string // of a lost path: the interface, if it is a tunnel; "": it is none
	pings  bool   // of a lost path: the machine at its other end answers ping
}

// claimed makes a claim of a cause of the table, with its remedy.
func claimed(id string, sure verdict.Sure, says string) claim {
	c, _ := Find(id)
	return claim{Verdict: verdict.Verdict{Cause: id, Sure: sure, Says: says, Do: c.Do}, cause: c}
}

func (c claim) of(ranks []int, nodes ...*node) claim {
	c.Ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	for _, n := range nodes {
		if n != nil && !slices.Contains(c.Nodes, n.name) {
			c.Nodes = append(c.Nodes, n.name)
		}
	}
	slices.Sort(c.Nodes)
	return c
}

func (c claim) see(where, text string) claim {
	c.Seen = append(c.Seen, finding.Seen{Where: where, What: text})
	return c
}

// at adds where the script of a rank is, if its stack is known.
func (c claim) at(s *seat) claim {
	if m := mainStack(s.proc); m != nil {
		return c.see("py-spy", seatName(s)+" at "+line(m))
	}
	return c
}

func (c claim) do(text string) claim {
	c.Do = text
	return c
}

func (c claim) since(t time.Time) claim {
	c.Since = t
	return c
}

// to puts a process and its node into the remedy.
func (c claim) to(n *node, p *scene.Proc) claim {
	c.Do = strings.NewReplacer("PID", strconv.Itoa(p.PID), "on its node", "on "+n.name).Replace(c.Do)
	return c
}

// about makes a claim about one rank; what is the rest of the sentence.
func about(id string, sure verdict.Sure, s *seat, what string) claim {
	c := claimed(id, sure, "")
	c = c.to(s.node, s.proc)
	c.seats, c.what = []*seat{s}, what
	if s.rank >= 0 {
		c.Ranks = []int{s.rank}
	}
	return c.of(c.Ranks, s.node)
}

// sentence begins what is said of some ranks with who they are.
func sentence(seats []*seat, what string) string {
	if len(seats) == 1 {
		return seats[0].who() + " " + what
	}
	var ranks []int
	var nodes []string
	for _, s := range seats {
		if ranks = append(ranks, s.rank); !slices.Contains(nodes, s.node.name) {
			nodes = append(nodes, s.node.name)
		}
	}
	for one, many := range plurals {
		if rest, ok := strings.CutPrefix(what, one+" "); ok {
			what = many + " " + rest
			break
		}
	}
	what = strings.NewReplacer("does not", "do not", "does no more", "do no more", "and works", "and work",
		"and tries", "and try", "reads", "read", "its script,", "their scripts,").Replace(what)
	return rankWords(ranks) + " (" + finding.Some(nodes) + ") " + what
}

// plurals are the verbs with which sentences about one rank begin.
var plurals = map[string]string{"is": "are", "has": "have", "waits": "wait",
	"sleeps": "sleep"}
