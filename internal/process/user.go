package process

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
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

// userOf asks the kernel for one socket by its ends, of which a listening one's remote end is zero.
func userOf(local, remote netip.AddrPort) (uid int, known bool) {
	err := askKernel(question(0, anyState, 0, local, remote), func(answer []byte) bool {
		if len(answer) >= uidAt+4 {
			uid, known = int(binary.NativeEndian.Uint32(answer[uidAt:])), true
		}
		return false
	})
	return uid, err == nil && known && uid != overflow()
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
