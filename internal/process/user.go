package process

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// User returns the user of the TCP socket of this network namespace with these ends; with a zero
// remote end, of the one that listens there. False: it is not known.
func User(local, remote netip.AddrPort) (uid int, known bool) {
	local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	if remote.Addr().IsValid() {
		return userOf(local, netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()))
	}
	v4, v6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	remote = netip.AddrPortFrom(v6, 0)
	if local.Addr().Is4() {
		remote = netip.AddrPortFrom(v4, 0)
	}
	if uid, known = userOf(local, remote); !known { // one that listens in both families
		uid, known = userOf(netip.AddrPortFrom(v6, local.Port()), netip.AddrPortFrom(v6, 0))
	}
	return uid, known
}

// userOf asks the kernel for one socket by its ends, of which a listening one's remote end is zero
// (sock_diag(7); include/uapi/linux/inet_diag.h).
func userOf(local, remote netip.AddrPort) (uid int, known bool) {
	answer, err := askKernel(request(local, remote, 0))
	if err != nil || len(answer) < uidAt+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return 0, false
	}
	uid = int(binary.NativeEndian.Uint32(answer[uidAt:]))
	return uid, uid != overflow()
}

// request asks for one socket by its ends, with extensions of the answer.
func request(local, remote netip.AddrPort, extensions byte) []byte {
	family := byte(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	b := binary.NativeEndian.AppendUint32(nil, requestSize)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...)                                              // sequence, port
	b = append(b, family, unix.IPPROTO_TCP, extensions, 0, 0xff, 0xff, 0xff, 0xff) // any state
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, end := range []netip.AddrPort{local, remote} {
		var raw [16]byte
		copy(raw[:], end.Addr().AsSlice())
		b = append(b, raw[:]...)
	}
	b = append(b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any interface, no cookie
	return b
}

// requestSize is a netlink header and an inet_diag_req_v2. uidAt is the place of the user in the answer:
// after the header, four bytes, the 48 of the socket's identity, and three numbers.
const requestSize, uidAt = 16 + 56, 16 + 4 + 48 + 12

// askKernel makes one request.
func askKernel(request []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, answer, 0)
	if k, ok := from.(*unix.SockaddrNetlink); err == nil && (!ok || k.Pid != 0) {
		err = unix.EPERM // not the kernel
	}
	return answer[:max(n, 0)], err
}

// overflow is the user that stands for all whom this user namespace does not have (user_namespaces(7));
// -1: it has all.
var overflow = sync.OnceValue(func() int {
	const all = 1<<32 - 1
	if ids, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		if f := strings.Fields(string(ids)); len(f) == 3 && f[2] == strconv.Itoa(all) {
			return -1
		}
	}
	b, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	uid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 65534
	}
	return uid
})
