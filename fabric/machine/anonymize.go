package machine

import (
	"crypto/sha256"
	"net/netip"
)

// anonymizer replaces addresses. Two that share exactly their first n bits still do so
// afterwards (Xu, Fan, Ammar and Moon, "Prefix-preserving IP address anonymization",
// ICNP 2002): networks stay networks, and routes stay routes.
type anonymizer struct {
	key []byte
}

// addr replaces an address within its block of special meaning (private, link-local, an
// IPv4 /8, an IPv6 /16).
func (z anonymizer) addr(a netip.Addr) netip.Addr {
	is4in6 := a.Is4In6()
	a = a.Unmap().WithZone("")
	if plain(a) {
		return remap(a, is4in6)
	}
	b := a.AsSlice()
	for i := kept(a); i < len(b)*8; i++ {
		b[i/8] ^= z.bit(a.AsSlice(), i) << (7 - i%8)
	}
	out, _ := netip.AddrFromSlice(b) // in its original length
	return remap(out, is4in6)
}

// plain reports whether every machine may have the address.
func plain(a netip.Addr) bool {
	return a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.Is4() && a.IsLinkLocalUnicast()
}

// bit reports whether bit i flips, which depends only on the bits before it.
func (z anonymizer) bit(original []byte, i int) byte {
	prefix := make([]byte, len(original))
	copy(prefix, original[:i/8])
	if i%8 > 0 {
		prefix[i/8] = original[i/8] &^ (0xff >> (i % 8))
	}
	sum := sha256.Sum256(append(append([]byte{byte(i), byte(len(original))}, z.key...), prefix...))
	return sum[0] & 1
}

// kept returns how many of the first bits stay: enough to distinguish a special block
// from the rest, so that an address next to a block never moves into it.
func kept(a netip.Addr) int {
	if a.Is6() {
		if a.IsLinkLocalUnicast() {
			return 64
		}
		return 16
	}
	for _, block := range []string{"172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"} {
		if p := netip.MustParsePrefix(block); p.Addr().As4()[0] == a.As4()[0] {
			return p.Bits()
		}
	}
	return 8
}

func remap(a netip.Addr, is4in6 bool) netip.Addr {
	if is4in6 {
		return netip.AddrFrom16(a.As16())
	}
	return a
}
