package envgen

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// gidChoice is how NCCL and NVSHMEM choose an entry of a RoCE port's GID table.
type gidChoice struct {
	index   int          // NCCL_IB_GID_INDEX; -1: by the rest
	ipv6    bool         // NCCL_IB_ADDR_FAMILY is AF_INET6
	version int          // NCCL_IB_ROCE_VERSION_NUM
	in      netip.Prefix // NCCL_IB_ADDR_RANGE; invalid: any
}

// of returns the entry that they choose from 2.21 on: from entry 0 they move to one of the wanted
// family, then to one of the wanted version (src/transport/net_ib/connect.cc ncclUpdateGidIndex).
func (c gidChoice) of(p fabric.Port) int {
	if c.index >= 0 {
		return c.index
	}
	now, ok := gidAt(p, 0)
	if !ok {
		now.Addr = netip.IPv6Unspecified()
	}
	for _, g := range p.GIDs {
		family := g.Addr.Is4() != c.ipv6
		switch {
		case g.Index == 0 || !family || c.in.IsValid() && !c.in.Contains(g.Addr):
		case now.Addr.Is4() == c.ipv6:
			now = g
		case beyondLink(g) && (roceVersion(g) != roceVersion(now) || !beyondLink(now)) && roceVersion(g) == c.version:
			now = g
		}
	}
	return now.Index
}

// gidAt returns an entry of the GID table of a port.
func gidAt(p fabric.Port, index int) (fabric.GID, bool) {
	i := slices.IndexFunc(p.GIDs, func(g fabric.GID) bool { return g.Index == index })
	if i < 0 {
		return fabric.GID{}, false
	}
	return p.GIDs[i], true
}

// beyondLink reports whether an entry is valid for the library: fe80:: is not, 169.254 is.
func beyondLink(g fabric.GID) bool {
	return !g.Addr.IsUnspecified() && (g.Addr.Is4() || !g.Addr.IsLinkLocalUnicast())
}

// roceVersion returns 1, 2, or 0 if the entry's type is unknown.
func roceVersion(g fabric.GID) int {
	switch {
	case strings.HasSuffix(g.Type, "v2"):
		return 2
	case g.Type != "":
		return 1
	}
	return 0
}

// rightGID returns the entry that a rail should use, or -1: the one in the facts; with only RoCE v1
// (ConnectX-3) the first one with an address; for a port without an address its link-local one, if the
// interface is here.
func (v *view) rightGID(p hcaPort) int {
	for _, r := range v.fab.Rails {
		if r.HCA == p.hca.Name && r.Port == p.Num && r.GID >= 0 {
			return r.GID
		}
	}
	v2 := slices.ContainsFunc(p.GIDs, func(g fabric.GID) bool { return roceVersion(g) == 2 })
	for _, test := range []func(fabric.GID) bool{
		func(g fabric.GID) bool { return !v2 && g.Addr.Is4() },
		func(g fabric.GID) bool { return !v2 && beyondLink(g) },
		func(g fabric.GID) bool { return v2 && roceVersion(g) == 2 && !beyondLink(g) && p.Netdev != "" },
	} {
		for _, g := range p.GIDs {
			if test(g) && (g.Netdev == "" || g.Netdev == p.Netdev) {
				return g.Index
			}
		}
	}
	return -1
}

// gidTable returns the rails with a right entry, and the entries. It leaves out rails
// whose table has no types.
func (v *view) gidTable() (rails []hcaPort, want []int) {
	for _, p := range v.roceRails() {
		typed := slices.ContainsFunc(p.GIDs, func(g fabric.GID) bool { return g.Type != "" })
		if i := v.rightGID(p); i >= 0 && typed {
			rails, want = append(rails, p), append(want, i)
		}
	}
	return rails, want
}

// gidPlan is what has to be set for all rails to use the right entry. why is what they
// would use, or why nothing is set.
type gidPlan struct {
	set  map[string]string
	why  string
	seen []finding.Seen
}

// The names after NCCL_IB_ or NVSHMEM_IB_.
const (
	gidIndex    = "GID_INDEX"
	addrFamily  = "ADDR_FAMILY"
	addrRange   = "ADDR_RANGE"
	roceVersNum = "ROCE_VERSION_NUM"
)

