package rendezvous

import (
	"encoding/json"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// snapshot takes in the control keys as they are at the begin of a life. What
// stands there for people is no news.
func (s *Session) snapshot(r *clientv3.GetResponse) {
	s.update(func() {
		s.ep, s.epMod, s.leader, s.seen, s.final = Epoch{}, 0, registered{}, nil, false
		clear(s.results)
	})
	for _, kv := range r.Kvs {
		switch string(kv.Key) {
		case s.k.conflict(), s.k.late():
		case s.k.progress():
			var p progress
			if json.Unmarshal(kv.Value, &p) == nil {
				s.update(func() {
					for _, m := range p.Left {
						s.told[m.ID] = true
					}
				})
			}
		default:
			s.observe([]*clientv3.Event{{Type: clientv3.EventTypePut, Kv: kv}})
		}
	}
}

// observe takes in changes of the control keys.
func (s *Session) observe(evs []*clientv3.Event) {
	for _, e := range evs {
		key, put := string(e.Kv.Key), e.Type == clientv3.EventTypePut
		switch {
		case put && strings.HasPrefix(key, s.k.worlds()): // comes before the epoch that makes it true
			s.mu.Lock()
			s.seat = e.Kv
			s.mu.Unlock()
		case key == s.k.epoch():
			s.observeEpoch(e, put)
		case key == s.k.leader():
			s.observeLeader(e, put)
		case key == s.k.progress() && put:
			s.observeProgress(e.Kv.Value)
		case key == s.k.late() && put:
			s.observeLate(e.Kv.Value)
		case key == s.k.conflict() && put:
			var m Member
			if me := s.me(); json.Unmarshal(e.Kv.Value, &m) == nil && m.Index == me.Index && m.ID != me.ID {
				s.emit(Event{Kind: Conflict, Member: &m, Text: "it is refused while this node is here"})
			}
		case put && strings.HasPrefix(key, s.k.results()):
			s.update(func() { s.results[key] = e.Kv.Value })
		}
	}
}

// observeEpoch takes in a change of the epoch. A leader knows what it wrote
// before the watch repeats it: what is older than known is no news.
func (s *Session) observeEpoch(e *clientv3.Event, put bool) {
	var ep Epoch
	if put && json.Unmarshal(e.Kv.Value, &ep) != nil {
		return
	}
	s.update(func() {
		switch {
		case e.Kv.ModRevision <= s.epMod:
		case put:
			s.ep, s.epMod = ep, e.Kv.ModRevision
			s.spared()
		default:
			s.ep, s.epMod = Epoch{}, 0
		}
	})
}

// spared keeps, for a spare node, that a world needs it no more: one that it
// saw before the start, or that may be started again. An older one is another
// run's.
func (s *Session) spared() {
	ep := s.ep
	again := ep.State == Started && ep.Restarts > 0
	switch {
	case !s.self.extra() || ep.Nonce == s.joined.Nonce:
	case ep.State == Sealed || again:
		s.witnessed = ep.Nonce
	case ep.State != Open && s.witnessed == ep.Nonce && (s.self.Spares > 0 || ep.Restarts > 0):
		s.unneeded = &SpareError{Size: ep.Size, Why: ep.Why}
	}
}

// observeLeader takes in a change of the leader. Its departure is told by
// everybody, since nobody else can.
func (s *Session) observeLeader(e *clientv3.Event, put bool) {
	s.mu.Lock()
	old := e.Kv.ModRevision <= s.leader.mod
	s.mu.Unlock()
	if old {
		return
	}
	if put {
		var m Member
		_ = json.Unmarshal(e.Kv.Value, &m)
		s.update(func() { s.leader = registered{Member: m, create: e.Kv.CreateRevision, mod: e.Kv.ModRevision} })
		return
	}
	s.mu.Lock()
	gone, nonce := s.leader.Member, s.ep.Nonce
	other, runs := s.leader.ID != "" && s.leader.ID != s.self.ID, s.ep.State == Started || s.ep.State == Over
	s.mu.Unlock()
	s.update(func() { s.leader = registered{} })
	switch {
	case other && !runs:
		s.departed(because(gone))
	case other && gone.Left == "" && time.Since(s.began()) < s.cfg.StartTimeout:
		s.tellLate(nonce, gone.Name()+", was lost")
	}
}

// observeProgress takes in who has come and who left.
func (s *Session) observeProgress(v []byte) {
	var p progress
	if json.Unmarshal(v, &p) != nil {
		return
	}
	s.update(func() {
		if !s.final { // its words are the last
			s.seen, s.final = &p.Attendance, p.Final
		}
		s.unfit = unfit{s.ep.N, p.Unfit, p.More}
	})
	for _, m := range p.Left {
		s.departed(m)
	}
	if news := s.untold(p.Unfit); len(news) > 0 {
		s.emit(Event{Kind: Unfit, Unfit: news})
	}
	if !p.Final {
		s.emit(Event{Kind: Progress, Attendance: &p.Attendance})
	}
}

// departed tells once that a member left before the start; Left says why.
func (s *Session) departed(m Member) {
	told := true
	s.update(func() {
		told = s.told[m.ID] || m.ID == s.self.ID
		s.told[m.ID] = true
		s.left[s.k.member(m)] = m
	})
	if !told {
		s.emit(Event{Kind: Left, Member: &m, Text: m.Left})
	}
}

// because is a member that is gone, with the reason.
func because(m Member) Member {
	if m.Left == "" {
		m.Left = "lost: nothing was heard of it for as long as its lease"
	}
	return m
}
