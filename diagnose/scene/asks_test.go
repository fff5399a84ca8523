package scene

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
)

// A resolver waits on a UDP socket that is connected to its name server.
func TestWhomAUDPSocketAsks(t *testing.T) {
	l, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := l.LocalAddr().(*net.UDPAddr).AddrPort()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for conn, want := range map[*net.UDPConn]netip.AddrPort{c: server, l: {}} {
		f, err := conn.File()
		if err != nil {
			t.Fatal(err)
		}
		link, _ := os.Readlink(procPath(os.Getpid(), "fd/"+strconv.Itoa(int(f.Fd()))))
		f.Close()
		if got := datagrams(os.Getpid(), inodeOf(link, "socket")); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
