package sidechannel

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
)

// The ports of launch's own where the kernel has few (net.ipv4.ip_local_port_range): a rank needs each of them, to
// listen and to connect, so that a listener of launch takes one outside the range.
const (
	fewPorts = 16   // of the range
	tried    = 256  // next to the range, on each side
	lowest   = 1024 // lower ones are for root (net.ipv4.ip_unprivileged_port_start)
)

// outside returns the ports next to a small range of the kernel, the nearest first and no reserved one; none where the
// range is not small, or not known. proc is /proc.
func outside(proc fs.FS) (ports []int) {
	var first, last int
	if _, err := fmt.Sscan(setting(proc, "ip_local_port_range"), &first, &last); err != nil || last-first >= fewPorts {
		return nil
	}
	taken := map[int]bool{}
	for _, r := range strings.Split(setting(proc, "ip_local_reserved_ports"), ",") {
		var from, to int
		if n, _ := fmt.Sscanf(r, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for p := from; p <= to; p++ {
			taken[p] = true
		}
	}
	for i := 1; i <= tried; i++ {
		for _, p := range []int{first - i, last + i} {
			if p >= lowest && p <= 65535 && !taken[p] {
				ports = append(ports, p)
			}
		}
	}
	return ports
}

func setting(proc fs.FS, name string) string {
	b, _ := fs.ReadFile(proc, "sys/net/ipv4/"+name)
	return strings.TrimSpace(string(b))
}

// listenAt listens at an address; port 0: at any free port, and where the kernel has few, at one outside its range.
func listenAt(at netip.AddrPort, proc fs.FS) (net.Listener, error) {
	if at.Port() == 0 {
		for _, p := range outside(proc) {
			if l, err := net.Listen("tcp", netip.AddrPortFrom(at.Addr(), uint16(p)).String()); err == nil {
				return l, nil
			}
		}
	}
	return net.Listen("tcp", at.String())
}
