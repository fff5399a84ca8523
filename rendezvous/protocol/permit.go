package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Permits returns why no node makes a request with these conditions and operations; nil: a node
// does. It holds a request to what each write of this package looks like: the key, the value, the
// lease, and the condition without which it would race.
func (k Keys) Permits(conds []Cond, ops []Op) error {
	for _, op := range ops {
		ok := true
		switch op.Do {
		case Nest:
			if err := k.Permits(slices.Concat(conds, op.If), op.Then); err != nil {
				return err
			}
		case Put:
			ok = k.permitsPut(conds, op)
		case Delete:
			ok = k.permitsDelete(conds, op)
		}
		if !ok {
			return fmt.Errorf("no node writes %q like that", op.Key)
		}
	}
	return nil
}

func (k Keys) permitsPut(conds []Cond, op Op) bool {
	key, v, leased := op.Key, op.Value, op.Lease != 0
	switch {
	case strings.HasPrefix(key, k.Members):
		m, ok := v.(Member)
		return ok && key == k.Member(m) && leased && about(conds, key)
	case key == k.Leader:
		_, ok := v.(Member)
		return ok && leased && about(conds, key)
	case key == k.Epoch:
		return k.leads(conds) && about(conds, key)
	case strings.HasPrefix(key, k.Worlds):
		return k.leads(conds) || about(conds, key)
	case strings.HasPrefix(key, k.Results):
		return k.leads(conds) || !strings.Contains(key[len(k.Results):], "/") // Quit
	case key == k.Progress:
		r, ok := v.(Report)
		return ok && (k.led(conds) || r.Final)
	case key == k.Conflict:
		_, ok := v.(Member)
		return ok
	case key == k.Late:
		l, ok := v.(Lateness)
		return ok && (k.led(conds) || l.Closing)
	case strings.HasPrefix(key, k.Posts):
		_, _, posted := k.Posted(key)
		return posted && leased && about(conds, k.Epoch)
	case strings.HasPrefix(key, k.Notes):
		n, ok := v.(Note)
		return ok && leased && key == k.Note(n.Index, n.Name)
	}
	return false
}

func (k Keys) permitsDelete(conds []Cond, op Op) bool {
	switch key := op.Key; {
	case op.Prefix && key == k.Root: // it has no members
		return slices.ContainsFunc(conds, func(c Cond) bool { return c.Prefix && c.Key == k.Members && c.Is == '<' })
	case op.Prefix:
		return k.leads(conds) && slices.Contains([]string{k.Results, k.Worlds, k.Notes}, key)
	case key == k.Leader:
		return about(conds, key)
	}
	return k.leads(conds) && (op.Key == k.Progress || strings.HasPrefix(op.Key, k.Worlds))
}

// about returns whether a condition compares this key.
func about(conds []Cond, key string) bool {
	return slices.ContainsFunc(conds, func(c Cond) bool { return c.Key == key && !c.Prefix })
}

// leads is led, by a node that names the lease of the lead: whose it is, a store can know. A node that does not
// know its lease names 0, which the leader's key never has.
func (k Keys) leads(conds []Cond) bool {
	return k.led(conds) && slices.ContainsFunc(conds, func(c Cond) bool {
		return c.Key == k.Leader && c.Of == Lease && c.Is == '='
	})
}

// led returns whether a condition holds only while one certain node leads.
func (k Keys) led(conds []Cond) bool {
	return slices.ContainsFunc(conds, func(c Cond) bool {
		return c.Key == k.Leader && c.Of == Create && c.Is == '=' && c.Rev > 0
	})
}
