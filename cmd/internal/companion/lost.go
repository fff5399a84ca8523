package companion

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// located adds the store's address to what is said of its host, which has no other name here.
func (p *companion) located(text string) string {
	return strings.Replace(text, "hosts the store,", "hosts the store ("+strings.Join(p.spec.Endpoints, ", ")+"),", 1)
}

// lost returns the finding about a lost node; where this node itself is cut off, about that.
func (p *companion) lost(text, at string) finding.Finding {
	if why := p.adrift(); why != "" {
		return finding.Warnf("%s (seen at %s): this node has lost the others", why, at)
	}
	return finding.Warnf("%s (seen at %s%s)"+rankWaits, p.located(text), at, p.remains(text))
}

// adrift returns what cuts this node off from the others: its interface has no link, or its address is gone; else "".
func (p *companion) adrift() string {
	own := p.world.Self.Addr
	i, there := interfaceOf(own)
	switch {
	case !there:
		return fmt.Sprintf("this node's address %s is gone (a new one by DHCP?)", own)
	case i.Flags&net.FlagRunning == 0:
		return i.Name + " has no link"
	}
	return ""
}

// remainsBudget bounds the call to a node that was lost.
const remainsBudget = 1500 * time.Millisecond

// remains says what a call to a lost node shows of it: its machine may be there, and launch may run and not answer.
func (p *companion) remains(text string) string {
	ctx, cancel := context.WithTimeout(p.ctx, remainsBudget)
	defer cancel()
	n, known := p.lostOf(ctx, text)
	if !known || !n.Addr.IsValid() || n.Peer == 0 {
		return ""
	}
	_, err := sidechannel.Probe(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), p.spec.Token.Keys(p.spec.Job).Client(),
		sidechannel.Options{})
	switch sidechannel.CauseOf(err) {
	case "":
		return "; it answers again"
	case sidechannel.Refused:
		return "; its machine answers, and launch has ended there"
	case sidechannel.Silent:
		return "; its machine takes connections, and launch does not answer there: stopped, frozen or without processor time"
	case sidechannel.Dropped, sidechannel.NoHost, sidechannel.NoRoute, sidechannel.Unknown:
		return "; nothing answers at its address"
	}
	return ""
}

// lostOf returns the node that a text of the rendezvous names: "rank 2, host2 (10.0.0.3), was lost", or the store's.
func (p *companion) lostOf(ctx context.Context, text string) (rendezvous.Partner, bool) {
	for _, n := range append(p.doctor.others(ctx), p.world.Master.Partner(0)) {
		if strings.HasPrefix(text, fmt.Sprintf("rank %d, %s, ", n.Rank, n.Name)) ||
			n.Rank == 0 && strings.HasPrefix(text, "the node that hosts the store") {
			return n, true
		}
	}
	return rendezvous.Partner{}, false
}
