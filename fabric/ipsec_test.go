package fabric

import (
	"cmp"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestIPsecDropsWhatAPolicyWantsSealedWithoutAnAssociation(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	network := func(text string) *net.IPNet {
		_, n, _ := net.ParseCIDR(text)
		return n
	}
	esp := netlink.XfrmPolicyTmpl{Dst: net.IP{10, 0, 0, 3}, Proto: unix.IPPROTO_ESP}
	policy := netlink.XfrmPolicy{Dir: netlink.XFRM_DIR_OUT, Dst: network("10.0.0.3/32"), Src: network("0.0.0.0/0"),
		Priority: 10, Tmpls: []netlink.XfrmPolicyTmpl{esp}}
	with := func(change func(*netlink.XfrmPolicy)) []netlink.XfrmPolicy {
		p := policy
		change(&p)
		return []netlink.XfrmPolicy{p}
	}
	state := netlink.XfrmState{Dst: net.IP{10, 0, 0, 3}, Proto: unix.IPPROTO_ESP, Spi: 7}
	larval := state
	larval.Spi = 0
	pass := netlink.XfrmPolicy{Dir: netlink.XFRM_DIR_OUT, Dst: network("10.0.0.0/24"), Src: network("0.0.0.0/0")}
	arriving := func(dst *net.IPNet) []netlink.XfrmPolicy {
		return with(func(p *netlink.XfrmPolicy) {
			p.Dst, p.Dir, p.Action = dst, netlink.XFRM_DIR_IN, netlink.XFRM_POLICY_BLOCK
		})
	}
	back := netlink.XfrmState{Dst: net.IP{10, 0, 0, 2}, Proto: unix.IPPROTO_ESP, Spi: 8}
	here := network("10.0.0.2/32")
	takes := with(func(p *netlink.XfrmPolicy) {
		p.Dst, p.Dir, p.Tmpls = here, netlink.XFRM_DIR_IN, []netlink.XfrmPolicyTmpl{{Proto: unix.IPPROTO_ESP}}
	})
	for _, tt := range []struct {
		name     string
		policies []netlink.XfrmPolicy
		states   []netlink.XfrmState
		want     string
	}{
		{"no policy", nil, nil, ""},
		{"no association", []netlink.XfrmPolicy{policy}, nil, "no security association"},
		{"one that is still asked for", []netlink.XfrmPolicy{policy}, []netlink.XfrmState{larval},
			"no security association"},
		{"an association", []netlink.XfrmPolicy{policy}, []netlink.XfrmState{state}, ""},
		{"a policy for what arrives from others", with(func(p *netlink.XfrmPolicy) { p.Dir = netlink.XFRM_DIR_IN }), nil, ""},
		{"another network", with(func(p *netlink.XfrmPolicy) { p.Dst = network("10.0.1.0/24") }), nil, ""},
		{"another source", with(func(p *netlink.XfrmPolicy) { p.Src = network("10.0.9.0/24") }), nil, ""},
		{"VXLAN alone", with(func(p *netlink.XfrmPolicy) { p.Proto, p.DstPort = unix.IPPROTO_UDP, 4789 }), nil, ""},
		{"sealed if there is one", with(func(p *netlink.XfrmPolicy) {
			p.Tmpls = []netlink.XfrmPolicyTmpl{{Dst: esp.Dst, Proto: esp.Proto, Optional: 1}}
		}), nil, ""},
		{"an earlier policy lets it pass", []netlink.XfrmPolicy{policy, pass}, nil, ""},
		{"blocked", with(func(p *netlink.XfrmPolicy) { p.Action = netlink.XFRM_POLICY_BLOCK }), nil,
			"blocks packets to 10.0.0.3"},
		{"what arrives is blocked", arriving(here), nil, "blocks packets from 10.0.0.3"},
		{"what arrives for another address is", arriving(network("10.0.0.9/32")), nil, ""},
		{"what arrives is taken sealed", takes, nil, "packets from 10.0.0.3, which it takes sealed,"},
		{"and there is an association", takes, []netlink.XfrmState{back}, ""},
	} {
		all := ipsec{policies: tt.policies, states: tt.states}
		got := cmp.Or(all.drops(netlink.XFRM_DIR_OUT, from, to), all.drops(netlink.XFRM_DIR_IN, to, from)).Why
		if (got == "") != (tt.want == "") ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
		all.idle = true
		got = cmp.Or(all.drops(netlink.XFRM_DIR_OUT, from, to), all.drops(netlink.XFRM_DIR_IN, to, from)).Why
		if (got != "") != strings.Contains(tt.want, "blocks") {
			t.Errorf("%s, and no call has failed: %q", tt.name, got)
		}
	}
}

// A policy that blocks what leaves is why connect(2) is refused, and no sandbox is.
func TestAPolicyOfIPsecIsNoSandbox(t *testing.T) {
	w := newWired(t)
	there := netip.MustParseAddrPort("10.0.2.2:29500")
	w.run("ip xfrm policy add dst 10.0.2.2/32 dir out action block")
	if f := sandboxed(there); !strings.Contains(f.Why, "IPsec has a policy that blocks packets to 10.0.2.2") {
		t.Errorf("got %+v", f)
	}
	w.run("ip xfrm policy deleteall")
	if f := sandboxed(there); f.Why != "" {
		t.Errorf("without it: %+v", f)
	}
}
