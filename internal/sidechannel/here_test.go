package sidechannel

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnErrorOfTheCallersOwnKernel: some errors are never of the other node, and some of either.
func TestAnErrorOfTheCallersOwnKernel(t *testing.T) {
	dialed := func(call string, err unix.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError(call, err)}
	}
	here := netip.MustParseAddrPort("127.0.0.1:9")
	for _, tc := range []struct {
		call  string
		errno unix.Errno
		cause Cause
		here  bool
	}{
		{"connect", unix.EINVAL, Blackhole, true},
		{"connect", unix.EADDRNOTAVAIL, NoPort, true},
		{"bind", unix.EADDRNOTAVAIL, Unknown, true},
		{"connect", unix.EPERM, Denied, true},
		{"socket", unix.EMFILE, Unknown, true},
		{"connect", unix.ENETUNREACH, NoRoute, false}, // there is a route: a router has said so
		{"connect", unix.ECONNREFUSED, Refused, false},
	} {
		err := dialed(tc.call, tc.errno)
		if got := dialing(t.Context(), err); got != tc.cause {
			t.Errorf("%s: %v: %q", tc.call, tc.errno, got)
		}
		if got := Here(&failure{here: refusedHere(here, err), err: err}); got != tc.here {
			t.Errorf("%s: %v: here is %t", tc.call, tc.errno, got)
		}
	}
}
