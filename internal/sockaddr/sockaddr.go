// Package sockaddr converts an address and a port between net/netip and the calls of sockets.
package sockaddr

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Family returns the family of the sockets for an address: AF_INET also for an IPv4-mapped one.
func Family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Of returns what bind(2) and connect(2) take, for a socket of the address's Family.
func Of(a netip.AddrPort) unix.Sockaddr {
	if at := a.Addr().Unmap(); at.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: at.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr().Zone())}
}

// From returns the address and port of what getsockname(2) gives, without a zone; zero: it is of another family.
func From(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr), uint16(s.Port))
	}
	return netip.AddrPort{}
}

// zone returns the number of the interface that a zone names, or is the number of; 0: there is no such interface.
func zone(of string) uint32 {
	n, err := strconv.Atoi(of)
	i, bad := net.InterfaceByIndex(n)
	if err != nil {
		i, bad = net.InterfaceByName(of)
	}
	if bad != nil {
		return 0
	}
	return uint32(i.Index)
}
