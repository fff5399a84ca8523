package companion

import (
	"net/netip"
	"sync"
	"time"
)

// sound remembers since when calls to an address pass, while a connection to it is stuck. One that was cut off for a
// time sends again after longer and longer pauses: until then it says nothing of a path that is sound again.
type sound struct {
	mu    sync.Mutex
	since map[netip.Addr]time.Time
}

// saw takes in whether a call to an address has just passed, and returns for how long the calls pass.
func (s *sound) saw(to netip.Addr, passes bool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !passes {
		delete(s.since, to)
		return 0
	}
	if s.since == nil {
		s.since = map[netip.Addr]time.Time{}
	}
	if _, known := s.since[to]; !known {
		s.since[to] = now
	}
	return now.Sub(s.since[to])
}

// forget is for when no connection is stuck: no more calls are made then.
func (s *sound) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = nil
}
