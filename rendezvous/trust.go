package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strconv"

	"launch/internal/process"
)

// Without TLS, a process of this machine is trusted by its user: the kernel knows the one of each socket.

// ErrForeign reports that the store of this machine, at which the nodes of one job meet, belongs to
// another user.
var ErrForeign = errors.New("the store belongs to another user")

// here returns whether both ends of a connection are on this machine.
func here(from, to net.Addr) bool {
	a, b := host(from), host(to)
	return a.IsValid() && (a == b || a.IsLoopback())
}

// trusted returns nil where a user may be trusted: this one, root, or one that is not known.
func trusted(local, remote netip.AddrPort) error {
	uid, known := process.User(local, remote)
	if !known || uid == 0 || uid == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%w: %s, and this is %s", ErrForeign, named(uid), named(os.Geteuid()))
}

// named returns a user for people.
func named(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return fmt.Sprintf("user %s (%s)", u.Username, id)
	}
	return "user " + id
}

// familiar returns ErrForeign where a connection of this machine leads to the store of another user.
func (s Store) familiar(c net.Conn) error {
	if s.Job == "" || s.TLS != nil || !here(c.RemoteAddr(), c.LocalAddr()) {
		return nil
	}
	if err := trusted(c.RemoteAddr().(*net.TCPAddr).AddrPort(), netip.AddrPort{}); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// dialTrusted connects, unless the store is another user's.
func (s Store) dialTrusted(ctx context.Context, addr string) (net.Conn, error) {
	c, err := s.Hangup.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := s.familiar(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// ownUsers accepts the connections of other machines, and of this one those of its user and of root.
type ownUsers struct{ net.Listener }

func (l ownUsers) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !here(c.RemoteAddr(), c.LocalAddr()) ||
			trusted(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort()) == nil {
			return c, err
		}
		_ = c.Close()
	}
}
