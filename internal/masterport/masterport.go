// Package masterport reserves a TCP port for the job's own store from the moment it is
// announced until the store itself listens there, which takes the seconds of
// an "import torch".
//
// A held port is bound with SO_REUSEADDR and not listened on: connections are
// refused, whoever binds it in the ordinary way gets "address in use", and the
// store, which sets SO_REUSEADDR, binds and listens beside the holder. For the
// same reason a second launch would get it too, so an abstract unix socket,
// which is per network namespace as the port is, decides between launches.
package masterport

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// ErrTaken is a port that something else on this machine uses or holds, or that
// is not for this user.
var ErrTaken = errors.New("port cannot be had")

// Held is a port that is kept free for one job.
type Held struct {
	Port int

	socket, mutex *os.File
}

// Files are the descriptors that hold the port. Any process that has them
// open, or inherits them, holds it; they are close-on-exec here.
func (h *Held) Files() []*os.File { return []*os.File{h.socket, h.mutex} }

// Close lets go of the port, as far as this process is concerned.
func (h *Held) Close() error { return errors.Join(h.socket.Close(), h.mutex.Close()) }

// Hold holds port for this machine's addresses, IPv4 and IPv6. The error is
// ErrTaken when somebody uses it or another launch holds it; Look may know who.
func Hold(port int) (*Held, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("hold port %d: not in 1-65535", port)
	}
	mutex, err := bind(unix.AF_UNIX, &unix.SockaddrUnix{Name: mutexName(port)})
	if err != nil {
		return nil, holdError(port, err)
	}
	socket, err := bindTo(Everywhere(port))
	if err != nil {
		mutex.Close()
		return nil, holdError(port, err)
	}
	return &Held{Port: port, socket: socket, mutex: mutex}, nil
}

// Pick holds the first port that it can: first, if it is not 0, then one of lo
// to hi, of which last (0: none) only if all others are taken.
func Pick(first, last, lo, hi int) (*Held, error) {
	var order []int
	if first != 0 {
		order = append(order, first)
	}
	for p := lo; p <= hi; p++ {
		if p != last {
			order = append(order, p)
		}
	}
	if lo <= last && last <= hi {
		order = append(order, last)
	}
	for _, p := range order {
		if h, err := Hold(p); !errors.Is(err, ErrTaken) {
			return h, err
		}
	}
	return nil, fmt.Errorf("pick a port of %d-%d: %w, none of them", lo, hi, ErrTaken)
}

func mutexName(port int) string { return fmt.Sprintf("@launch-port-%d", port) }

func holdError(port int, err error) error {
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("hold port %d: %w: %v", port, ErrTaken, err)
	}
	return fmt.Errorf("hold port %d: %w", port, err)
}

// Everywhere is port on all of this machine's addresses.
func Everywhere(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))
}

// bindTo binds an address; the unspecified one of IPv6 is that of both families.
func bindTo(at netip.AddrPort) (*os.File, error) {
	addr := at.Addr().Unmap()
	if addr.Is4() {
		return bind(unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: addr.As4()})
	}
	f, err := bind(unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: addr.As16()})
	if addr.IsUnspecified() && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
		return bind(unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port())})
	}
	return f, err
}

// bind makes a bound stream socket that does not listen.
func bind(family int, addr unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		// The system's default for this is a sysctl (net.ipv6.bindv6only).
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "port"), nil
}
