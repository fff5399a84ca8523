package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	wire "github.com/miekg/dns"
)

// Config is which servers to ask and how to complete names: resolv.conf.
type Config struct {
	Servers []netip.AddrPort
	Search  []string
	Ndots   int
}

// port is where name servers listen.
const port = 53

// At returns the addresses of name servers with these IP addresses.
func At(servers []netip.Addr) []netip.AddrPort {
	out := make([]netip.AddrPort, len(servers))
	for i, a := range servers {
		out[i] = netip.AddrPortFrom(a, port)
	}
	return out
}

// Candidates returns the names that a name may mean, in the order in which glibc tries them
// (resolv/res_query.c, __res_context_search). The search list precedes the name itself if that has
// fewer dots than ndots, and follows it otherwise. A name with a final dot means itself alone.
func (c Config) Candidates(name string) []string {
	if whole, ok := strings.CutSuffix(name, "."); ok {
		return []string{whole}
	}
	var out []string
	for _, domain := range c.Search {
		out = append(out, name+"."+domain)
	}
	if strings.Count(name, ".") >= c.Ndots {
		return slices.Insert(out, 0, name)
	}
	return append(out, name)
}

// Said is the answers of one server to the candidates of a name, in their order, up
// to the first with an address.
type Said struct {
	Server  netip.AddrPort
	Answers []Answer
	// Whole is the answer for the name as it is, if a candidate before it had an
	// address: the two may mean different hosts.
	Whole *Answer
}

// Result returns the answer that counts: the last, unless no name was found and an
// earlier one was not answered. A server that was not asked is Silent.
func (s Said) Result() Answer {
	if len(s.Answers) == 0 {
		return Answer{Says: Silent}
	}
	last := s.Answers[len(s.Answers)-1]
	if last.Says == Found {
		return last
	}
	if i := slices.IndexFunc(s.Answers, func(a Answer) bool { return !a.Says.Definite() }); i >= 0 {
		return s.Answers[i]
	}
	if i := slices.IndexFunc(s.Answers, func(a Answer) bool { return a.Says == NoData }); i >= 0 {
		return s.Answers[i]
	}
	return last
}

// Survey asks all servers of the list for a name at once, within Budget.
func (c Config) Survey(ctx context.Context, name string) []Said {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	return each(c.Servers, func(server netip.AddrPort) Said { return c.survey(ctx, server, name) })
}

// survey asks one server for the candidates of a name.
func (c Config) survey(ctx context.Context, server netip.AddrPort, name string) Said {
	s := Said{Server: server}
	names := c.Candidates(name)
	ask := func(i int) Answer { return Ask(ctx, server, names[i]) }
	for i := range names {
		if i == 1 { // The first often succeeds. Ask for the others at once: a slow server takes too long in turn.
			ask = c.ahead(ctx, server, names)
		}
		a := ask(i)
		s.Answers = append(s.Answers, a)
		if a.Says == Found {
			if strings.Contains(name, ".") && names[i] != name && names[i]+"." != name {
				whole := Ask(ctx, server, name)
				s.Whole = &whole
			}
			return s
		}
		if !a.Says.Definite() && a.Says != ServFail && a.Says != Refused {
			return s // it will not answer the others either
		}
	}
	return s
}

// ahead asks for all names but the first at once. The returned function waits for one answer.
func (c Config) ahead(ctx context.Context, server netip.AddrPort, names []string) func(i int) Answer {
	answers := make([]chan Answer, len(names))
	for i := 1; i < len(names); i++ {
		answers[i] = make(chan Answer, 1)
		go func() { answers[i] <- Ask(ctx, server, names[i]) }()
	}
	return func(i int) Answer { return <-answers[i] }
}

// Remembered returns a Survey that asks for each name only once.
func (c Config) Remembered() func(ctx context.Context, name string) []Said {
	var mu sync.Mutex
	asked := map[string]func() []Said{}
	return func(ctx context.Context, name string) []Said {
		mu.Lock()
		ask, ok := asked[name]
		if !ok {
			ask = sync.OnceValue(func() []Said { return c.Survey(ctx, name) })
			asked[name] = ask
		}
		mu.Unlock()
		return ask()
	}
}

// ReverseAll asks all servers for the name of an address at once.
func (c Config) ReverseAll(ctx context.Context, a netip.Addr) []Answer {
	return each(c.Servers, func(server netip.AddrPort) Answer { return Reverse(ctx, server, a) })
}

// patience is how long Find waits for the servers before the one that has answered:
// healthy ones take milliseconds.
const patience = 300 * time.Millisecond

// Find looks a name up as glibc does, but asks all servers at once, and returns nil if it finds no
// address. The first of the list with a definite answer decides; a late one is skipped. After a negative
// answer that caches may have, Find asks the zone's own server too. It ends within two Budgets.
func (c Config) Find(ctx context.Context, name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, 2*Budget)
	defer cancel()
	type answer struct {
		i int
		s Said
	}
	answers := make(chan answer, len(c.Servers)) // buffered, so that late ones end too
	for i, server := range c.Servers {
		go func() { answers <- answer{i, c.survey(ctx, server, name)} }()
	}
	said := make([]*Said, len(c.Servers))
	var late <-chan time.Time
	for range c.Servers {
		select {
		case a := <-answers:
			said[a.i] = &a.s
		case <-late:
			return c.settle(ctx, certain(said, false))
		}
		if s := certain(said, true); s != nil {
			return c.settle(ctx, s)
		}
		if late == nil && certain(said, false) != nil {
			late = time.After(patience)
		}
	}
	return c.settle(ctx, certain(said, false))
}

// certain returns the first definite answer of the list, or nil. strict: not if a
// server before it may still answer.
func certain(said []*Said, strict bool) *Said {
	for _, s := range said {
		switch {
		case s == nil && strict:
			return nil
		case s != nil && s.Result().Says.Definite():
			return s
		}
	}
	return nil
}

// settle returns the addresses of the answer that counts.
func (c Config) settle(ctx context.Context, s *Said) []netip.Addr {
	if s == nil {
		return nil
	}
	if a := s.Result(); a.Says == Found {
		return a.Addrs
	}
	return around(ctx, *s)
}

// around asks the masters of the zones with negative answers.
func around(ctx context.Context, s Said) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	for _, a := range s.Answers {
		if !a.Says.Negative() || a.TTL <= 0 || a.Master == "" || a.Zone == "" || isTop(a.Zone) {
			continue
		}
		for _, at := range Ask(ctx, s.Server, a.Master+".").Addrs {
			to := netip.AddrPortFrom(at, s.Server.Port())
			if to == s.Server { // the cache is the zone's own server
				continue
			}
			if got := addresses(ctx, to, a.Name, bits{}); got.Says == Found {
				return got.Addrs
			}
		}
	}
	return nil
}

// isTop reports the root and the zones right below it: they know no host, and not
// every node of a job is to ask them.
func isTop(zone string) bool { return wire.CountLabel(wire.Fqdn(zone)) < 2 }