// gid plans the choice. Of the settings that give all rails the right entry it takes the least
// specific: a family before a range, and an index, which is the same on all HCAs, last.
func (v *view) gid(prefix string, dynamic bool) gidPlan {
	rails, want := v.gidTable()
	unread := slices.ContainsFunc(v.fab.Rails, func(r rail.Rail) bool { return r.GIDUnread })
	if len(rails) == 0 && unread {
		return gidPlan{why: "the GID tables of the training fabric could not be read"}
	}
	if len(rails) == 0 {
		return gidPlan{why: "the training fabric has no RoCE port with a GID to choose"}
	}
	wrong := func(c gidChoice) int {
		for i, p := range rails {
			if c.of(p.Port) != want[i] {
				return i
			}
		}
		return -1
	}
	now := v.gidNow(prefix, dynamic)
	bad := wrong(now)
	if bad < 0 {
		return gidPlan{why: fmt.Sprintf("its own choice is right: entry %d of %s", want[0], rails[0])}
	}
	p := rails[bad]
	g := gidPlan{why: fmt.Sprintf("would use entry %d of %s, and %s", now.of(p.Port), p, v.gidWords(p, want[bad]))}
	for i, p := range rails {
		g.seen = append(g.seen, gidSeen(p, now.of(p.Port)), gidSeen(p, want[i]))
	}
	g.seen = slices.Compact(g.seen) // a rail whose choice is right
	for _, try := range v.gidTries(prefix, dynamic, now, rails, want) {
		if wrong(try.gidChoice) < 0 {
			g.set = try.set
			return g
		}
	}
	return g
}

// gidNow returns the choice with the settings in force. Before the dynamic choice
// (NCCL before 2.21) it is entry 0.
func (v *view) gidNow(prefix string, dynamic bool) gidChoice {
	c := gidChoice{index: -1, version: 2, ipv6: v.value(prefix+addrFamily) == "AF_INET6"}
	if !dynamic {
		return gidChoice{index: max(0, leadingInt(v.value(prefix+gidIndex), 0))}
	}
	if d, ok := v.decided(prefix + gidIndex); ok {
		c.index = leadingInt(d.Value, 0)
	}
	if d, ok := v.decided(prefix + roceVersNum); ok {
		c.version = leadingInt(d.Value, 0)
	}
	if p, err := netip.ParsePrefix(v.value(prefix + addrRange)); err == nil {
		c.in = p
	}
	return c
}

type gidTry struct {
	gidChoice
	set map[string]string
}

func (v *view) gidTries(prefix string, dynamic bool, now gidChoice, rails []hcaPort, want []int) []gidTry {
	var tries []gidTry
	add := func(change func(*gidChoice), set ...string) {
		t := gidTry{now, map[string]string{}}
		change(&t.gidChoice)
		for i := 0; i < len(set); i += 2 {
			if v.has(prefix + set[i]) { // the user's own value wins
				return
			}
			t.set[prefix+set[i]] = set[i+1]
		}
		tries = append(tries, t)
	}
	if now.index < 0 {
		in := v.gidRange(rails, want)
		add(func(c *gidChoice) { c.ipv6 = true }, addrFamily, "AF_INET6")
		add(func(c *gidChoice) { c.version = 1 }, roceVersNum, "1")
		add(func(c *gidChoice) { c.ipv6, c.version = true, 1 }, addrFamily, "AF_INET6", roceVersNum, "1")
		if in.IsValid() {
			add(func(c *gidChoice) { c.in = in }, addrRange, in.String())
			add(func(c *gidChoice) { c.ipv6, c.in = true, in }, addrFamily, "AF_INET6", addrRange, in.String())
		}
	}
	if now.index < 0 || !dynamic {
		add(func(c *gidChoice) { c.index = want[0] }, gidIndex, strconv.Itoa(want[0]))
	}
	return tries
}

// gidRange returns the smallest subnet with the right addresses of all rails, each
// with the subnet of its interface. It is invalid if there is none.
func (v *view) gidRange(rails []hcaPort, want []int) netip.Prefix {
	var all netip.Prefix
	for i, p := range rails {
		g, ok := gidAt(p.Port, want[i])
		if !ok {
			continue
		}
		own := netip.PrefixFrom(g.Addr, g.Addr.BitLen())
		if _, held, ok := holder(v.Node, g.Addr); ok {
			own = held
		}
		all = cover(all, own.Masked())
	}
	return all
}

// cover returns the smallest prefix that contains both.
func cover(a, b netip.Prefix) netip.Prefix {
	if !a.IsValid() {
		return b
	}
	for bits := min(a.Bits(), b.Bits()); bits > 0; bits-- {
		if p := netip.PrefixFrom(a.Addr(), bits).Masked(); p.Contains(b.Addr()) && a.Addr().Is4() == b.Addr().Is4() {
			return p
		}
	}
	return netip.Prefix{}
}

