package dns

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Pods finds the addresses of a pod of a headless Service while caches still hold that its name does not exist. It
// asks what no cache has yet: the same question with other bits, which caches keep apart (CoreDNS:
// plugin/cache/cache.go, key), the record of the Service, and the name of an address of it that is new.
type Pods struct {
	Config
	mu    sync.Mutex
	known map[netip.Addr]string // names of addresses
	looks int                   // how many there were
	next  time.Time             // before it no server is asked
}

const (
	// firstLooks is how often a question that may be in no cache is asked at first, and laterLooks after each of
	// them was asked once: most clusters' caches forget after 30 s.
	firstLooks = 1200 * time.Millisecond
	laterLooks = 30 * time.Second / looksEach
	// mostPods bounds the addresses whose names are asked for, since each pod of a job may do it.
	mostPods = 128
)

// variants are the bits of questions that the system's resolver does not ask.
func variants() []bits {
	return []bits{{recurse: true, dnssec: true}, {recurse: true, unchecked: true},
		{recurse: true, dnssec: true, unchecked: true}}
}

// looksEach is the number of different questions: of each variant two, for the name and for the Service, and the
// plain one for the Service.
const looksEach = 7

// Find returns the addresses of a pod by its name, as Config.Find does, or by a question that no cache knows.
func (p *Pods) Find(ctx context.Context, name string) []netip.Addr {
	if addrs := p.Config.Find(ctx, name); len(addrs) > 0 {
		return addrs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Before(p.next) {
		return nil
	}
	k := p.looks % looksEach
	if p.looks++; p.looks < looksEach {
		p.next = time.Now().Add(firstLooks)
	} else {
		p.next = time.Now().Add(laterLooks)
	}
	_, service, ok := strings.Cut(strings.TrimSuffix(name, "."), ".")
	switch {
	case k%2 == 1:
		return p.ask(ctx, name, variants()[k/2])
	case ok && k == 0:
		return p.among(ctx, name, p.Config.Find(ctx, service))
	case ok:
		return p.among(ctx, name, p.ask(ctx, service, variants()[k/2-1]))
	}
	return nil
}

// ask asks all servers for the candidates of a name, with these bits, and returns the first addresses.
func (p *Pods) ask(ctx context.Context, name string, b bits) []netip.Addr {
	for _, candidate := range p.Candidates(name) {
		ask := func(server netip.AddrPort) Answer { return addresses(ctx, server, candidate, b) }
		for _, a := range each(p.Servers, ask) {
			if a.Says == Found {
				return a.Addrs
			}
		}
	}
	return nil
}

// among returns those of a Service's addresses that have the name.
func (p *Pods) among(ctx context.Context, name string, addrs []netip.Addr) (found []netip.Addr) {
	if len(addrs) > mostPods {
		return nil
	}
	if p.known == nil {
		p.known = map[netip.Addr]string{}
	}
	names := each(addrs, func(a netip.Addr) string { return p.nameOf(ctx, a) })
	for i, a := range addrs {
		if names[i] == "" {
			continue
		}
		p.known[a] = names[i]
		if same(names[i], name) {
			found = append(found, a)
		}
	}
	return found
}

// nameOf returns the name of an address, "" if no server knows one.
func (p *Pods) nameOf(ctx context.Context, a netip.Addr) string {
	if name := p.known[a]; name != "" {
		return name
	}
	for _, answer := range p.ReverseAll(ctx, a) {
		if answer.Says == Found {
			return answer.Why
		}
	}
	return ""
}

// same reports whether a full name is what the search list makes of a name.
func same(full, name string) bool {
	full, name = strings.ToLower(strings.TrimSuffix(full, ".")), strings.ToLower(strings.TrimSuffix(name, "."))
	return full == name || strings.HasPrefix(full, name+".")
}

// Absent returns for how long caches may hold that a name does not exist, as the servers' answers say; false: a
// server knows the name, or none says that it does not exist.
func (c Config) Absent(ctx context.Context, name string) (ttl time.Duration, absent bool) {
	for _, s := range c.Survey(ctx, name) {
		r := s.Result()
		if r.Says == Found {
			return 0, false
		}
		absent = absent || r.Says.Negative()
		for _, a := range s.Answers {
			ttl = max(ttl, a.TTL)
		}
	}
	return ttl, absent
}
