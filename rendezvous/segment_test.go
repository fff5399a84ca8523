package rendezvous

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Both ends send short segments, although loopback would carry 64 KiB.
func TestSegmentsToAndFromTheStoreAreShort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	node, err := dialShort(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	store, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for who, c := range map[string]net.Conn{"node": node, "store": store} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var info *unix.TCPInfo
		if e := raw.Control(func(fd uintptr) {
			info,
				err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		}); e != nil || err != nil {
			t.Fatal(e, err)
		}
		if info.Snd_mss > segment {
			t.Errorf("the %s sends segments of %d bytes", who, info.Snd_mss)
		}
	}
}
