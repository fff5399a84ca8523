package fabric

import (
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sandbox that forbids connect(2) is named; a rule that forbids a port, and a port that refuses, are something else.
func TestASandboxThatForbidsConnections(t *testing.T) {
	w := newWired(t)
	there := netip.MustParseAddrPort("10.0.2.2:29500")
	if f := sandboxed(there); f.Why != "" {
		t.Errorf("a closed port: %+v", f)
	}
	w.run("ip rule add ipproto tcp dport 29500 prohibit")
	if f := sandboxed(there); f.Why != "" {
		t.Errorf("a rule: %+v", f)
	}
	w.run("ip rule del ipproto tcp dport 29500 prohibit")
	const connectTCP = 1 << 1                            // LANDLOCK_ACCESS_NET_CONNECT_TCP
	ruleset := struct{ fs, net uint64 }{net: connectTCP} // landlock_ruleset_attr
	fd, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&ruleset)),
		unsafe.Sizeof(ruleset), 0)
	if err != 0 {
		t.Skip("no Landlock for the network: ", err)
	}
	defer unix.Close(int(fd))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	if _, _, err := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); err != 0 { // this thread, which ends here
		t.Skip(err)
	}
	if f := Wrong(Call{To: there, Gone: All}); !strings.Contains(f.Why, "may not connect") {
		t.Errorf("got %+v", f)
	}
}
