package scene

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// states are the names of TCP's states (include/net/tcp_states.h).
var states = []string{"", "established", "syn-sent", "syn-recv", "fin-wait-1", "fin-wait-2", "time-wait", "close",
	"close-wait", "last-ack", "listen", "closing", "syn-recv"}

// States of sockets that need a number.
const (
	stateSynSent  = "syn-sent"
	stateListen   = "listen"
	stateTimeWait = "time-wait"
)

// The layout of a request and an answer of sock_diag(7) (include/uapi/linux/inet_diag.h).
const (
	diagRequest = 16 + 56
	diagMessage = 72 // struct inet_diag_msg
	diagInfo    = 2  // INET_DIAG_INFO
	anyState    = 0xfff &^ (1 << 6)
)

// diagLimit is how long one read of the kernel's answer may take.
const diagLimit = 2 * time.Second

// diagSocket opens a socket for sock_diag in a network namespace; an empty path is our own.
func diagSocket(ns string) (fd int, err error) {
	err = inNet(ns, func() error {
		fd, err = newDiagSocket()
		return err
	})
	return fd, err
}

// inNet calls f in a network namespace; an empty path is our own. A socket remains in the namespace in which it was
// opened, so only one thread goes there, and ends there.
func inNet(ns string, f func() error) (err error) {
	if ns == "" {
		return f()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		at, e := openFile(ns, unix.O_RDONLY)
		if e != nil {
			err = e
			return
		}
		defer unix.Close(at)
		if err = unix.Setns(at, unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	}()
	<-done
	return err
}

func newDiagSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20)
	limit := unix.NsecToTimeval(int64(diagLimit))
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
}

// dump calls each for all TCP sockets of a namespace but those in TIME-WAIT, which belong to no process.
func dump(ns string, each func(Socket)) error {
	fd, err := diagSocket(ns)
	if err != nil {
		return fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	defer unix.Close(fd)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := dumpFamily(fd, family, each); err != nil {
			return fmt.Errorf("ask the kernel for sockets: %w", err)
		}
	}
	return nil
}

func dumpFamily(fd int, family byte, each func(Socket)) error {
	b := append(diagHead(diagRequest), family, unix.IPPROTO_TCP, 1<<(diagInfo-1), 0)
	b = binary.NativeEndian.AppendUint32(b, anyState)
	b = append(b, make([]byte, 48)...)
	return exchange(fd, b, func(body []byte) {
		if s, ok := parseSocket(body); ok {
			each(s)
		}
	})
}

// diagHead is the head of a request of a size (struct nlmsghdr).
func diagHead(size uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, size)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	return append(b, make([]byte, 8)...) // sequence, port
}

// exchange sends a request to the kernel, and calls each for the parts of the answer.
func exchange(fd int, b []byte, each func(body []byte)) error {
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not the kernel
		}
		if done, err := parseDump(buf[:n], each); done || err != nil {
			return err
		}
	}
}

// parseDump parses a part of the kernel's answer; done: it was the last.
func parseDump(b []byte, each func(body []byte)) (done bool, err error) {
	const header = 16
	for len(b) >= header {
		size := int(binary.NativeEndian.Uint32(b))
		if size < header || size > len(b) {
			return true, errors.New("parse sockets: a message of an impossible size")
		}
		body := b[header:size]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) >= 4 {
				if errno := -int32(binary.NativeEndian.Uint32(body)); errno > 0 {
					return true, syscall.Errno(errno)
				}
			}
			return true, nil
		case unix.SOCK_DIAG_BY_FAMILY:
			each(body)
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return false, nil
}

// parseSocket parses a struct inet_diag_msg and its attributes.
func parseSocket(b []byte) (Socket, bool) {
	if len(b) < diagMessage {
		return Socket{}, false
	}
	s := Socket{State: stateName(int(b[1])), RecvQ: binary.NativeEndian.Uint32(b[56:]),
		SendQ: binary.NativeEndian.Uint32(b[60:]), User: int(binary.NativeEndian.Uint32(b[64:])),
		Inode: uint64(binary.NativeEndian.Uint32(b[68:]))}
	s.Local = diagEnd(b[0], b[8:24], b[4:])
	s.Remote = diagEnd(b[0], b[24:40], b[6:])
	attributes(b[diagMessage:], func(kind uint16, value []byte) {
		if kind == diagInfo && s.State != stateListen {
			s.Info = parseInfo(value, s.State)
		}
	})
	return s, true
}

// attributes calls each for the attributes of a part of an answer (struct nlattr).
func attributes(b []byte, each func(kind uint16, value []byte)) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		each(binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED, b[4:size])
		b = b[min(len(b), (size+3)&^3):]
	}
}

func stateName(n int) string {
	if n <= 0 || n >= len(states) {
		return ""
	}
	return states[n]
}

// diagEnd returns one end of a socket. IPv4 in IPv6 is shown as IPv4.
func diagEnd(family byte, addr, port []byte) netip.AddrPort {
	p := binary.BigEndian.Uint16(port)
	if family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr)), p)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(addr)).Unmap(), p)
}

// parseInfo parses a struct tcp_info (include/uapi/linux/tcp.h), which grows from kernel to kernel. Before a
// connection exists its ages are counted from the start of the machine, and are left out.
func parseInfo(b []byte, state string) *Info {
	const base = 104 // what all kernels have
	if len(b) < base {
		return nil
	}
	u32 := func(at int) uint32 {
		if at+4 > len(b) {
			return 0
		}
		return binary.NativeEndian.Uint32(b[at:])
	}
	u64 := func(at int) uint64 {
		if at+8 > len(b) {
			return 0
		}
		return binary.NativeEndian.Uint64(b[at:])
	}
	i := &Info{Retransmits: b[2], Backoff: b[4], Unacked: u32(24), Retrans: u32(100), Acked: u64(120),
		Received: u64(128), Segments: u32(140), Sent: u64(200),
		Unsent: u32(144), Full: time.Duration(u64(176)) * time.Microsecond, Again: u64(208),
		Window: u32(228)} // from Linux 5.4 on
	if state != stateSynSent {
		i.LastSent = time.Duration(u32(44)) * time.Millisecond
		i.LastRecv = time.Duration(u32(52)) * time.Millisecond
	}
	return i
}
