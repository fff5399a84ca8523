package sockaddr

import (
	"net"
	"net/netip"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAddressesGoThereAndBack(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for text, want := range map[string]struct {
		family int
		zone   uint32
		back   string
	}{
		"10.0.0.1:29500":          {unix.AF_INET, 0, "10.0.0.1:29500"},
		"[::ffff:10.0.0.1]:29500": {unix.AF_INET, 0, "10.0.0.1:29500"},
		"[fd00::1]:1":             {unix.AF_INET6, 0, "[fd00::1]:1"},
		"[fe80::1%lo]:1":          {unix.AF_INET6, uint32(lo.Index), "[fe80::1]:1"},
		"[fe80::1%" + strconv.Itoa(lo.Index) + "]:1": {unix.AF_INET6, uint32(lo.Index), "[fe80::1]:1"},
		"[fe80::1%no-such-interface]:1":              {unix.AF_INET6, 0, "[fe80::1]:1"},
	} {
		a := netip.MustParseAddrPort(text)
		s := Of(a)
		if Family(a.Addr()) != want.family || From(s) != netip.MustParseAddrPort(want.back) {
			t.Errorf("%s: family %d, back %s", text, Family(a.Addr()), From(s))
		}
		if six, ok := s.(*unix.SockaddrInet6); ok != (want.family == unix.AF_INET6) || ok && six.ZoneId != want.zone {
			t.Errorf("%s: %+v", text, s)
		}
	}
	if got := From(&unix.SockaddrUnix{Name: "x"}); got.IsValid() {
		t.Errorf("a Unix socket: %s", got)
	}
}
