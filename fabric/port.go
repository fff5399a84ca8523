package fabric

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

// pkeyGap unset entries end the table of partition keys: subnet managers fill it from
// its start, and reading one of its 128 entries is a command to the firmware.
const pkeyGap = 4

func readPort(d *dir, n int) Port {
	at := path.Join("ports", strconv.Itoa(n))
	p := Port{
		Num: n, State: d.number(path.Join(at, "state"), 0),
		PhysState: d.number(path.Join(at, "phys_state"), 0), LinkLayer: d.line(path.Join(at, "link_layer")),
		LID: d.number(path.Join(at, "lid"), 0), SMLID: d.number(path.Join(at, "sm_lid"), 0),
	}
	if s := d.line(path.Join(at, "rate")); s != "" {
		rate, err := leadingRate(s)
		if err != nil {
			d.blame(path.Join(at, "rate"), err)
		}
		p.Rate, p.Lanes = rate, rateLanes(s)
	}
	p.PKeys = pkeys(d, path.Join(at, "pkeys"))
	p.GIDs = gids(d, at)
	return p
}

// pkeys returns the partition keys that are set. Bit 15 is the membership, so 0x0000
// and 0x8000 are unset.
func pkeys(d *dir, table string) []PKey {
	var out []PKey
	unset := 0
	for _, entry := range byNumber(d.names(table)) {
		index, err := strconv.Atoi(entry)
		if err != nil || index < 0 {
			continue
		}
		s := d.line(path.Join(table, entry))
		if k, err := strconv.ParseUint(s, 0, 16); err == nil && k&0x7fff != 0 {
			out, unset = append(out, PKey{Index: index, Key: s}), 0
		} else if unset++; unset == pkeyGap {
			break
		}
	}
	return out
}

// gids reads a port's GID table. The kernel keeps it in memory, so its up to 256 entries cost
// little. Type and netdev are not read for an unset entry: they are errors (EINVAL).
func gids(d *dir, port string) []GID {
	var out []GID
	table := path.Join(port, "gids")
	for _, entry := range byNumber(d.names(table)) {
		index, err := strconv.Atoi(entry)
		if err != nil || index < 0 {
			continue
		}
		s := d.line(path.Join(table, entry))
		if s == "" {
			continue
		}
		addr, set, err := parseGID(s)
		if err != nil {
			d.blame(path.Join(table, entry), err)
		}
		if !set {
			continue
		}
		out = append(out, GID{
			Index: index, Addr: addr, Type: d.line(path.Join(port, "gid_attrs/types", entry)),
			Netdev: d.line(path.Join(port, "gid_attrs/ndevs", entry)),
		})
	}
	return out
}

// parseGID reads eight groups of hexadecimal digits. An IPv4 address is unmapped. An
// unset entry is all zeros, or only the prefix of link-local addresses.
func parseGID(s string) (addr netip.Addr, set bool, err error) {
	addr, err = netip.ParseAddr(s)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return netip.Addr{}, false, fmt.Errorf("%q is not a GID", s)
	}
	b := addr.As16()
	if [8]byte(b[8:]) == [8]byte{} && (b[0] == 0 || b[0] == 0xfe) {
		return netip.Addr{}, false, nil
	}
	return addr.Unmap(), true, nil
}

// byNumber sorts names that are numbers by value.
func byNumber(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // no leading zeros
	})
	return names
}
