package dns

import (
	"net/netip"
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
