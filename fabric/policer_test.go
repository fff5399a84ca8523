package fabric

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnPolicers: a low limit that drops, of nft for a device, in a network namespace of its own. A high one, one of
// some packets only, one of another device, and one that accepts do not count.
func TestOwnPolicers(t *testing.T) {
	for _, tt := range []struct {
		name, set, want string
	}{
		{"nothing", "", ""},
		{"nft, bytes", "limit rate over 24 kbytes/second burst 32 kbytes counter drop",
			"at d0 beyond 25 kB in a second: a policer (nft, table netdev police, chain c)"},
		{"nft, packets", "limit rate over 12/second drop", "beyond 12 packets in a second"},
		{"nft, a high limit", "limit rate over 100 mbytes/second drop", ""},
		{"nft, ICMP", "ip protocol icmp limit rate over 5/second drop", ""},
		{"nft, some packets of TCP", "ip protocol tcp tcp flags syn limit rate over 12/second drop", ""},
		{"nft, of one source", "ip saddr 10.9.0.7 limit rate over 24 kbytes/second drop", ""},
		{"nft, broadcast", "meta pkttype broadcast limit rate over 12/second drop", ""},
		{"nft, packets are taken out before", "ip protocol tcp accept; limit rate over 12/second drop", ""},
		{"nft, of another device",
			"}; chain d { type filter hook ingress device d1 priority 0; limit rate over 12/second drop", ""},
		{"nft, it accepts", "limit rate 5/second accept", ""},
	} {
		lacks, done := "", make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its namespace
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				lacks = err.Error()
				return
			}
			run := func(args ...string) {
				if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					lacks = fmt.Sprintf("%s: %v: %s", strings.Join(args, " "), err, out)
				}
			}
			run("ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
			run("ip", "link", "set", "d0", "up")
			run("ip", "addr", "add", "10.9.0.1/24", "dev", "d0")
			if tt.set != "" {
				run("nft", "table netdev police { chain c { type filter hook ingress device d0 priority 0; "+tt.set+"; }; }")
			}
			c := Call{From: netip.MustParseAddr("10.9.0.1"), To: netip.MustParseAddrPort("10.9.0.2:50000")}
			if got := Policers()(c).Why; lacks == "" && ((got == "") != (tt.want == "") || !strings.Contains(got, tt.want)) {
				t.Errorf("%s: got %q", tt.name, got)
			}
		}()
		if <-done; lacks != "" {
			t.Log(tt.name, "is not tried:", lacks)
		}
	}
}
