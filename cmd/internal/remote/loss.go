package remote

import (
	"context"
	"fmt"
	"net"
	"time"

	"launch/internal/process"
)

// Loss is what a connection shows on which long packets get lost.
type Loss struct {
	Way  string // "to it", "from it"
	Seen string
}

const (
	// lookEvery is the time between two looks at the connection of an agent that is waited for.
	lookEvery = time.Second
	// tries is how often TCP sends a segment again, at 0.2, 0.6, 1.4, 3 and 6.2 s, until it counts as lost; gaps is
	// how many looks find the same gap in what arrived.
	tries, gaps = 5, 4
	// secondCall bounds a new connection, whose packets are short.
	secondCall = 2 * time.Second
)

// losses looks at the agent's connection again and again.
type losses struct {
	sockets  *process.Table
	known    []process.Connection // its own, once they are found
	received uint64               // bytes, at the last look
	gaps     int                  // looks that found this gap
}

// look returns how long packets get lost, or nil: a long segment has no answer, or data waits for one before it,
// while a new connection to the same port is answered. An agent that connects through another process has no
// connection of its own.
func (l *losses) look(ctx context.Context, pid int) *Loss {
	if l.known = again(l.known); len(l.known) == 0 {
		l.known = l.sockets.Connections(pid)
	}
	for _, c := range l.known {
		size := min(c.Unanswered(), uint64(c.MSS))
		if !c.Gap() || c.Received != l.received {
			l.gaps = 0
		}
		if l.received = c.Received; c.Gap() {
			l.gaps++
		}
		var found Loss
		switch {
		case c.Acked > 1 && c.Retransmits >= tries && size > process.Everywhere:
			found = Loss{"to it", fmt.Sprintf("a segment of %d bytes was sent %d times without an answer", size,
				c.Retransmits+1)}
		case l.gaps >= gaps:
			found = Loss{"from it", fmt.Sprintf("after %d bytes a segment is missing, and shorter ones after it have arrived",
				c.Received)}
		default:
			continue
		}
		if answers(ctx, c.Remote.String()) {
			found.Seen += "; a new connection is answered"
			return &found
		}
	}
	return nil
}

// again returns what is known now of connections, without those that have ended.
func again(all []process.Connection) (out []process.Connection) {
	for _, c := range all {
		if now, ok := c.Again(); ok {
			out = append(out, now)
		}
	}
	return out
}

// answers reports whether a server speaks first on a new connection, as sshd does.
func answers(ctx context.Context, at string) bool {
	ctx, cancel := context.WithTimeout(ctx, secondCall)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(secondCall))
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}
