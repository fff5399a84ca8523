package tcpstore

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// Sizes in the values of keys.
const (
	sockaddrStorage = 128 // struct sockaddr_storage
	oldBlob         = 136 // torch 1.13: the address and a number of the pair
	uniqueID        = 128 // ncclUniqueId
	maxHost         = 255
)

// decodeBlob decodes the address of a rank for Gloo: u64 length and name of its host, u64 136, sockaddr_storage,
// i64 sequence number, and one u64 for each rank of the group, which is missing with TORCH_GLOO_LAZY_INIT=1.
// torch 1.13 writes the middle alone, once for each other rank, with a port of its own.
func decodeBlob(v []byte) (b Blob, ok bool) {
	if len(v) > 0 && len(v)%oldBlob == 0 {
		return decodeOldBlob(v)
	}
	if len(v) < 8 {
		return b, false
	}
	n := binary.LittleEndian.Uint64(v)
	if n > maxHost || uint64(len(v)) < 8+n+8+oldBlob {
		return b, false
	}
	b.Host = clean(string(v[8 : 8+n]))
	v = v[8+n:]
	rest := len(v) - 8 - oldBlob
	if binary.LittleEndian.Uint64(v) != oldBlob || rest%8 != 0 {
		return b, false
	}
	b.World = rest / 8
	b.Addr, ok = sockaddr(v[8 : 8+sockaddrStorage])
	return b, ok
}

// decodeOldBlob decodes the addresses of a rank for Gloo as torch 1.13 writes them.
func decodeOldBlob(v []byte) (b Blob, ok bool) {
	b.World = len(v)/oldBlob + 1
	for ; len(v) > 0; v = v[oldBlob:] {
		addr, ok := sockaddr(v[:sockaddrStorage])
		switch {
		case !ok:
			return Blob{}, false
		case !b.Addr.IsValid():
			b.Addr = addr
		default:
			b.Ports = append(b.Ports, addr.Port())
		}
	}
	return b, true
}

// decodeID decodes the address in an ncclUniqueId: u64 magic, then sockaddr_in or sockaddr_in6.
func decodeID(v []byte) (netip.AddrPort, bool) {
	if len(v) != uniqueID {
		return netip.AddrPort{}, false
	}
	return sockaddr(v[8:])
}

// sockaddr decodes a struct sockaddr_in or sockaddr_in6 of Linux: the family in the byte order of the host, here
// little-endian, the port in that of the network. v has at least 28 bytes.
func sockaddr(v []byte) (netip.AddrPort, bool) {
	port := binary.BigEndian.Uint16(v[2:])
	switch binary.LittleEndian.Uint16(v) {
	case 2: // AF_INET
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(v[4:8])), port), true
	case 10: // AF_INET6
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[8:24])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// decodeAgent decodes role_info.
func decodeAgent(v []byte) (Agent, bool) {
	var a struct {
		Role  string `json:"role"`
		Local int    `json:"local_world_size"`
	}
	err := json.Unmarshal(v, &a)
	return Agent{Role: clean(a.Role), Local: a.Local}, err == nil && a.Local >= 0
}

// decodeShare decodes assigned_ranks: first rank, WORLD_SIZE, and the same two within a role.
func decodeShare(v []byte) (Share, bool) {
	var a []int
	if err := json.Unmarshal(v, &a); err != nil || len(a) < 2 || a[0] < 0 || a[1] < 0 {
		return Share{}, false
	}
	return Share{Base: a[0], World: a[1]}, true
}

// clean replaces what a terminal does not print: anybody can write to a store.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// decodeCount decodes what ADD has counted, as decimal text.
func decodeCount(v []byte) (int, bool) {
	n, err := strconv.ParseInt(string(v), 10, 32)
	return int(n), err == nil && n >= 0
}
