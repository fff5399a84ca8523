// Package masterport reserves a TCP port for the job's own store, from its
// announcement until the store listens there: "import torch" takes seconds.
//
// A held port is bound with SO_REUSEADDR, but nothing listens on it, except between Listen and Quiet.
// Connections are refused, and a program that binds it in the ordinary way gets "address in use". The store, which sets
// SO_REUSEADDR, binds and listens as well as the holder. So could a second launch: between launches
// an abstract unix socket decides, which belongs to a network namespace as the port does.
package masterport

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

// ErrTaken: another process of this machine uses or holds the port, or this user may not have it.
var ErrTaken = errors.New("the port is not available")

// Held is a port that is reserved for one job.
type Held struct {
	Port int

	socket, mutex *os.File // a process that has them open holds the port
}

// Listen answers at the port, with a listener of the caller's, until Quiet: the other nodes try whether they get
// through.
func (h *Held) Listen() (net.Listener, error) {
	err := unix.Listen(int(h.socket.Fd()), unix.SOMAXCONN)
	if err == nil {
		var l net.Listener
		if l, err = net.FileListener(h.socket); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("listen at the held port %d: %w", h.Port, err)
}

// Quiet ends what Listen began, before the port's own program starts. The port is held on: a socket that stops to
// listen keeps an explicit port (inet_shutdown, and SOCK_BINDPORT_LOCK in inet_connection_sock.c).
func (h *Held) Quiet() error {
	if err := unix.Shutdown(int(h.socket.Fd()), unix.SHUT_RD); err != nil && !errors.Is(err, unix.ENOTCONN) {
		return fmt.Errorf("stop listening at port %d: %w", h.Port, err)
	}
	return nil
}

// Close releases the port in this process.
func (h *Held) Close() error { return errors.Join(h.socket.Close(), h.mutex.Close()) }

// Hold holds port for all addresses. The error is ErrTaken if another process uses or holds it.
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

// Pick holds the first free port of first (0: none), those from lo to hi, and last (0: none).
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
	return nil, fmt.Errorf("pick a port from %d to %d: %w", lo, hi, ErrTaken)
}

func mutexName(port int) string { return fmt.Sprintf("@launch-port-%d", port) }

func holdError(port int, err error) error {
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("hold port %d: %w: %v", port, ErrTaken, err)
	}
	return fmt.Errorf("hold port %d: %w", port, err)
}

// Everywhere returns port on all of this machine's addresses.
func Everywhere(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))
}

// bindTo binds an address; the unspecified one of IPv6 covers both families.
func bindTo(at netip.AddrPort) (*os.File, error) {
	addr := at.Addr().Unmap()
	if addr.Is4() {
		return bind(unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: addr.As4()})
	}
	f, err := bind(unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: addr.As16()})
	if addr.IsUnspecified() && noIPv6(err) {
		return bind(unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port())})
	}
	return f, err
}

// noIPv6 reports whether an address of IPv6 was refused because this process has none: switched off, or forbidden by a
// container's seccomp profile.
func noIPv6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EPERM)
}

// bind returns a bound stream socket that does not listen.
func bind(family int, addr unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		// The default for this is a sysctl (net.ipv6.bindv6only).
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

// Use is the use of a port of this machine.
type Use struct {
	Taken  bool   // no other process can listen there, or a launch holds it
	Launch bool   // the process that uses it is a launch
	By     string // "python3 (pid 4711)"; "": another user's or container's process, or it does not listen
}

// Look returns which process uses a port; procfs is /proc. It holds nothing, not even for a moment,
// that would prevent another launch from holding the port. The error is any other obstacle to its use.
func Look(procfs fs.FS, at netip.AddrPort) (Use, error) {
	socket, err := bindTo(at)
	inode := ""
	switch {
	case err == nil:
		socket.Close()
		inode = process.UnixSocket(procfs, mutexName(int(at.Port())))
		if inode == "" {
			return Use{}, nil
		}
		return Use{Taken: true, Launch: true, By: process.OwnerOf(procfs, inode).String()}, nil
	case !errors.Is(err, unix.EADDRINUSE):
		return Use{}, fmt.Errorf("bind %s: %w", at, err)
	}
	if inode, err = process.Listener(procfs, at); err != nil || inode == "" {
		return Use{Taken: true}, nil
	}
	by := process.OwnerOf(procfs, inode)
	return Use{Taken: true, Launch: strings.HasPrefix(by.Name, "launch"), By: by.String()}, nil
}
