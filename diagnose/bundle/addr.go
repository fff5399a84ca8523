package bundle

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// plain reports whether every machine may have the address.
func plain(a netip.Addr) bool {
	return !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() ||
		a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// addr replaces an address. Its zone is a text, and an IPv4 address within IPv6 remains one.
func (m *Masker) addr(a netip.Addr) netip.Addr {
	bare := a.Unmap().WithZone("")
	if plain(bare) {
		return a
	}
	zone := m.text(a.Zone())
	to, known := m.addrs[bare]
	switch {
	case m.collects:
		m.addrs[bare] = netip.Addr{}
		return a
	case !known:
		to = m.freshAddr(bare)
		m.addrs[bare] = to
	}
	if a.Is4In6() {
		to = netip.AddrFrom16(to.As16())
	}
	if zone != "" && to.Is6() {
		to = to.WithZone(zone)
	}
	return to
}

// block is a class of addresses, and where their replacements begin.
type block struct {
	of, to string
}

// blocks are the classes. A judge knows docker0's network and link-local addresses by theirs.
var blocks = []block{
	{"10.0.0.0/8", "10.0.0.0"}, {"172.17.0.0/16", "172.17.0.0"}, {"172.16.0.0/12", "172.18.0.0"},
	{"192.168.0.0/16", "192.168.0.0"}, {"100.64.0.0/10", "100.64.0.0"}, {"169.254.0.0/16", "169.254.0.0"},
	{"0.0.0.0/0", "198.18.0.0"}, // for benchmarks, RFC 2544
	{"fe80::/10", "fe80::"}, {"fc00::/7", "fd00::"}, {"::/0", "2001:db8::"},
}

// last is where replacements come from once those of a block are used up.
const last = "240.0.0.0"

// freshAddr returns the next replacement within the class of an address.
func (m *Masker) freshAddr(a netip.Addr) netip.Addr {
	var b block
	for _, b = range blocks {
		if netip.MustParsePrefix(b.of).Contains(a) {
			break
		}
	}
	for {
		m.used[b.to]++
		n := uint32(m.used[b.to])
		if b.to != last && n > 0xfffe && a.Is4() { // the smallest classes have so many
			b.to = last
			continue
		}
		to := plus(netip.MustParseAddr(b.to), n)
		if _, original := m.addrs[to]; !original {
			return to
		}
	}
}

// plus returns the address that many after a.
func plus(a netip.Addr, n uint32) netip.Addr {
	b := a.AsSlice()
	end := b[len(b)-4:]
	binary.BigEndian.PutUint32(end, binary.BigEndian.Uint32(end)+n)
	out, _ := netip.AddrFromSlice(b)
	return out
}

// id replaces a UUID or a MAC address.
func (m *Masker) id(text string) string {
	key := strings.ToLower(text)
	if _, known := m.ids[key]; m.collects {
		m.ids[key] = ""
		return text
	} else if !known {
		m.ids[key] = m.freshID(key)
	}
	return m.ids[key]
}

func (m *Masker) freshID(key string) string {
	for {
		out := ""
		switch m.used["id"]++; {
		case macRE.MatchString(key):
			n := m.used["id"]
			out = "02:00:00:00" + fmt.Sprintf(":%02x:%02x", n>>8&0xff, n&0xff)
		case uuidRE.MatchString(key):
			out = fmt.Sprintf("00000000-0000-4000-8000-%012x", m.used["id"])
		default:
			out = fmt.Sprintf("boot-%d", m.used["id"])
		}
		if _, original := m.ids[out]; !original || m.used["id"] > 1<<16 {
			return out
		}
	}
}
