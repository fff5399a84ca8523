package process

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	idle = " 00000000:00000000 00:00000000 00000000     0        0 " // queues, timers, user
	tcp4 = head +
		"   0: 00000000:733C 00000000:0000 0A" + idle + "4242 1 0000000000000000 100 0 0 10 0\n" +
		"   1: 0100007F:C350 0100007F:733D 01" + idle + "4243 1 0000000000000000 20 4 30 10 -1\n" +
		"   2: 0100007F:733D 0100007F:C350 01" + idle + "4244 1 0000000000000000 20 4 30 10 -1\n"
	tcp6 = head +
		"   0: 00000000000000000000000000000000:733E 00000000000000000000000000000000:0000 0A" +
		idle + "4245 1 0000000000000000 100 0 0 10 0\n"
)

func TestListedReadsBothFamilies(t *testing.T) {
	both := fstest.MapFS{"net/tcp": {Data: []byte(tcp4)}, "net/tcp6": {Data: []byte(tcp6)}}
	only4 := fstest.MapFS{"net/tcp": {Data: []byte(tcp4)}}
	for _, tc := range []struct {
		name string
		proc fs.FS
		port int
		want bool
	}{
		{"IPv4", both, 0x733c, true},
		{"IPv6", both, 0x733e, true},
		{"connected, not listening", both, 0x733d, false},
		{"no process", both, 1, false},
		{"no IPv6, listening", only4, 0x733c, true},
		{"no IPv6, no process", only4, 0x733e, false},
	} {
		got, err := listed(tc.proc, tc.port)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestListeningAsksTheKernel(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Skipf("%s: %v", at, err)
		}
		defer l.Close()
		to := ends(t, l.Addr())
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		found := false
		if err := listeners(func(a netip.AddrPort) { found = found || a == to }); err != nil || !found {
			t.Errorf("%s is not among the listeners: %v", to, err)
		}
		if on, err := Listening(int(to.Port())); err != nil || !on {
			t.Errorf("%s: %v, %v, want true", to, on, err)
		}
		if on, err := Listening(int(ends(t, c.LocalAddr()).Port())); err != nil || on {
			t.Errorf("%s only connects: %v, %v, want false", c.LocalAddr(), on, err)
		}
	}
}

func TestAListenerIsInTheWayOfItsOwnAddressOnly(t *testing.T) {
	for _, tc := range []struct {
		listens, at string
		want        bool
	}{
		{"0100007F", "127.0.0.1", true},
		{"0100007F", "127.0.0.2", false},
		{"0100007F", "::", true},
		{"0100007F", "::1", false},
		{"00000000", "127.0.0.1", true},
		{"00000000", "::1", false},
		{"00000000000000000000000000000000", "127.0.0.1", true},
		{"00000000000000000000000001000000", "::1", true},
		{"0000000000000000FFFF00000100007F", "127.0.0.1", true},
		{"000080FE00000000000000000100FE00", "fe80::fe:1", true},
		{"x", "::", false},
	} {
		if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
			t.Skip("the table below is that of a little-endian machine")
		}
		if got := conflict(local(tc.listens), netip.MustParseAddr(tc.at)); got != tc.want {
			t.Errorf("%s is %s, in the way of %s: %v, want %v", tc.listens, local(tc.listens), tc.at, got, tc.want)
		}
	}
}

func TestListedReportsThatItIsUnknown(t *testing.T) {
	if on, err := listed(fstest.MapFS{}, 29500); on || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v, want an error", on, err)
	}
}

func TestReachedIsWhereAnotherMachineConnects(t *testing.T) {
	line := func(local, remote, state string) string {
		return "   0: " + local + " " + remote + " " + state + idle + "4242 1\n"
	}
	const v4, v6 = "0101000A:733C", "000000FD000000000000000001000000:733C"
	for _, tc := range []struct {
		name, tcp, tcp6, want string
	}{
		{"no process", line("00000000:733C", "00000000:0000", "0A"), "", "invalid IP"},
		{"this machine alone",
			line("0100007F:733C", "0100007F:C350", "01") + line(v4, "0101000A:C350", "01"), "", "invalid IP"},
		{"another", line("0100007F:733C", "0100007F:C350", "01") + line(v4, "0201000A:C350", "01"), "", "10.0.1.1"},
		{"it has hung up", line(v4, "0201000A:C350", "06"), "", "invalid IP"},
		{"at another port", line("0101000A:733D", "0201000A:C350", "01"), "", "invalid IP"},
		{"this machine's own connection to that port of another",
			line("0101000A:C350", "0201000A:733C", "01"), "", "invalid IP"},
		{"IPv6", "", line(v6, "000000FD000000000000000002000000:C350", "01"), "fd00::1"},
		{"IPv4 at a socket for both", "",
			line("0000000000000000FFFF00000101000A:733C", "0000000000000000FFFF00000201000A:C350", "01"), "10.0.1.1"},
		{"link-local says nothing to others", "",
			line("000080FE000000000000000001000000:733C", "000080FE000000000000000002000000:C350", "01"), "invalid IP"},
	} {
		proc := fstest.MapFS{"net/tcp": {Data: []byte(head + tc.tcp)}, "net/tcp6": {Data: []byte(head + tc.tcp6)}}
		if got := Reached(proc, 0x733c).String(); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func FuzzSockets(f *testing.F) {
	f.Add(tcp4, 0x733c)
	f.Add(tcp6, 0x733e)
	f.Add(head+"0: :733C x 0A\n", 0x733c)
	if b, err := os.ReadFile("/proc/net/tcp"); err == nil {
		f.Add(string(b), 22)
	}
	f.Fuzz(func(t *testing.T, table string, port int) {
		proc := fstest.MapFS{"net/tcp": {Data: []byte(table)}}
		inode, err := Listener(proc, netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)))
		if err == nil && inode != "" && !strings.Contains(table, inode) {
			t.Errorf("inode %q is not in the table", inode)
		}
		if a := Reached(proc, port); a.IsValid() && !a.IsGlobalUnicast() {
			t.Errorf("reached at %s", a)
		}
	})
}

func TestHalfOpenReturnsWhoCallsAPortAndHearsNoAnswer(t *testing.T) {
	const table = head +
		"   0: 0A005B0A:72C1 0C005B0A:C350 03" + idle + "0 1 0000000000000000 20 4 30 10 -1\n" +
		"   1: 0A005B0A:72C1 0C005B0A:C351 03" + idle + "0 1 0000000000000000 20 4 30 10 -1\n" +
		"   2: 0A005B0A:72C1 0B005B0A:C350 01" + idle + "4244 1 0000000000000000 20 4 30 10 -1\n" +
		"   3: 0A005B0A:733D 0D005B0A:C350 03" + idle + "0 1 0000000000000000 20 4 30 10 -1\n"
	got := HalfOpen(fstest.MapFS{"net/tcp": {Data: []byte(table)}}, 29377)
	if len(got) != 1 || got[0] != netip.MustParseAddr("10.91.0.12") {
		t.Errorf("got %v", got)
	}
}
