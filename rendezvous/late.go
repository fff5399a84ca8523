package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lateness is what stands at c/late: who has not started, or was lost before
// its start can have come far. For people, and for who ends its command then.
type lateness struct {
	Nonce string   `json:"nonce"`
	Who   []string `json:"who"` // the first few, each with what is wrong
}

// roll is how the leader watches over a start.
type roll struct {
	nonce string
	since time.Time
	told  int
	over  bool     // the time for a start is over
	lost  []string // who vanished without a word, or has not started in time
}

// begin is called when an epoch is found started.
func (l *lead) begin(ep Epoch) {
	if l.roll.nonce == ep.Nonce {
		return
	}
	l.roll = roll{nonce: ep.Nonce, since: time.Now()}
	time.AfterFunc(l.s.cfg.StartTimeout+time.Millisecond, l.s.nudge)
}

// vanished keeps that a key is gone whose node has not said that it leaves.
func (l *lead) vanished(key string, m Member) {
	p, ours := l.places[l.s.k.world(l.roll.nonce)+strings.TrimPrefix(key, l.s.k.members())]
	if ours && p.ID == m.ID && time.Since(l.roll.since) < l.s.cfg.StartTimeout {
		l.roll.lost = append(l.roll.lost, fmt.Sprintf("rank %d, %s, was lost", p.Rank, p.Name))
	}
}

// late tells who has not started when the time for it is over, and who was lost
// before: the others wait for them without a word.
func (l *lead) late(ctx context.Context, ep Epoch) error {
	if limit := l.s.cfg.StartTimeout; limit > 0 && !l.roll.over && time.Since(l.roll.since) >= limit {
		l.roll.over = true
		acked := l.posts[l.s.k.round(ep.N, ackRound)]
		for p, now := range l.seats(ep) {
			if _, ok := acked[p.Rank]; now != nil && now.Phase == PhaseArrived && !ok {
				l.roll.lost = append(l.roll.lost, fmt.Sprintf("rank %d, %s, has not started", p.Rank, p.Name))
			}
		}
	}
	who := slices.Sorted(slices.Values(l.roll.lost))
	if len(who) == l.roll.told {
		return nil
	}
	l.roll.told = len(who)
	return l.asLeader(ctx, "tell who is late", clientv3.OpPut(l.s.k.late(), encode(lateness{ep.Nonce, who[:min(few, len(who))]})))
}

// observeLate tells people, each name once.
func (s *Session) observeLate(v []byte) {
	var l lateness
	if json.Unmarshal(v, &l) != nil {
		return
	}
	for _, who := range l.Who {
		s.tellLate(l.Nonce, who)
	}
}

func (s *Session) tellLate(nonce, who string) {
	s.mu.Lock()
	news := nonce == s.joined.Nonce && s.self.Restarts == 0 && !s.told[who] && time.Since(s.went) < s.cfg.StartTimeout+LeaseTTL
	s.told[who] = true
	s.mu.Unlock()
	if news {
		s.emit(Event{Kind: Late, Text: who})
	}
}
