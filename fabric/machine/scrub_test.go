package machine

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// shared returns how many of their first bits two addresses have in common.
func shared(a, b netip.Addr) int {
	n := 0
	x, y := a.AsSlice(), b.AsSlice()
	for n < len(x)*8 && (x[n/8]^y[n/8])>>(7-n%8)&1 == 0 {
		n++
	}
	return n
}

func TestAddressesShareAsManyBitsAsBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := anonymizer{rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key")}
		n := rapid.SampledFrom([]int{4, 16}).Draw(t, "length")
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "a"))
		bits := rapid.IntRange(kept(a), n*8).Draw(t, "common")
		b := a.AsSlice()
		for i, other := range rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "rest") {
			for j := range 8 {
				if at := i*8 + j; at >= bits {
					b[i] = b[i]&^(0x80>>j) | other&(0x80>>j)
				}
			}
		}
		was, _ := netip.AddrFromSlice(b)
		if plain(a) || plain(was) || a.Is4In6() || was.Is4In6() || kept(a) != kept(was) {
			return
		}
		if got, want := shared(z.addr(a), z.addr(was)), shared(a, was); got != want {
			t.Errorf("%v and %v share %d bits, %v and %v share %d", a, was, want, z.addr(a), z.addr(was), got)
		}
		if z.addr(a).IsPrivate() != a.IsPrivate() {
			t.Errorf("%v became %v", a, z.addr(a))
		}
	})
}

func TestIdentifiersOfOneCardStayThoseOfOneCard(t *testing.T) {
	s := newScrubber([]byte("key"), "trainer-7.example.com")
	const text = "b8:ce:f6:12:34:56 b8ce:f603:0012:3456 b8ce:f603:0012:3457 enxb8cef6123456 rocexb8cef60300123456\n" +
		"80:00:00:48:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:12:34:56 0000:0000:0000:0000 28.39.1002 0000:18:00.0"
	want := "b8:ce:f6:ca:00:01 b8ce:f603:00ca:0001 b8ce:f603:00ca:0002 enxb8cef6ca0001 rocexb8cef60300ca0001\n" +
		"80:00:00:48:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:ca:00:01 0000:0000:0000:0000 28.39.1002 0000:18:00.0"
	s.text("b8:ce:f6:aa:bb:cc") // the first number
	if got := s.text(text); got != want {
		t.Errorf("scrubbed:\n%s\nwant:\n%s", got, want)
	}
	link := s.addr(netip.MustParseAddr("fe80::bace:f6ff:fe12:3456"))
	if link.String() != "fe80::bace:f6ff:feca:1" {
		t.Errorf("its link-local address became %v", link)
	}
	for in, want := range map[string]string{
		"trainer-7.example.com is lost": "node-1 is lost", "trainer-7": "node-1", "trainer-77": "trainer-77",
		"/home/somebody/venv/bin/python": "/home/user/bin/python",
		"/usr/bin/python3":               "/usr/bin/python3", "127.0.0.1": "127.0.0.1", "169.254.3.4": "169.254.3.4",
	} {
		if got := s.word(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	for name, tt := range map[string]struct{ in, want string }{
		"sys/class/dmi/id/chassis_asset_tag": {"OracleCloud.com\n", "OracleCloud.com\n"},
		"sys/x/chassis_asset_tag":            {"INV-004711\n", ""},
		"proc/17/cgroup": {"0::/kubepods/burstable/pod8b0a1f6e_1111/cri-0123456789abcdef\n",
			"0::/kubepods\n"},
		"proc/18/cgroup": {"0::/user.slice/user-1000.slice\n", "0::/\n"},
	} {
		if got := s.file(name, tt.in); got != tt.want {
			t.Errorf("%s became %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("b8:ce:f6:12:34:56 b8ce:f603:0012:3456", "10.0.0.5/24", "host")
	f.Fuzz(func(t *testing.T, text, word, host string) {
		s := newScrubber([]byte("key"), host)
		if once := s.text(text); len(once) != len(text) {
			t.Errorf("%q became %q", text, once)
		}
		s.word(word)
		s.file("proc/1/cgroup", text)
		s.file("sys/a/gids/0", word)
		if strings.Contains(text, "\x00") {
			return
		}
		s.value("uuid", map[string]any{"a": []any{word, text}})
	})
}
