package scene

import (
	"bytes"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
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

// feeds reports whether a descriptor of a process is of a pipe that another process may read.
func feeds(pid, fd, reader int) bool {
	link, _ := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(fd)))
	if inodeOf(link, "pipe") == 0 {
		return false
	}
	fds, _ := list(procPath(reader, "fd"))
	for _, fd := range fds[:min(len(fds), maxFDs)] {
		name := strconv.Itoa(fd)
		if other, _ := os.Readlink(procPath(reader, "fd/"+name)); other != link {
			continue
		}
		info, _ := readFile(procPath(reader, "fdinfo/"+name))
		if flagsOf(info)&unix.O_ACCMODE != unix.O_WRONLY {
			return true
		}
	}
	return false
}

// flagsOf returns the flags with which a file was opened, from /proc/PID/fdinfo: an octal number.
func flagsOf(info []byte) int64 {
	flags, _ := strconv.ParseInt(strconv.FormatInt(field(info, "flags"), 10), 8, 64)
	return flags
}
