package sidechannel

import (
	"encoding/binary"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// TCPInfo returns what the kernel knows about a connection; zero if it is unknown.
func TCPInfo(c *net.TCPConn) (info unix.TCPInfo) {
	raw, err := c.SyscallConn()
	if err != nil {
		return info
	}
	_ = raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
			info = *i
		}
	})
	return info
}

// setNoPort has connect choose the port: bind would search for one that is free towards every
// address, which takes long if thousands are in use (ip(7), IP_BIND_ADDRESS_NO_PORT).
func setNoPort(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) })
}

// setDevice is setNoPort, and binds the socket to an interface. Linux before 5.7 lets only root do that.
func setDevice(name string) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		_ = c.Control(func(fd uintptr) { _ = unix.BindToDevice(int(fd), name) })
		return setNoPort("", "", c)
	}
}

// setSounding forbids fragments, and requests what routers report by ICMP.
func setSounding(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		dontFragment(int(fd))
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVERR, 1)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
	})
}

// tooBig empties the kernel's queue of a socket's failed datagrams. It returns the least MTU that
// this node's own interface and routers on the path reported; 0: none (ip(7), IP_RECVERR).
func tooBig(c *net.UDPConn) (here, reported int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0
	}
	body, oob := make([]byte, 1), make([]byte, 256)
	_ = raw.Control(func(fd uintptr) {
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), body, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			h, t := extended(oob[:n])
			here, reported = least(here, h), least(reported, t)
		}
	})
	return here, reported
}

// extended reads a struct sock_extended_err.
func extended(oob []byte) (here, reported int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, 0
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if !v4 && !v6 || len(m.Data) < 16 {
			continue
		}
		errno, origin, mtu := binary.NativeEndian.Uint32(m.Data), m.Data[4], int(binary.NativeEndian.Uint32(m.Data[8:]))
		if unix.Errno(errno) != unix.EMSGSIZE {
			continue
		}
		switch origin {
		case unix.SO_EE_ORIGIN_LOCAL:
			here = least(here, mtu)
		case unix.SO_EE_ORIGIN_ICMP, unix.SO_EE_ORIGIN_ICMP6:
			reported = least(reported, mtu)
		}
	}
	return here, reported
}

// least returns the lesser of two sizes; 0 is an unknown size.
func least(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
