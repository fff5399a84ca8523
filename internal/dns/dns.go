// Package dns asks name servers one by one. The system's resolver reports neither
// which server gave an answer nor how long it is cached. The package sends few
// questions: one name, its search list in turn, each server once.
package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	wire "github.com/miekg/dns"
)

// Says is the outcome of a question to one server.
type Says string

const (
	Found       Says = "found"       // it has addresses (of Reverse: a name)
	NotFound    Says = "NXDOMAIN"    // there is no such name
	NoData      Says = "no address"  // the name exists, but has no address
	ServFail    Says = "SERVFAIL"    // it failed, or the servers that it asks did
	Refused     Says = "REFUSED"     // it does not serve this node
	OtherError  Says = "error"       // another code: see Why
	Silent      Says = "no answer"   // no answer arrived in time
	Unreachable Says = "unreachable" // nothing listens there, or there is no route: see Why
	Garbage     Says = "no DNS"      // the answer is not a DNS message
)

// Negative reports a definite answer without an address: no other server need be asked.
func (s Says) Negative() bool { return s == NotFound || s == NoData }

// Definite reports an answer that ends a lookup of glibc's.
func (s Says) Definite() bool { return s == Found || s.Negative() }

// Answer is the answer of one server for one name.
type Answer struct {
	Name  string // as asked, without the final dot
	Says  Says
	Addrs []netip.Addr
	Why   string        // for people, to explain Says
	Took  time.Duration // from the first packet on

	// Half: the question for the other address family was not answered. glibc
	// waits for it as for a silent server.
	Half bool

	// Of a negative answer: its time in caches (RFC 2308: the lesser of the SOA's TTL
	// and its minimum; 0: none), the zone and its master.
	TTL    time.Duration
	Zone   string
	Master string
}

// Budget bounds the questions to one server, and resend is when an unanswered packet
// is sent again. A healthy server answers within milliseconds from its cache, and
// within some hundred milliseconds if it asks other servers.
const (
	Budget = 1800 * time.Millisecond
	resend = 600 * time.Millisecond
)

// packet is the largest answer over UDP that is requested: no path fragments it.
const packet = 1232

// Ask asks a server for the addresses of a name, A and AAAA at once. It ends within Budget.
func Ask(ctx context.Context, server netip.AddrPort, name string) Answer {
	return addresses(ctx, server, name, bits{recurse: true})
}

// bits are those of a question that make another question of it for a cache.
type bits struct {
	recurse, dnssec, unchecked bool // RD, DO and CD
}

// Reverse asks a server for the name of an address, and returns it in Why.
func Reverse(ctx context.Context, server netip.AddrPort, a netip.Addr) Answer {
	name, err := wire.ReverseAddr(a.Unmap().WithZone("").String())
	if err != nil {
		return Answer{Says: OtherError, Why: err.Error()}
	}
	return question(ctx, server, name, wire.TypePTR, bits{recurse: true})
}

// addresses asks for A and AAAA at once.
func addresses(ctx context.Context, server netip.AddrPort, name string, b bits) Answer {
	both := each([]uint16{wire.TypeA, wire.TypeAAAA}, func(kind uint16) Answer {
		return question(ctx, server, name, kind, b)
	})
	return merge(both[0], both[1])
}

// each returns the answers of ask to all at once.
func each[T, U any](all []T, ask func(T) U) []U {
	out := make([]U, len(all))
	var wg sync.WaitGroup
	for i, v := range all {
		wg.Go(func() { out[i] = ask(v) })
	}
	wg.Wait()
	return out
}

// merge makes one answer of two: the addresses of either, else the more definite answer. A server
// that answers A but not AAAA, as some load balancers do, has answered.
func merge(a, b Answer) Answer {
	out := a
	switch {
	case a.Says == Found && b.Says == Found:
		out.Addrs = append(out.Addrs, b.Addrs...)
	case a.Says != Found && (b.Says == Found || !a.Says.Definite() && b.Says.Definite()):
		out = b
	}
	out.Half = (a.Says == Silent) != (b.Says == Silent)
	out.Took = max(a.Took, b.Took)
	return out
}