func (v *view) gidWords(p hcaPort, index int) string {
	if g, ok := gidAt(p.Port, index); ok {
		return fmt.Sprintf("entry %d is the %s entry of %s", index, g.Type, g.Addr)
	}
	return fmt.Sprintf("entry %d is right", index)
}

func gidSeen(p hcaPort, index int) finding.Seen {
	s := finding.Seen{Where: fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/gids/%d", p.hca.Name, p.Num, index),
		What: "empty"}
	if g, ok := gidAt(p.Port, index); ok {
		s.What = strings.TrimSpace(g.Addr.String() + " " + g.Type)
	}
	return s
}

// dynamicSince is the first version of NCCL that chooses the entry on its own.
const dynamicSince = "2.21"

// gidRules returns the rules for the GID of a RoCE port in NCCL. gidVars returns them
// for NCCL or NVSHMEM, which copied the algorithm.
func gidRules() []rule {
	used := func(v *view) bool { return v.gpus() && v.head() }
	plan := func(v *view) gidPlan { return v.gid("NCCL_IB_", v.dynamic()) }
	return gidVars("NCCL_IB_", setting.NCCL, "NCCL src/transport/net_ib/connect.cc", used, plan)
}

func gidVars(prefix, library, source string, used func(*view) bool, plan func(*view) gidPlan) []rule {
	const alone = "takes, on RoCE, the first RoCE v2 entry with an IPv4 address"
	var out []rule
	for _, r := range []rule{
		{name: addrFamily, scope: setting.Job, when: "the rails have IPv6 addresses only", value: "AF_INET6"},
		{name: roceVersNum, scope: setting.Job, when: "the HCAs have RoCE v1 only, and IPv6 addresses", value: "1"},
		{name: addrRange, scope: setting.Node,
			when:  "a port has several addresses, and the first is not in this network namespace or subnet",
			value: "a subnet with all rails"},
		{name: gidIndex, scope: setting.Node,
			when: "nothing else selects the right entry (NCCL before 2.21, or only link-local addresses) and its " +
				"number is the same on all HCAs", value: "that number"},
	} {
		r.name, r.source, r.used, r.alone = prefix+r.name, source, used, alone
		switch {
		case library == setting.NCCL && r.name == "NCCL_IB_"+gidIndex:
			r.alone += " from 2.21, entry 0 before"
		case library == setting.NCCL:
			r.span.since = dynamicSince
		}
		r.want = func(v *view) want {
			g := plan(v)
			switch value, ok := g.set[r.name]; {
			case ok:
				return want{value: value, wrong: library + " " + g.why, because: v.railWords(), seen: g.seen}
			case len(g.set) > 0:
				return right(strings.Join(slices.Sorted(maps.Keys(g.set)), " and ") + " suffices")
			case len(g.seen) > 0:
				const fix = "; no setting helps: give the interfaces of the rails addresses in one subnet, or use a " +
					"newer "
				return right(library + " " + g.why + fix + library)
			}
			return right(g.why)
		}
		out = append(out, r)
	}
	return out
}

// lackGID finds rails of which NCCL would take a wrong entry whatever is set, such as one of another pod.
func lackGID(v *view) finding.Finding {
	rails, entries := v.gidTable()
	g, now := v.gid("NCCL_IB_", v.dynamic()), v.gidNow("NCCL_IB_", v.dynamic())
	if !v.gpus() || v.Mpirun || v.has("NCCL_IB_"+gidIndex) || len(g.set) > 0 || len(g.seen) == 0 {
		return none()
	}
	var good, bad []hcaPort
	used := v.chosen(v.value("NCCL_IB_HCA"))
	for i, p := range rails {
		switch {
		case now.of(p.Port) == entries[i]:
			good = append(good, p)
		case slices.ContainsFunc(used, func(u hcaPort) bool { return u.String() == p.String() }):
			bad = append(bad, p)
		}
	}
	if len(bad) == 0 {
		return none()
	}
	fix := "give the interfaces of the rails addresses in one subnet, which NCCL_IB_ADDR_RANGE can name"
	if len(good) > 0 {
		fix = fmt.Sprintf("export NCCL_IB_HCA==%s   # the %d of %d HCAs of which NCCL takes the right entry\n%s",
			portList(good), len(good), len(rails), fix)
	}
	f := finding.Warnf("NCCL %s; no setting gives all rails the right entry", g.why).
		Breaking("the connections of that rail fail, or their packets are lost").Do("%s", fix)
	f.Seen = g.seen
	return f
}

// dynamic reports whether NCCL chooses the entry on its own.
func (v *view) dynamic() bool { return span{since: dynamicSince}.holds(v.nccl) }
