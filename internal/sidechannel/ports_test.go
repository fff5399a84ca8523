package sidechannel

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"
)

func portsOf(rang, reserved string) fstest.MapFS {
	return fstest.MapFS{
		"sys/net/ipv4/ip_local_port_range":     {Data: []byte(rang + "\n")},
		"sys/net/ipv4/ip_local_reserved_ports": {Data: []byte(reserved + "\n")},
	}
}

// The ranks need each port of a small range.
func TestAListenerLeavesASmallRangeToTheRanks(t *testing.T) {
	for _, tt := range []struct {
		name, rang, reserved string
		first                []int
	}{
		{"two ports", "61000\t61001", "", []int{60999, 61002, 60998}},
		{"reserved ones", "61000\t61001", "60998-60999,61003", []int{61002, 60997, 61004}},
		{"one reserved", "61000\t61001", "60999", []int{61002, 60998, 61003}},
		{"at the top", "65534\t65535", "", []int{65533, 65532, 65531}},
		{"at the bottom", "1024\t1025", "", []int{1026, 1027, 1028}},
		{"the usual range", "32768\t60999", "", nil},
		{"sixteen and one", "61000\t61016", "", nil},
		{"not known", "", "", nil},
	} {
		got := outside(portsOf(tt.rang, tt.reserved))
		if len(got) > 3 {
			got = got[:3]
		}
		if !slices.Equal(got, tt.first) {
			t.Errorf("%s: %v, want %v first", tt.name, got, tt.first)
		}
	}
	small := portsOf("61000\t61001", "")
	for range 2 { // the second finds the first port in use
		l, err := listenAt(netip.AddrPortFrom(lo, 0), small)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; !slices.Contains(outside(small), port) {
			t.Errorf("it listens at port %d", port)
		}
	}
	if l, err := listenAt(netip.AddrPortFrom(lo, 0), fstest.MapFS{}); err != nil {
		t.Errorf("the range is not known: %v", err)
	} else {
		l.Close()
	}
}
