package dns

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	wire "github.com/miekg/dns"
)

const podSOA = "svc.cluster.local. 30 IN SOA ns.dns.cluster.local. admin.cluster.local. 1 2 3 4 30"

// While a cache holds that a pod's name does not exist, the record of its Service and the name of each of its
// addresses give the pod's address.
func TestPodsFindAPodByItsService(t *testing.T) {
	server := serve(t, zone(t, podSOA,
		"train.ns.svc.cluster.local. 5 IN A 10.0.0.7", "train.ns.svc.cluster.local. 5 IN A 10.0.0.8",
		"7.0.0.10.in-addr.arpa. 5 IN PTR train-1.train.ns.svc.cluster.local.",
		"8.0.0.10.in-addr.arpa. 5 IN PTR train-0.train.ns.svc.cluster.local."))
	c := Config{Servers: []netip.AddrPort{server}, Search: []string{"ns.svc.cluster.local"}, Ndots: 5}
	for _, name := range []string{"train-0.train", "train-0.train.ns.svc.cluster.local"} {
		p := &Pods{Config: c}
		if got := p.Find(t.Context(), name); len(got) != 1 || got[0] != netip.MustParseAddr("10.0.0.8") {
			t.Errorf("%s: %v", name, got)
		}
		if got := p.Find(t.Context(), name); got != nil {
			t.Errorf("%s: the Service is asked for at once again", name)
		}
	}
	if got := (&Pods{Config: c}).Find(t.Context(), "train-2.train"); got != nil {
		t.Errorf("a pod that is not there: %v", got)
	}
}

// cached answers like a server with a cache that keeps for ever that a name does not exist: the bits DO and CD are
// its key.
func cached(t *testing.T, exists func() bool, record string) wire.HandlerFunc {
	var mu sync.Mutex
	gone := map[string]bool{}
	return func(w wire.ResponseWriter, q *wire.Msg) {
		mu.Lock()
		defer mu.Unlock()
		do := q.IsEdns0() != nil && q.IsEdns0().Do()
		key := fmt.Sprint(q.Question[0].Name, q.Question[0].Qtype, do, q.CheckingDisabled)
		if !exists() || gone[key] {
			gone[key] = true
			zone(t, podSOA)(w, q)
			return
		}
		zone(t, podSOA, record)(w, q)
	}
}

// A pod that was asked for too early is found once it exists, by the questions that no cache knows.
func TestPodsFindAPodPastACache(t *testing.T) {
	began := time.Now()
	exists := func() bool { return time.Since(began) > 300*time.Millisecond }
	const name = "train-0.train.ns.svc.cluster.local"
	p := &Pods{Config: Config{Servers: []netip.AddrPort{serve(t, cached(t, exists, name+". 30 IN A 10.0.0.8"))}}}
	for time.Since(began) < 5*time.Second {
		if got := p.Find(t.Context(), name); len(got) == 1 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("not found after %d looks", p.looks)
}

// A Service without names for its addresses gives no address: it could be any pod's.
func TestPodsTakeNoPodWithoutItsName(t *testing.T) {
	server := serve(t, zone(t, podSOA, "train.ns.svc.cluster.local. 5 IN A 10.0.0.7"))
	p := &Pods{Config: Config{Servers: []netip.AddrPort{server}}}
	if got := p.Find(t.Context(), "train-0.train.ns.svc.cluster.local"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestAbsentSaysForHowLong(t *testing.T) {
	server := serve(t, zone(t, podSOA, "train-1.train.ns.svc.cluster.local. 5 IN A 10.0.0.7"))
	c := Config{Servers: []netip.AddrPort{server}}
	if ttl, absent := c.Absent(t.Context(), "train-0.train.ns.svc.cluster.local"); !absent || ttl != 30*time.Second {
		t.Errorf("%v %v", ttl, absent)
	}
	if _, absent := c.Absent(t.Context(), "train-1.train.ns.svc.cluster.local"); absent {
		t.Error("a name that exists")
	}
	failing := Config{Servers: []netip.AddrPort{serve(t, code(wire.RcodeServerFailure))}}
	if _, absent := failing.Absent(t.Context(), "train-0"); absent {
		t.Error("a server that fails does not say that there is no such name")
	}
}
