package envgen

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
)

// The number of names that NCCL reads of a list: MAX_IFS (src/include/socket.h) and
// MAX_IB_DEVS (src/transport/net_ib).
const (
	maxIfs = 16
	maxIBs = 32
)

// filter is NCCL's notation for a set of devices, as in NCCL_SOCKET_IFNAME and NCCL_IB_HCA: an optional
// ^ (all but these), an optional = (whole names instead of prefixes), then names separated by commas,
// each with an optional port (src/misc/utils.cc parseStringList, src/os/linux.cc ncclOsFindInterfaces).
type filter struct {
	not, exact bool
	items      []filterItem
}

type filterItem struct {
	name string
	port int // -1: any
}

// parseFilter parses a filter. Like NCCL it never fails: any text is a list of names.
func parseFilter(s string, limit int) filter {
	var f filter
	s, f.not = strings.CutPrefix(s, "^")
	s, f.exact = strings.CutPrefix(s, "=")
	// The list parser drops one more mark, so "==eth0" still means eth0.
	if s != "" && (s[0] == '^' || s[0] == '=') {
		s = s[1:]
	}
	for word := range strings.SplitSeq(s, ",") {
		name, port, hasPort := strings.Cut(word, ":")
		if name == "" || len(f.items) == limit {
			continue
		}
		item := filterItem{name, -1}
		if hasPort {
			item.port = leadingInt(port, 10)
		}
		f.items = append(f.items, item)
	}
	return f
}

// match reports whether the filter selects a device; port is -1 for an interface.
func (f filter) match(name string, port int) bool { return f.listed(name, port) != f.not }

func (f filter) listed(name string, port int) bool {
	if len(f.items) == 0 { // NCCL: no list, no restriction
		return true
	}
	for _, it := range f.items {
		named := strings.HasPrefix(name, it.name)
		if f.exact {
			named = name == it.name
		}
		if named && (port == -1 || it.port == -1 || port == it.port) {
			return true
		}
	}
	return false
}

// usable reports whether an interface has an address of a family that NCCL takes.
func usable(i fabric.Interface, v4 bool) bool {
	return slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool {
		return p.Addr().Is4() == v4 && !(p.Addr().Is6() && p.Addr().IsLoopback())
	})
}

// interfaces returns the RUNNING ones with an address that the filter selects, in the order of NCCL:
// getifaddrs lists the IPv4 addresses of all interfaces by index, then the IPv6 addresses.
// family is NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, or another text for both.
func (f filter) interfaces(all []fabric.Interface, family string) []fabric.Interface {
	var out []fabric.Interface
	seen := map[string]bool{}
	for _, v4 := range []bool{true, false} {
		if family == "AF_INET" && !v4 || family == "AF_INET6" && v4 {
			continue
		}
		for _, i := range all {
			if !seen[i.Name] && i.Running && usable(i, v4) && f.match(i.Name, -1) {
				seen[i.Name] = true
				out = append(out, i)
			}
		}
	}
	return out[:min(len(out), maxIfs)]
}

var (
	decimal = regexp.MustCompile(`^[\s\v]*([-+]?[0-9]+)`)
	cNumber = regexp.MustCompile(`^[\s\v]*([-+]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*))`)
)

// leadingInt parses a number as C does (strtoll, atoi): blanks, a sign, then digits; 0 without
// digits. Base 0 takes the base from a leading 0x or 0. So "true" is 0, and "1,2" is 1.
func leadingInt(s string, base int) int {
	form := decimal
	if base == 0 {
		form = cNumber
	}
	m := form.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], base, 64) // out of range: the nearest, as strtoll
	return int(n)
}
