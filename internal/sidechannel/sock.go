package sidechannel

import (
	"encoding/binary"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// TCPInfo is what the kernel knows of a connection; zero where it does not say.
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

// setNoPort leaves the choice of the port to connect: bind would look for one that
// is free towards everybody, which takes long where thousands are in use (ip(7),
// IP_BIND_ADDRESS_NO_PORT).
func setNoPort(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) })
}

// setSounding forbids fragments and keeps what routers say by ICMP.
func setSounding(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		dontFragment(int(fd))
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVERR, 1)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
	})
}

// tooBig reads away what the kernel keeps of a socket's failed datagrams: the
// least MTU that it was told by this node's own interface and by routers on the
// way; 0: none (ip(7), IP_RECVERR).
func tooBig(c *net.UDPConn) (here, told int) {
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
			here, told = least(here, h), least(told, t)
		}
	})
	return here, told
}

// extended reads a struct sock_extended_err.
func extended(oob []byte) (here, told int) {
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
			told = least(told, mtu)
		}
	}
	return here, told
}

// least is the lesser of two sizes of which 0 says nothing.
func least(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
