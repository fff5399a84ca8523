package tcpstore

import (
	"cmp"
	"net"
	"slices"
	"strings"
)

// put adds what the value of a key says. A nil value is one that was too large.
func (r *reader) put(k key, value []byte) {
	if value == nil {
		r.large++
		r.withoutValues([]key{k})
		return
	}
	if len(value) == 0 {
		return // deleted since it was checked: libuv answers so
	}
	if !r.putAgents(k, value) && !r.putRanks(k, value) {
		r.unread++
	}
}

// putAgents adds what agents have written.
func (r *reader) putAgents(k key, value []byte) (ok bool) {
	b := &r.board
	switch k.kind {
	case kindInit:
		var n int
		if n, ok = decodeCount(value); ok {
			b.Clients = n
		}
	case kindEnded:
		var n int
		if n, ok = decodeCount(value); ok {
			b.Ended = max(b.Ended, n)
		}
	case kindEndedOld:
		b.Ended, ok = max(b.Ended, 0)+1, true
	case kindState:
		state := decodeState(k.run, value)
		if state.Unread == "" {
			r.rounds[k.run] = state.Round
		}
		b.Rendezvous, ok = append(b.Rendezvous, state), true
	case kindMasterAddr, kindMasterPort:
		r.masters[k.text], ok = clean(string(value[:min(len(value), maxHost)])), true
	case kindAgent:
		var a Agent
		if a, ok = decodeAgent(value); ok {
			a.Run, a.Round, a.Node = k.run, k.round, k.index
			b.Agents = append(b.Agents, a)
		}
	case kindShare:
		var s Share
		if s, ok = decodeShare(value); ok {
			s.Run, s.Round, s.Node = k.run, k.round, k.index
			b.Shares = append(b.Shares, s)
		}
	}
	return ok
}

// putRanks adds what ranks have written.
func (r *reader) putRanks(k key, value []byte) (ok bool) {
	b := &r.board
	switch k.kind {
	case kindBarrier:
		var n int
		if n, ok = decodeCount(value); ok {
			b.Barriers = append(b.Barriers, Barrier{Key: k.text, Count: n})
		}
	case kindBarrierDone:
		name := strings.TrimSuffix(k.text, ":last_worker")
		for i := range b.Barriers { // kindBarrier was read before
			b.Barriers[i].Done = b.Barriers[i].Done || b.Barriers[i].Key == name
		}
		ok = true
	case kindID:
		id := UniqueID{Key: k.text}
		if id.Addr, ok = decodeID(value); ok {
			b.NCCL = append(b.NCCL, id)
		}
		// Names of this form are too common to count one of another value as unread.
		ok = true
	case kindBlob:
		var blob Blob
		if blob, ok = decodeBlob(value); ok {
			blob.Key, blob.Group, blob.Index = k.text, k.group, k.index
			b.Blobs = append(b.Blobs, blob)
		}
	case kindHost:
		of := strings.Replace(k.text, "/rank_", "/", 1)
		r.hosts[of], ok = clean(string(value[:min(len(value), maxHost)])), true
	}
	return ok
}

// withoutValues adds the blobs of listed keys whose values were not read: that they are there says much.
func (r *reader) withoutValues(keys []key) {
	if r.board.Unlisted {
		return
	}
	have := map[string]bool{}
	for _, b := range r.board.Blobs {
		have[b.Key] = true
	}
	for _, k := range keys {
		if k.kind == kindBlob && !have[k.text] {
			r.board.Blobs = append(r.board.Blobs, Blob{Key: k.text, Group: k.group, Index: k.index})
		}
	}
}

// finish puts the board in order.
func (r *reader) finish() Board {
	b := &r.board
	if r.large > 0 {
		r.cut("%d values are too large", r.large)
	}
	if r.unread > 0 {
		r.cut("%d values do not decode", r.unread)
	}
	b.Cut = strings.Join(r.cuts, "; ")
	for i := range b.Blobs {
		if host, ok := r.hosts[b.Blobs[i].Key]; ok {
			b.Blobs[i].Host = host
		}
	}
	for i := range b.Rendezvous {
		s := &b.Rendezvous[i]
		b.Runs = append(b.Runs, s.ID)
		for text, addr := range r.masters {
			k := parseKey(text)
			port := r.masters[strings.TrimSuffix(text, "ADDR")+"PORT"]
			if k.kind == kindMasterAddr && strings.HasPrefix(text, "/"+rendezvousPrefix) &&
				k.run == s.ID && k.round == s.Round && port != "" {
				s.Master = net.JoinHostPort(addr, port)
			}
		}
	}
	for _, a := range b.Agents {
		b.Runs = append(b.Runs, a.Run)
	}
	for _, s := range b.Shares {
		b.Runs = append(b.Runs, s.Run)
	}
	slices.Sort(b.Runs)
	b.Runs = slices.Compact(b.Runs)
	b.sort()
	return *b
}

// sort orders agents and shares by run, round and node, blobs by group and index.
func (b *Board) sort() {
	slices.SortStableFunc(b.Agents, func(x, y Agent) int {
		return cmp.Or(cmp.Compare(x.Run, y.Run), cmp.Compare(x.Round, y.Round), cmp.Compare(x.Node, y.Node))
	})
	slices.SortStableFunc(b.Shares, func(x, y Share) int {
		return cmp.Or(cmp.Compare(x.Run, y.Run), cmp.Compare(x.Round, y.Round), cmp.Compare(x.Node, y.Node))
	})
	slices.SortStableFunc(b.Blobs, func(x, y Blob) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Key, y.Key))
	})
	slices.SortStableFunc(b.NCCL, func(x, y UniqueID) int { return cmp.Compare(x.Key, y.Key) })
	slices.SortStableFunc(b.Barriers, func(x, y Barrier) int { return cmp.Compare(x.Key, y.Key) })
	slices.SortStableFunc(b.Rendezvous, func(x, y Rendezvous) int { return cmp.Compare(x.ID, y.ID) })
}
