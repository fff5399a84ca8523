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

// Config is whom to ask and how names are completed: resolv.conf.
type Config struct {
	Servers []netip.AddrPort
	Search  []string
	Ndots   int
}

// port is where name servers listen.
const port = 53

// At makes addresses of name servers of their IP addresses.
func At(servers []netip.Addr) []netip.AddrPort {
	out := make([]netip.AddrPort, len(servers))
	for i, a := range servers {
		out[i] = netip.AddrPortFrom(a, port)
	}
	return out
}

// Candidates are the names that a name may stand for, in the order in which
// glibc tries them (resolv/res_query.c, __res_context_search): the search list
// before the name itself where it has fewer dots than ndots, behind it
// otherwise; one with a dot at its end stands for itself alone.
func (c Config) Candidates(name string) []string {
	if whole, ok := strings.CutSuffix(name, "."); ok {
		return []string{whole}
	}
	var out []string
	for _, domain := range c.Search {
		out = append(out, name+"."+domain)
	}
	if strings.Count(name, ".") >= c.Ndots {
		return append([]string{name}, out...)
	}
	return append(out, name)
}

// Said is what one server makes of a name: its answers to the candidates, in
// their order, up to the first with an address.
type Said struct {
	Server  netip.AddrPort
	Answers []Answer
	// Whole is what it says of the name as it is, where that would not have been
	// tried any more: it may mean another host than the search list makes of it.
	Whole *Answer
}

// Result is the answer that counts: the last, unless no name was found and an
// earlier one was not answered. The zero Answer: the server was not asked.
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

// Survey asks every server of the list what it makes of a name, all at once and
// within Budget.
func (c Config) Survey(ctx context.Context, name string) []Said {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	out := make([]Said, len(c.Servers))
	var wg sync.WaitGroup
	for i, server := range c.Servers {
		wg.Go(func() { out[i] = c.survey(ctx, server, name) })
	}
	wg.Wait()
	return out
}

func (c Config) survey(ctx context.Context, server netip.AddrPort, name string) Said {
	s := Said{Server: server}
	names := c.Candidates(name)
	ask := func(i int) Answer { return Ask(ctx, server, names[i]) }
	for i := range names {
		if i == 1 { // The first is often the one. The others at once: of a slow server they would take too long in turn.
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
			return s // it would not answer the others either
		}
	}
	return s
}

// ahead asks for all names but the first at once. The answer to each is waited for
// when it is wanted.
func (c Config) ahead(ctx context.Context, server netip.AddrPort, names []string) func(i int) Answer {
	answers := make([]chan Answer, len(names))
	for i := 1; i < len(names); i++ {
		answers[i] = make(chan Answer, 1)
		go func() { answers[i] <- Ask(ctx, server, names[i]) }()
	}
	return func(i int) Answer { return <-answers[i] }
}

// Remembered is a survey that asks for each name once, whoever wants to know.
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

// ReverseAll asks every server which name an address has, all at once.
func (c Config) ReverseAll(ctx context.Context, a netip.Addr) []Answer {
	out := make([]Answer, len(c.Servers))
	var wg sync.WaitGroup
	for i, server := range c.Servers {
		wg.Go(func() { out[i] = Reverse(ctx, server, a) })
	}
	wg.Wait()
	return out
}

// patience is how long Find waits for the servers before the one that has
// answered: those that are well take milliseconds.
const patience = 300 * time.Millisecond

// Find looks a name up as glibc does, but asks all servers at once: the first
// of the list that answers for certain decides, and one that is late is passed
// over. Where that says that there is no such name, and that caches may keep it
// for a while, the zone's own server is asked too: it knows a new name first. It
// ends within two Budgets; no address is no error.
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

// certain is the first certain answer; nil: none. strict: none behind a server
// that may still answer.
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

// settle is what the answer that counts comes to.
func (c Config) settle(ctx context.Context, s *Said) []netip.Addr {
	if s == nil {
		return nil
	}
	if a := s.Result(); a.Says == Found {
		return a.Addrs
	}
	return around(ctx, *s)
}

// around asks the masters of the zones that said no.
func around(ctx context.Context, s Said) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	for _, a := range s.Answers {
		if !a.Says.Negative() || a.Keeps <= 0 || a.Master == "" || a.Zone == "" || isTop(a.Zone) {
			continue
		}
		for _, at := range Ask(ctx, s.Server, a.Master+".").Addrs {
			to := netip.AddrPortFrom(at, s.Server.Port())
			if to == s.Server { // the cache is the zone's own server
				continue
			}
			if got := addresses(ctx, to, a.Name, false); got.Says == Found {
				return got.Addrs
			}
		}
	}
	return nil
}

// isTop tells the root and the zones right below it: they know no host, and are
// not to be asked by every node of a job.
func isTop(zone string) bool { return wire.CountLabel(wire.Fqdn(zone)) < 2 }
