package scene

import (
	"bytes"
	"net/netip"
	"strconv"
)

// datagrams returns the other end of a connected UDP socket; the zero value: it is no such socket.
func datagrams(pid int, inode uint64) (out netip.AddrPort) {
	for _, name := range []string{"net/udp", "net/udp6"} {
		text, _ := readFile(procPath(pid, name))
		_ = parseTable(bytes.NewReader(text), func(k Socket) {
			if k.Inode == inode && k.Remote.Port() != 0 {
				out = netip.AddrPortFrom(k.Remote.Addr().Unmap(), k.Remote.Port())
			}
		})
	}
	return out
}

// flagsOf returns the flags with which a file was opened, from /proc/PID/fdinfo: an octal number.
func flagsOf(info []byte) int64 {
	flags, _ := strconv.ParseInt(strconv.FormatInt(field(info, "flags"), 10), 8, 64)
	return flags
}
