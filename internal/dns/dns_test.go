package dns

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	wire "github.com/miekg/dns"
)

// serve runs a name server, over UDP and TCP at one port.
func serve(t *testing.T, answer wire.HandlerFunc) netip.AddrPort {
	t.Helper()
	for range 20 { // the port that UDP gets may be taken on TCP
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err != nil {
			udp.Close()
			continue
		}
		for _, s := range []*wire.Server{{PacketConn: udp, Handler: answer}, {Listener: tcp, Handler: answer}} {
			started := make(chan struct{})
			s.NotifyStartedFunc = func() { close(started) }
			go s.ActivateAndServe()
			<-started
			t.Cleanup(func() { s.Shutdown() })
		}
		return netip.MustParseAddrPort(udp.LocalAddr().String())
	}
	t.Fatal("no port is free on both UDP and TCP")
	return netip.AddrPort{}
}

// zone answers from records, each "name. TTL IN A 10.0.0.1"; what it does not
// have does not exist, with the SOA.
func zone(t *testing.T, soa string, records ...string) wire.HandlerFunc {
	t.Helper()
	parse := func(s string) wire.RR {
		rr, err := wire.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		return rr
	}
	var all []wire.RR
	for _, r := range records {
		all = append(all, parse(r))
	}
	return func(w wire.ResponseWriter, q *wire.Msg) {
		m := new(wire.Msg).SetReply(q)
		known := false
		for _, rr := range all {
			if strings.EqualFold(rr.Header().Name, q.Question[0].Name) {
				known = true
				if rr.Header().Rrtype == q.Question[0].Qtype {
					m.Answer = append(m.Answer, rr)
				}
			}
		}
		if !known {
			m.Rcode = wire.RcodeNameError
		}
		if len(m.Answer) == 0 && soa != "" {
			m.Ns = []wire.RR{parse(soa)}
		}
		w.WriteMsg(m)
	}
}

func code(rcode int) wire.HandlerFunc {
	return func(w wire.ResponseWriter, q *wire.Msg) { w.WriteMsg(new(wire.Msg).SetRcode(q, rcode)) }
}

func silent(wire.ResponseWriter, *wire.Msg) {}

const soa = "cluster.test. 60 IN SOA ns.cluster.test. root.cluster.test. 1 2 3 4 30"

