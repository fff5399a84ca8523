package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Permits returns why no node makes a request with these conditions and operations; nil: a node
// does. It holds a request to what each write of this package looks like: the key, the value, the
// lease, and the condition without which it would race. A condition counts only in the form that a
// node gives it, because one in another form may always hold.
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
		return ok && key == k.Member(m) && leased && claims(conds, key)
	case key == k.Leader:
		_, ok := v.(Member)
		return ok && leased && claims(conds, key)
	case key == k.Epoch:
		return k.Leads(conds) && equals(conds, Mod, key, 0)
	case strings.HasPrefix(key, k.Worlds):
		return k.Leads(conds) || marks(conds, key, v)
	case strings.HasPrefix(key, k.Results):
		return k.Leads(conds) || k.quits(key, v)
	case key == k.Progress:
		_, ok := v.(Report)
		return ok && (k.Leads(conds) || k.Closes(op))
	case key == k.Conflict:
		_, ok := v.(Member)
		return ok
	case key == k.Late:
		_, ok := v.(Lateness)
		return ok && (k.Leads(conds) || k.Closes(op))
	case strings.HasPrefix(key, k.Posts):
		_, _, posted := k.Posted(key)
		return posted && leased && k.registered(conds) && equals(conds, Mod, k.Epoch, 0)
	case strings.HasPrefix(key, k.Notes):
		n, ok := v.(Note)
		return ok && leased && key == k.Note(n.Index, n.Name)
	}
	return false
}

func (k Keys) permitsDelete(conds []Cond, op Op) bool {
	switch key := op.Key; {
	case op.Prefix && key == k.Root: // it has no members
		return slices.Contains(bare(conds), Cond{Of: Create, Key: k.Members, Is: '=', Prefix: true})
	case op.Prefix:
		return k.Leads(conds) && slices.Contains([]string{k.Results, k.Worlds, k.Notes}, key)
	case key == k.Leader: // resign, or depose
		return k.Leads(conds) || equals(conds, Mod, key, 1) && k.registered(conds)
	}
	return k.Leads(conds) && (op.Key == k.Progress || strings.HasPrefix(op.Key, k.Worlds))
}

// bare returns conditions without the names of their guards.
func bare(conds []Cond) []Cond {
	out := slices.Clone(conds)
	for i := range out {
		out[i].Guard = ""
	}
	return out
}

// equals returns whether a condition says that the target of one key is a certain number, which is
// not below least.
func equals(conds []Cond, of Target, key string, least int64) bool {
	return slices.ContainsFunc(conds, func(c Cond) bool {
		return c.Key == key && c.Of == of && c.Is == '=' && c.Rev >= least && !c.Prefix
	})
}

// absent returns whether the conditions hold only while a key does not exist.
func absent(conds []Cond, key string) bool {
	return slices.Contains(bare(conds), Cond{Of: Create, Key: key, Is: '='})
}

// claims returns whether the conditions are those of a node that writes its own key: there is none,
// or it is the version that the node has read, or it is bound to the node's lease.
func claims(conds []Cond, key string) bool {
	return absent(conds, key) || equals(conds, Mod, key, 1) || equals(conds, Lease, key, 1)
}

// marks returns whether a node writes into a place that remains that its command has ended.
func marks(conds []Cond, key string, v any) bool {
	p, ok := v.(Place)
	return ok && p.Over && len(p.Partners) == 0 && slices.Contains(bare(conds), Cond{Of: Create, Key: key, Is: '>'})
}

// quits returns whether a node writes that it has left a sealed world.
func (k Keys) quits(key string, v any) bool {
	const most = 64 // bytes of a nonce, and of an ID
	nonce := key[len(k.Results):]
	id, ok := v.([]byte)
	return ok && len(nonce) <= most && len(id) <= most && !strings.Contains(nonce, "/")
}

// registered returns whether the conditions hold only while a node has its own key. Whose lease that
// is, a store can know.
func (k Keys) registered(conds []Cond) bool {
	return slices.ContainsFunc(conds, func(c Cond) bool {
		return strings.HasPrefix(c.Key, k.Members) && equals([]Cond{c}, Lease, c.Key, 1)
	})
}

// Leads returns whether the conditions hold only while one certain node leads, by the lease that it
// names: whose it is, a store can know. A node that does not know its lease names 0, which the
// leader's key never has.
func (k Keys) Leads(conds []Cond) bool {
	return equals(conds, Create, k.Leader, 1) && equals(conds, Lease, k.Leader, 0)
}

// Free returns whether the conditions hold only while no node leads, or while the lead is bound to
// the lease that they name.
func (k Keys) Free(conds []Cond) bool {
	return absent(conds, k.Leader) || equals(conds, Lease, k.Leader, 1)
}

// Closes returns whether an operation says that the store ends, as only the store's host does.
func (k Keys) Closes(op Op) bool {
	r, _ := op.Value.(Report)
	l, _ := op.Value.(Lateness)
	return r.Final || l.Closing
}

// Version returns the version of a key that the conditions ask for; 0: of none.
func Version(conds []Cond, key string) int64 {
	for _, c := range conds {
		if equals([]Cond{c}, Mod, key, 1) {
			return c.Rev
		}
	}
	return 0
}
