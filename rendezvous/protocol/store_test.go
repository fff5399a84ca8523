package protocol

import (
	"slices"
	"strings"
)

// entry is one key of the simulated store.
type entry struct {
	KV
	lease int64
}

// simStore is a store of a few keys: compare-and-write transactions, leases, and
// a log of all changes, which the watches read. It leaves out the guards that a
// mutation removes.
type simStore struct {
	keys    []entry // sorted
	rev     int64
	leases  map[int64]bool
	log     []KV
	without Guard
}

func (s *simStore) find(key string) (int, bool) {
	for i := range s.keys {
		if s.keys[i].Key >= key {
			return i, s.keys[i].Key == key
		}
	}
	return len(s.keys), false
}

// get returns a key; the zero entry: it does not exist.
func (s *simStore) get(key string) entry {
	if i, ok := s.find(key); ok {
		return s.keys[i]
	}
	return entry{}
}

// holds returns whether all conditions of a transaction are true.
func (s *simStore) holds(conds []Cond) bool {
	for _, c := range conds {
		if c.Guard == s.without {
			continue
		}
		if !c.Prefix {
			if !compare(s.get(c.Key), c) {
				return false
			}
			continue
		}
		for _, e := range s.keys {
			if strings.HasPrefix(e.Key, c.Key) && !compare(e, c) {
				return false
			}
		}
	}
	return true
}

func compare(e entry, c Cond) bool {
	v := e.Create
	switch c.Of {
	case Mod:
		v = e.Mod
	case Lease:
		v = e.lease
	}
	return c.Is == '=' && v == c.Rev || c.Is == '<' && v < c.Rev || c.Is == '>' && v > c.Rev
}

// transact carries out a request. It returns false where a lease of it is gone.
func (s *simStore) transact(a *Action) (Event, bool) {
	e := Event{Kind: a.Kind, Ask: a, OK: s.holds(a.If)}
	ops := a.Then
	if !e.OK {
		ops = a.Else
	}
	for _, op := range ops {
		if op.Do == Put && op.Lease != 0 && !s.leases[op.Lease] {
			return e, false
		}
	}
	before := len(s.log)
	s.apply(ops, &e)
	if len(s.log) > before {
		s.rev++
	}
	e.Rev = s.rev
	return e, true
}

func (s *simStore) apply(ops []Op, e *Event) {
	for _, op := range ops {
		switch op.Do {
		case Nest:
			if e.Took = s.holds(op.If); e.Took {
				s.apply(op.Then, e)
			}
		case Put:
			s.put(op)
		case Delete:
			s.remove(func(e entry) bool { return e.Key == op.Key || op.Prefix && strings.HasPrefix(e.Key, op.Key) })
		case Get:
			for _, k := range s.keys {
				if k.Key == op.Key || op.Prefix && strings.HasPrefix(k.Key, op.Key) {
					e.KVs = append(e.KVs, k.KV)
				}
			}
		}
	}
}

func (s *simStore) put(op Op) {
	i, ok := s.find(op.Key)
	if !ok {
		s.keys = slices.Insert(s.keys, i, entry{KV: KV{Key: op.Key, Create: s.rev + 1}})
	}
	k := &s.keys[i]
	k.Value, k.Mod, k.lease = op.Value, s.rev+1, op.Lease
	s.log = append(s.log, k.KV)
}

func (s *simStore) remove(is func(entry) bool) {
	s.keys = slices.DeleteFunc(s.keys, func(e entry) bool {
		gone := is(e)
		if gone {
			s.log = append(s.log, KV{Key: e.Key, Mod: s.rev + 1, Gone: true})
		}
		return gone
	})
}

// expire ends a lease, and with it its keys.
func (s *simStore) expire(lease int64) {
	if !s.leases[lease] {
		return
	}
	delete(s.leases, lease)
	before := len(s.log)
	s.remove(func(e entry) bool { return e.lease == lease })
	if len(s.log) > before {
		s.rev++
	}
}

// since returns the changes below a prefix from a position of the log on.
func (s *simStore) since(at int, prefix string) (out []KV) {
	for _, kv := range s.log[at:] {
		if strings.HasPrefix(kv.Key, prefix) {
			out = append(out, kv)
		}
	}
	return out
}

// after returns the position of the log after a revision.
func (s *simStore) after(rev int64) int {
	at := len(s.log)
	for at > 0 && s.log[at-1].Mod > rev {
		at--
	}
	return at
}