func ips(ss ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestAskReturnsTheAnswerOfAServer(t *testing.T) {
	var tries atomic.Int32
	known := zone(t, soa, "host0.cluster.test. 60 IN A 10.0.0.1", "host0.cluster.test. 60 IN AAAA fd00::1",
		"text.cluster.test. 60 IN TXT x")
	for _, tt := range []struct {
		name   string
		server wire.HandlerFunc
		ask    string
		want   Answer
	}{
		{"both families", known, "host0.cluster.test", Answer{Says: Found, Addrs: ips("10.0.0.1", "fd00::1")}},
		{"no such name", known, "host9.cluster.test",
			Answer{Says: NotFound, TTL: 30 * time.Second, Zone: "cluster.test", Master: "ns.cluster.test"}},
		{"a name without an address", known, "text.cluster.test",
			Answer{Says: NoData, TTL: 30 * time.Second, Zone: "cluster.test", Master: "ns.cluster.test"}},
		{"a negative answer that no cache keeps", zone(t, ""), "host0.cluster.test", Answer{Says: NotFound}},
		{"the SOA's own TTL is the lesser",
			zone(t, "cluster.test. 5 IN SOA ns.cluster.test. root.cluster.test. 1 2 3 4 30"), "x.cluster.test",
			Answer{Says: NotFound, TTL: 5 * time.Second, Zone: "cluster.test", Master: "ns.cluster.test"}},
		{"SERVFAIL", code(wire.RcodeServerFailure), "host0.cluster.test", Answer{Says: ServFail}},
		{"REFUSED", code(wire.RcodeRefused), "host0.cluster.test", Answer{Says: Refused}},
		{"another code", code(wire.RcodeNotImplemented), "host0.cluster.test", Answer{Says: OtherError, Why: "NOTIMP"}},
		{"a server without EDNS", func(w wire.ResponseWriter, q *wire.Msg) {
			if q.IsEdns0() != nil {
				code(wire.RcodeFormatError)(w, q)
				return
			}
			known(w, q)
		}, "host0.cluster.test", Answer{Says: Found, Addrs: ips("10.0.0.1", "fd00::1")}},
		{"too long for UDP", func(w wire.ResponseWriter, q *wire.Msg) {
			if w.RemoteAddr().Network() == "udp" {
				m := new(wire.Msg).SetReply(q)
				m.Truncated = true
				w.WriteMsg(m)
				return
			}
			known(w, q)
		}, "host0.cluster.test", Answer{Says: Found, Addrs: ips("10.0.0.1", "fd00::1")}},
		{"a packet that is lost", func(w wire.ResponseWriter, q *wire.Msg) {
			if tries.Add(1) > 2 {
				known(w, q)
			}
		}, "host0.cluster.test", Answer{Says: Found, Addrs: ips("10.0.0.1", "fd00::1")}},
		{"an answer to another question", func(w wire.ResponseWriter, q *wire.Msg) {
			m := new(wire.Msg).SetReply(q)
			m.Question[0].Name = "evil.test."
			w.WriteMsg(m)
		}, "host0.cluster.test", Answer{Says: Garbage, Why: "the answer is to another question"}},
		{"one family is not answered", func(w wire.ResponseWriter, q *wire.Msg) {
			if q.Question[0].Qtype == wire.TypeA {
				known(w, q)
			}
		}, "host0.cluster.test", Answer{Says: Found, Addrs: ips("10.0.0.1"), Half: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Name = tt.ask
			got := Ask(t.Context(), serve(t, tt.server), tt.ask)
			alike := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Answer{}, "Took"), alike); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskEndsWithinItsBudget(t *testing.T) {
	t.Parallel()
	began := time.Now()
	got := Ask(t.Context(), serve(t, silent), "host0.cluster.test")
	if took := time.Since(began); got.Says != Silent || took > Budget+500*time.Millisecond {
		t.Errorf("%s after %v", got.Says, took)
	}
}

func TestAskReportsAClosedPortAndNoise(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(conn.LocalAddr().String())
	go func() {
		buf := make([]byte, 2000)
		for {
			_, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			// The id of the question, and then what no message begins with.
			conn.WriteTo(append(buf[:2:2], "this is not a name server's answer"...), from)
		}
	}()
	if got := Ask(t.Context(), at, "host0.cluster.test"); got.Says != Garbage {
		t.Errorf("noise: %+v", got)
	}
	conn.Close()
	got := Ask(t.Context(), at, "host0.cluster.test")
	if got.Says != Unreachable || !strings.Contains(got.Why, "nothing listens") {
		t.Errorf("a closed port: %+v", got)
	}
}

func TestReverse(t *testing.T) {
	t.Parallel()
	at := serve(t, zone(t, soa, "1.0.0.10.in-addr.arpa. 60 IN PTR host0.cluster.test."))
	got := Reverse(t.Context(), at, netip.MustParseAddr("10.0.0.1"))
	if got.Says != Found || got.Why != "host0.cluster.test" {
		t.Errorf("a name: %+v", got)
	}
	if got := Reverse(t.Context(), at, netip.MustParseAddr("10.0.0.2")); got.Says != NotFound {
		t.Errorf("no name: %+v", got)
	}
}

func TestCandidatesAreGlibcs(t *testing.T) {
	k8s := Config{Search: []string{"ns.svc.cluster.local", "svc.cluster.local"}, Ndots: 5}
	plain := Config{Search: []string{"hpc.test"}, Ndots: 1}
	for _, tt := range []struct {
		c    Config
		name string
		want []string
	}{
		{plain, "host0", []string{"host0.hpc.test", "host0"}},
		{plain, "host0.rack1", []string{"host0.rack1", "host0.rack1.hpc.test"}},
		{plain, "host0.", []string{"host0"}},
		{plain, "host0.hpc.test.", []string{"host0.hpc.test"}},
		{k8s, "a.b", []string{"a.b.ns.svc.cluster.local", "a.b.svc.cluster.local", "a.b"}},
		{Config{Ndots: 0, Search: []string{"x"}}, "host0", []string{"host0", "host0.x"}},
		{Config{Ndots: 1}, "host0", []string{"host0"}},
	} {
		if diff := cmp.Diff(tt.want, tt.c.Candidates(tt.name)); diff != "" {
			t.Errorf("%q with ndots %d (-want +got):\n%s", tt.name, tt.c.Ndots, diff)
		}
	}
}

// says are the results of a survey in short.
func says(all []Said) []string {
	var out []string
	for _, s := range all {
		r := s.Result()
		text := string(r.Says)
		for _, a := range r.Addrs {
			text += " " + a.String()
		}
		if s.Whole != nil {
			text += ", whole " + string(s.Whole.Says)
		}
		out = append(out, text)
	}
	return out
}

func TestSurveyAsksEachServerForTheSearchList(t *testing.T) {
	t.Parallel()
	good := serve(t, zone(t, soa, "host0.cluster.test. 60 IN A 10.0.0.1"))
	wild := serve(t, zone(t, "", "www.other.test.cluster.test. 60 IN A 10.9.9.9", "www.other.test. 60 IN A 10.0.0.7"))
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	c := Config{Servers: []netip.AddrPort{good, serve(t, code(wire.RcodeServerFailure)), closed, serve(t, zone(t, soa))},
		Search: []string{"nowhere.test", "cluster.test"}, Ndots: 3}
	began := time.Now()
	got := c.Survey(t.Context(), "host0")
	if diff := cmp.Diff([]string{"found 10.0.0.1", "SERVFAIL", "unreachable", "NXDOMAIN"}, says(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(got[0].Answers); n != 2 {
		t.Errorf("the first server was asked %d names, want 2: the second is the right one", n)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("servers that answer took %v", took)
	}
	c.Servers = []netip.AddrPort{wild}
	whole := says(c.Survey(t.Context(), "www.other.test"))
	if diff := cmp.Diff([]string{"found 10.9.9.9, whole found"}, whole); diff != "" {
		t.Errorf("a domain that answers for any name (-want +got):\n%s", diff)
	}
}

func TestFindSkipsAServerThatIsDead(t *testing.T) {
	t.Parallel()
	good := zone(t, soa, "host0.cluster.test. 60 IN A 10.0.0.1")
	for _, tt := range []struct {
		name    string
		servers []wire.HandlerFunc
		want    []netip.Addr
		within  time.Duration
	}{
		{"one that is well", []wire.HandlerFunc{good}, ips("10.0.0.1"), Budget - 100*time.Millisecond},
		{"the first silent", []wire.HandlerFunc{silent, good}, ips("10.0.0.1"), Budget - 100*time.Millisecond},
		{"the last silent", []wire.HandlerFunc{good, silent}, ips("10.0.0.1"), Budget - 100*time.Millisecond},
		{"the first broken", []wire.HandlerFunc{code(wire.RcodeServerFailure), good}, ips("10.0.0.1"),
			Budget - 100*time.Millisecond},
		{"the first says no, as glibc has it", []wire.HandlerFunc{zone(t, ""), good}, nil, Budget - 100*time.Millisecond},
		{"all silent", []wire.HandlerFunc{silent, silent}, nil, Budget + 500*time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c Config
			for _, s := range tt.servers {
				c.Servers = append(c.Servers, serve(t, s))
			}
			began := time.Now()
			got := c.Find(t.Context(), "host0.cluster.test")
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if took := time.Since(began); took > tt.within {
				t.Errorf("took %v, want less than %v", took, tt.within)
			}
		})
	}
}

// A cache that keeps "no such name" is gone around: the zone's master is asked.
func TestFindGoesAroundANegativeCache(t *testing.T) {
	t.Parallel()
	master := zone(t, soa, "host0.cluster.test. 60 IN A 10.0.0.1")
	asked := make(chan *wire.Msg, 10)
	// Both listen at one port, as real ones do: the master at an address of its own.
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(udp.LocalAddr().String())
	other, err := net.ListenPacket("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port()).String())
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	for conn, h := range map[net.PacketConn]wire.HandlerFunc{
		udp:   zone(t, soa, "ns.cluster.test. 60 IN A 127.0.0.2"),
		other: func(w wire.ResponseWriter, q *wire.Msg) { asked <- q; master(w, q) },
	} {
		s := &wire.Server{PacketConn: conn, Handler: h}
		go s.ActivateAndServe()
		t.Cleanup(func() { s.Shutdown() })
	}
	c := Config{Servers: []netip.AddrPort{at}, Search: []string{"cluster.test"}, Ndots: 1}
	if got := c.Find(t.Context(), "host0"); len(got) != 1 || got[0] != ips("10.0.0.1")[0] {
		t.Fatalf("found %v", got)
	}
	if q := <-asked; q.RecursionDesired {
		t.Error("the master was asked to look elsewhere: that could be a cache again")
	}
	if got := c.Find(t.Context(), "host9"); got != nil {
		t.Errorf("an unknown name: %v", got)
	}
}

func TestRememberedAsksOnce(t *testing.T) {
	t.Parallel()
	var questions atomic.Int32
	good := zone(t, soa, "host0.cluster.test. 60 IN A 10.0.0.1")
	counted := func(w wire.ResponseWriter, q *wire.Msg) { questions.Add(1); good(w, q) }
	c := Config{Servers: []netip.AddrPort{serve(t, counted)}}
	survey := c.Remembered()
	for range 3 {
		if diff := cmp.Diff([]string{"found 10.0.0.1"}, says(survey(t.Context(), "host0.cluster.test"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n := questions.Load(); n != 2 {
		t.Errorf("%d questions, want one for each family", n)
	}
}

// What a server sends is anybody's: nothing of it ends the process, and no
// answer is found in it without an address.
func FuzzRead(f *testing.F) {
	m := new(wire.Msg).SetQuestion("host0.cluster.test.", wire.TypeA)
	if rr, err := wire.NewRR("host0.cluster.test. 60 IN A 10.0.0.1"); err == nil {
		m.Answer = []wire.RR{rr}
	}
	packed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte("noise"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		m := new(wire.Msg)
		if m.Unpack(packet) != nil {
			return
		}
		var a Answer
		a.read(m, wire.TypeA)
		if a.Says == Found && len(a.Addrs) == 0 || a.TTL < 0 {
			t.Errorf("%+v", a)
		}
	})
}

func TestACanceledQuestionEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Ask(ctx, netip.MustParseAddrPort("127.0.0.1:1"), "host0"); got.Says.Definite() {
		t.Errorf("%+v", got)
	}
}
