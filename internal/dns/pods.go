package dns

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Pods finds the addresses of pods of a headless Service while caches still hold that a pod's name does not exist:
// the Service's own name has the addresses of its pods, and an address that no node asked for before is in no cache.
type Pods struct {
	Config
	mu    sync.Mutex
	known map[netip.Addr]string // names of addresses
	next  time.Time             // before it no server is asked
}

const (
	// serviceEvery is the pause between two questions for a Service: its record is cached for 5 s in most clusters.
	serviceEvery = time.Second
	// mostPods bounds the addresses whose names are asked for, since each pod of a job may do it.
	mostPods = 128
)

// Find returns the addresses of a pod by its name, as Config.Find does, or by the record of its Service.
func (p *Pods) Find(ctx context.Context, name string) []netip.Addr {
	if addrs := p.Config.Find(ctx, name); len(addrs) > 0 {
		return addrs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, service, ok := strings.Cut(name, ".")
	if now := time.Now(); !ok || now.Before(p.next) {
		return nil
	}
	p.next = time.Now().Add(serviceEvery)
	var found []netip.Addr
	addrs := p.Config.Find(ctx, service)
	if len(addrs) > mostPods {
		return nil
	}
	names := each(addrs, func(a netip.Addr) string { return p.nameOf(ctx, a) })
	for i, a := range addrs {
		if names[i] == "" {
			continue
		}
		if p.known == nil {
			p.known = map[netip.Addr]string{}
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
