package process

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

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

// Table is the table of all established connections of this network namespace. To read it takes some milliseconds
// where the kernel's is large: callers that ask for many processes share one. The zero Table is ready for use.
type Table struct {
	mu   sync.Mutex
	read time.Time
	all  map[string]socket // by inode
}

// tableAge is how old a table may be: a connection that is not in it yet is asked for again.
const tableAge = 500 * time.Millisecond

// Connections returns the connections of a process.
func (t *Table) Connections(pid int) (out []Connection) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		to, _ := os.Readlink(dir + f.Name())
		inode, is := strings.CutPrefix(to, "socket:[")
		if !is {
			continue
		}
		if s, ok := t.at(strings.TrimSuffix(inode, "]")); ok {
			if c, ok := (Connection{Local: s.local, Remote: s.remote}).Again(); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// at returns the established connection that has an inode.
func (t *Table) at(inode string) (s socket, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.read) > tableAge {
		t.all = map[string]socket{}
		_ = sockets(os.DirFS("/proc/self"), tcpEstablished, func(s socket) bool {
			t.all[s.inode] = s
			return true
		})
		t.read = time.Now()
	}
	s, ok = t.all[inode]
	return s, ok
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
