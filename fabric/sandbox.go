package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// sandboxed returns why this process may not connect to a port: connect(2) itself is denied, and no route or rule
// denies packets to there. That is of the process, as with Landlock, a security module, or BPF of its control group.
func sandboxed(to netip.AddrPort) Fault {
	before := ReadDrops(os.DirFS("/proc/thread-self"))
	fd, _, err := begin(netip.Addr{}, to)
	if err == nil {
		_ = unix.Close(fd)
	}
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return Fault{}
	}
	h, routeErr := nextHop(netip.Addr{}, to)
	if routeErr != nil {
		return Fault{}
	}
	if r := ReadDrops(os.DirFS("/proc/thread-self")).Since(before); r.OutBlocked > 0 { // IPsec refuses connect(2), too
		return cmp.Or(Call{To: to}.sealed(h.src), blockedByIPsec("that leave", "XfrmOutPolBlock"))
	}
	return Fault{fmt.Sprintf("this process may not connect to %s (%v), and no route forbids it: a sandbox does "+
		"(Landlock, SELinux, AppArmor, or a BPF program of its control group)", to, err),
		"grep -E 'NoNewPrivs|Seccomp' /proc/self/status; cat /proc/self/attr/current   # in the job\n" +
			"start it outside of that sandbox, or let it connect to all ports of the nodes"}
}
