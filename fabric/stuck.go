package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Stuck returns why no packet of this node gets to any of some addresses, as far as this node itself shows it: there is
// no route, or the interface of the route is down or has no link. It sends nothing. "": nothing is wrong here.
func Stuck(dsts []netip.Addr) (why string) {
	for _, dst := range dsts {
		if why = stuck(dst); why == "" {
			return ""
		}
	}
	return why
}

func stuck(dst netip.Addr) string {
	r, err := RouteTo(dst)
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EINVAL):
		return fmt.Sprintf("this node has no route to %s", dst)
	case err != nil:
		return ""
	}
	i, err := net.InterfaceByName(r.Interface)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return ""
	}
	switch {
	case i.Flags&net.FlagUp == 0:
		return fmt.Sprintf("%s of this node, the way to %s, is down", i.Name, dst)
	case i.Flags&net.FlagRunning == 0:
		return fmt.Sprintf("%s of this node, the way to %s, has no link: no cable, or its other end is down", i.Name, dst)
	}
	return ""
}
