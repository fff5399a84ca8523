package process

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Connection is what the kernel knows of a TCP connection that is established.
type Connection struct {
	Local, Remote netip.AddrPort

	Unread uint32 // bytes that arrived in order, and that the process has not read
	Held   uint32 // memory of all that arrived, also of what arrived out of order; 0 where the kernel does not say

	MSS         uint32 // the longest segment that is sent
	Retransmits uint8  // of what is sent now, without an answer
	Sent        uint64 // bytes, without those sent again
	Acked       uint64 // bytes that were acknowledged; it counts the SYN
	Received    uint64 // bytes, in order
}

// Everywhere is the length of a segment that all paths take, in bytes (RFC 879).
const Everywhere = 536

// Gap reports whether data waits for a segment before it that has not arrived.
func (c Connection) Gap() bool { return c.Unread == 0 && c.Held > 0 }

// Unanswered returns the bytes that were sent and not acknowledged; 0 also where the kernel does not say.
func (c Connection) Unanswered() uint64 {
	acked := max(c.Acked, 1) - 1
	return max(c.Sent, acked) - acked
}

// Connections returns the connections of a process of this network namespace. It reads the table of all sockets, which
// takes some milliseconds where the kernel's is large.
func Connections(pid int) (out []Connection) {
	dir := "/proc/" + strconv.Itoa(pid)
	own := map[string]bool{}
	files, _ := os.ReadDir(dir + "/fd")
	for _, f := range files {
		to, _ := os.Readlink(dir + "/fd/" + f.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	if len(own) == 0 {
		return nil
	}
	_ = sockets(os.DirFS(dir), tcpEstablished, func(s socket) bool {
		if own[s.inode] {
			if c, ok := (Connection{Local: s.local, Remote: s.remote}).Again(); ok {
				out = append(out, c)
			}
		}
		return true
	})
	return out
}

// Again asks the kernel for a connection, by its ends; false: it is not there, or ends.
func (c Connection) Again() (now Connection, ok bool) {
	extensions := byte(1<<(infoExtension-1) | 1<<(memoryExtension-1))
	err := askKernel(question(0, anyState, extensions, c.Local, c.Remote), func(answer []byte) bool {
		if len(answer) >= attributes && answer[stateAt] == established {
			now = Connection{Local: c.Local, Remote: c.Remote, Unread: binary.NativeEndian.Uint32(answer[queueAt:])}
			ok = now.extended(answer[attributes:])
		}
		return false
	})
	return now, ok && err == nil
}

// extended reads the extensions of an answer.
func (c *Connection) extended(b []byte) (ok bool) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		switch body := b[4:size]; binary.NativeEndian.Uint16(b[2:]) &^ unix.NLA_F_NESTED {
		case infoExtension: // it grows from kernel to kernel
			ok = c.info(body)
		case memoryExtension: // sk_meminfo: the first is the memory of what was received
			if len(body) >= 4 {
				c.Held = binary.NativeEndian.Uint32(body)
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return ok
}

// info reads a struct tcp_info (include/uapi/linux/tcp.h).
func (c *Connection) info(b []byte) bool {
	const sent, again = 200, 208 // from Linux 4.19 on
	if len(b) < again+8 {
		return false
	}
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	c.Retransmits, c.MSS = b[2], binary.NativeEndian.Uint32(b[16:])
	c.Acked, c.Received, c.Sent = u64(120), u64(128), u64(sent)-u64(again)
	return true
}
