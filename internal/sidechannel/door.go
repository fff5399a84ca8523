package sidechannel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// knock begins what a Door says; the owner's ID and a newline end it. The caller hangs up first, so that no
// connection of the port is left in TIME-WAIT on the owner's side.
const knock = "launch-port "

// Door says whose a port is, to each caller, while the port is held for another program.
type Door struct{ acceptor }

// OpenDoor answers at l with id, of 64 bytes at most, until Shut. It closes l then.
func OpenDoor(l net.Listener, id string) (*Door, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("the ID has %d bytes, the limit is %d", len(id), maxID)
	}
	d := &Door{acceptor{id: id, l: l}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.serve(d.take)
	return d, nil
}

// Shut ends the door and every call at it.
func (d *Door) Shut() { d.Close() }

func (d *Door) take(c *net.TCPConn) {
	_ = c.SetDeadline(time.Now().Add(helloBudget))
	if _, err := io.WriteString(c, knock+d.id+"\n"); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, drained) // until the caller hangs up
}

// Knock calls a Door and returns the ID that it says. It sends nothing. CauseOf returns the cause of its error.
func Knock(ctx context.Context, at netip.AddrPort, from netip.Addr) (id string, err error) {
	c, err := dial(ctx, at, from, "")
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(greetBudget))
	said := make([]byte, 0, len(knock)+maxID+1)
	for !strings.HasSuffix(string(said), "\n") {
		if len(said) == cap(said) {
			return "", &failure{cause: Stranger, err: fmt.Errorf("call %s: %w", at, errNotAPeer)}
		}
		n, err := c.Read(said[len(said):cap(said)])
		if err != nil {
			return "", &failure{cause: talking(ctx, err), err: fmt.Errorf("call %s: %w", at, ending(ctx, err))}
		}
		said = said[:len(said)+n]
	}
	id, ok := strings.CutPrefix(strings.TrimSuffix(string(said), "\n"), knock)
	if !ok {
		return "", &failure{cause: Stranger, err: fmt.Errorf("call %s: %w", at, errNotAPeer)}
	}
	return id, nil
}