// question sends one question and waits for its answer.
func question(ctx context.Context, server netip.AddrPort, name string, kind uint16, b bits) Answer {
	began := time.Now()
	a := Answer{Name: strings.TrimSuffix(name, ".")}
	m := new(wire.Msg).SetQuestion(wire.Fqdn(name), kind)
	m.RecursionDesired, m.CheckingDisabled = b.recurse, b.unchecked
	m.SetEdns0(packet, b.dnssec)
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	r, err := exchange(ctx, m, server)
	if err == nil && r.Rcode == wire.RcodeFormatError { // a server without EDNS (RFC 6891, 7)
		m.Extra = nil
		r, err = exchange(ctx, m, server)
	}
	a.Took = time.Since(began)
	if err != nil {
		a.Says, a.Why = failure(err)
		return a
	}
	a.read(r, kind)
	return a
}

// exchange asks over UDP, a second time if no answer arrives, and over TCP if the answer is too long.
func exchange(ctx context.Context, m *wire.Msg, server netip.AddrPort) (*wire.Msg, error) {
	c := &wire.Client{UDPSize: packet, Timeout: resend}
	var r *wire.Msg
	var err error
	for ctx.Err() == nil {
		r, _, err = c.ExchangeContext(ctx, m, server.String())
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			break
		}
		c.Timeout = Budget // the second waits for the remaining time
	}
	if err == nil && r == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return nil, err
	}
	if len(r.Question) != 1 || !strings.EqualFold(r.Question[0].Name, m.Question[0].Name) || !r.Response {
		return nil, errors.New("the answer is to another question")
	}
	if r.Truncated {
		whole, _, err := (&wire.Client{Net: "tcp", Timeout: Budget}).ExchangeContext(ctx, m, server.String())
		if err == nil {
			return whole, nil
		} // the truncated answer is better than nothing
	}
	return r, nil
}

// failure returns the outcome of a question without an answer, and why.
func failure(err error) (Says, string) {
	switch ne, isNet := errors.AsType[net.Error](err); {
	case errors.Is(err, context.DeadlineExceeded), isNet && ne.Timeout():
		return Silent, ""
	case errors.Is(err, context.Canceled):
		return Silent, "the question was cancelled"
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unreachable, "connection refused: nothing listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable, "no route to it"
	case errors.Is(err, syscall.EPERM):
		return Unreachable, "a firewall of this node prohibits it"
	case isNet:
		return Unreachable, err.Error()
	}
	return Garbage, err.Error()
}

// read takes over the records and the code of a message.
func (a *Answer) read(r *wire.Msg, kind uint16) {
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *wire.A:
			a.add(rr.A)
		case *wire.AAAA:
			a.add(rr.AAAA)
		case *wire.PTR:
			a.Why = strings.TrimSuffix(rr.Ptr, ".")
		}
	}
	switch {
	case r.Rcode == wire.RcodeSuccess && (len(a.Addrs) > 0 || kind == wire.TypePTR && a.Why != ""):
		a.Says = Found
		return
	case r.Rcode == wire.RcodeSuccess:
		a.Says = NoData
	case r.Rcode == wire.RcodeNameError:
		a.Says = NotFound
	case r.Rcode == wire.RcodeServerFailure:
		a.Says = ServFail
	case r.Rcode == wire.RcodeRefused:
		a.Says = Refused
	default:
		a.Says, a.Why = OtherError, wire.RcodeToString[r.Rcode]
	}
	for _, rr := range r.Ns {
		if soa, ok := rr.(*wire.SOA); ok && a.Says.Negative() {
			a.TTL = time.Duration(min(soa.Hdr.Ttl, soa.Minttl)) * time.Second
			a.Zone, a.Master = strings.TrimSuffix(soa.Hdr.Name, "."), strings.TrimSuffix(soa.Ns, ".")
		}
	}
}

func (a *Answer) add(ip net.IP) {
	if addr, ok := netip.AddrFromSlice(ip); ok {
		a.Addrs = append(a.Addrs, addr.Unmap())
	}
}
