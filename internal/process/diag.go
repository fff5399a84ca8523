package process

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The layout of a request and of an answer of sock_diag(7) (include/uapi/linux/inet_diag.h): a request is a
// struct inet_diag_req_v2, an answer a struct inet_diag_msg. Both follow a netlink header.
const (
	diagHeader  = 16
	diagRequest = diagHeader + 56
	stateAt     = diagHeader + 1
	portAt      = diagHeader + 4
	addrAt      = portAt + 4
	queueAt     = diagHeader + 4 + 48 + 4 // after the socket's identity and a number
	uidAt       = queueAt + 8
	attributes  = uidAt + 8 // where the extensions begin

	anyState    = 1<<32 - 1
	listenState = 1 << 10 // TCP_LISTEN
	established = 1       // TCP_ESTABLISHED

	infoExtension, memoryExtension = 2, 7
)

// question returns a request for the TCP sockets with these ends; with unix.NLM_F_DUMP, for all in these states.
// Extensions are what an answer has besides, a bit each.
func question(flags uint16, states uint32, extensions byte, local, remote netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	b := binary.NativeEndian.AppendUint32(nil, diagRequest)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(b, make([]byte, 8)...) // sequence, port
	b = append(b, family, unix.IPPROTO_TCP, extensions, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, end := range []netip.AddrPort{local, remote} {
		var raw [16]byte
		copy(raw[:], end.Addr().AsSlice())
		b = append(b, raw[:]...)
	}
	return append(b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any interface, no cookie
}

// listeners calls each for the address of each TCP socket of this network namespace that listens.
func listeners(each func(at netip.AddrPort)) error {
	for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		size, end := any.BitLen()/8, netip.AddrPortFrom(any, 0)
		err := askKernel(question(unix.NLM_F_DUMP, listenState, 0, end, end), func(answer []byte) bool {
			if len(answer) >= addrAt+size {
				a, _ := netip.AddrFromSlice(answer[addrAt : addrAt+size])
				each(netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(answer[portAt:])))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askKernel makes one request, and calls more for each socket of the answer until it returns false.
func askKernel(request []byte, more func(answer []byte) bool) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for buf := make([]byte, 32<<10); ; {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return err
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			return unix.EPERM // not the kernel
		}
		if on, err := read(buf[:n], more); !on || err != nil {
			return err
		}
	}
}

// read calls more for each socket in a part of an answer; false: it was the last part.
func read(b []byte, more func(answer []byte) bool) (bool, error) {
	for len(b) >= diagHeader {
		size := int(binary.NativeEndian.Uint32(b))
		if size < diagHeader || size > len(b) {
			return false, errors.New("a message of the kernel has an impossible size")
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return false, nil
		case unix.NLMSG_ERROR:
			if size >= diagHeader+4 {
				return false, os.NewSyscallError("sock_diag", unix.Errno(-int32(binary.NativeEndian.Uint32(b[diagHeader:]))))
			}
			return false, unix.EIO
		case unix.SOCK_DIAG_BY_FAMILY:
			if !more(b[:size]) {
				return false, nil
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return true, nil
}
