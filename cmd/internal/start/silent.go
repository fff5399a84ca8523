package start

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// silentDial bounds the connection by which a node sees whether a silent store is reached at all.
const silentDial = time.Second

// longPing is a packet of 1,400 bytes, which passes most tunnels, too.
const longPing = "ping -M do -s 1372 %s"

// saySilent prints why a store may not answer that accepts a connection: a firewall or tunnel that drops longer packets
// alone looks like that, and each lease runs out.
func (s *Start) saySilent(ctx context.Context) {
	if s.store == nil || len(s.store.Serve) > 0 {
		return
	}
	for _, at := range s.store.Endpoints {
		at = strings.TrimPrefix(strings.TrimPrefix(at, "https://"), "http://")
		c, err := (&net.Dialer{Timeout: silentDial}).DialContext(ctx, "tcp", at)
		if err != nil {
			continue
		}
		c.Close()
		host, _, _ := net.SplitHostPort(at)
		s.UI.Note("%s", silence(at, host))
		return
	}
}

// silence says what a store may lack that accepts a connection, and has given no answer for silentAfter.
func silence(at, host string) string {
	return fmt.Sprintf("%s accepts connections, and for %s no answer of the store has arrived. If longer packets are "+
		"dropped on the way, in one direction or both, "+longPing+" shows it, here and on that host towards this one; "+
		"else its launch is stopped or overloaded", at, silentAfter, host)
}

// sayApart prints, on the store's host, why nodes may be lost again and again after they have joined.
func (s *Start) sayApart() {
	if s.store == nil || len(s.store.Serve) == 0 {
		return
	}
	s.UI.Note("nodes have left twice after the ranks were agreed. If they join again each time, longer packets may be "+
		"dropped on the way to them: "+longPing+", from here to that node", "HOST")
}
