package companion

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/finding"
	"launch/rendezvous"
)

// located adds the store's address to what is said of its host, which has no other name here.
func (p *companion) located(text string) string {
	return strings.Replace(text, "hosts the store,", "hosts the store ("+strings.Join(p.spec.Endpoints, ", ")+"),", 1)
}

// gone reports a lost node; where this node itself is cut off, that. Since the rendezvous reports a loss once, such a
// node is called again and again.
func (p *companion) gone(text, at string) {
	if why := p.adrift(); why != "" {
		p.tell(finding.Warnf("%s (seen at %s): this node has lost the others", why, at).Named("node.lost"))
		return
	}
	n, known := p.lostOf(text)
	text = p.located(text)
	if strings.HasPrefix(text, fmt.Sprintf("node rank %d, ", p.world.Rank)) {
		p.say(finding.Warnf("the others counted this node as lost (seen at %s): it or the network stopped for a while, and "+
			"goes on", at).Named("node.lost"), "") // the store says so: it is reached again
		return
	}
	if !known {
		p.sayLost(text, at, n, sight{})
		return
	}
	if f := fabric.Stuck([]netip.AddrPort{netip.AddrPortFrom(n.Addr, 0)}); f.Why != "" { // not by NAT: it may be well
		p.tell(finding.Warnf("%s (seen at %s): this node has lost node rank %d, %s", f.Why, at, n.Rank, n.Name).
			Named("node.lost").Do("%s", f.Here()))
		return
	}
	began, now := time.Now(), p.presenceOf(n, sight{})
	for p.running.Err() == nil {
		if now.goesOn() {
			p.say(p.goingOn(text, at, n, now, time.Since(began)), "")
			now = p.untilGone(n, now)
			if now.is == hasEnded || p.running.Err() != nil { // how its command ended is reported otherwise
				return
			}
			began, at = time.Now(), time.Now().Format("15:04:05")
		}
		p.sayLost(text, at, n, now)
		if now.is != isStopped && (now.is != isAbsent || p.spec.FailFast) {
			return
		}
		if now, at = p.untilBack(n, now); !now.goesOn() {
			return
		}
	}
}

// sayLost reports a node that takes no part in the job. With --fail-fast it ends the command, but not yet where the
// node may only be stopped for a time.
func (p *companion) sayLost(text, at string, n rendezvous.Partner, now sight) {
	if end := p.endOn(n); end != nil && now.is == hasEnded {
		p.tell(p.fellOver(*end, n, at))
		return
	}
	seen := at
	if now.is != notCalled {
		seen += "; " + now.String()
	}
	if now.is == isAbsent {
		p.parted(n, at)
	}
	p.doctor.forget(n)
	f := finding.Warnf("%s (seen at %s)"+rankWaits, text, seen).Named("node.lost")
	if now.is == isAbsent && now.sign == fabric.Pings {
		f = f.Do("nft list ruleset; iptables -S; ip xfrm policy   # there, and on this node")
	}
	if p.doctor.alone(p.ctx) {
		f = f.Do("nft list ruleset; iptables -S; ip -s link   # on this node first: it has lost all others")
	}
	if now.is == isStopped && p.spec.FailFast {
		p.blamed.Store(true)
		p.say(f, fmt.Sprintf("waiting up to %s for it to go on: --fail-fast", haltGrace))
		return
	}
	p.tell(f)
}

// fellOver says that a node was lost after its first rank had ended. Its kernel ends the connections of a process that
// has ended: where one is still open here, a process there remains, or its packets are dropped on the way.
func (p *companion) fellOver(end rankEnd, n rendezvous.Partner, at string) finding.Finding {
	open := scene.Open(p.doctor.family)
	goesOn := slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...), func(a netip.Addr) bool {
		return slices.Contains(open, a)
	})
	switch {
	case end.Launch && goesOn:
		return finding.Warnf("%s (seen at %s); connections of this node's ranks to it are still open: processes there "+
			"remain", end, at).Named("node.failed").Do("ps -ef   # on the other node: what remains there?\n%s", end.fix())
	case end.Launch:
		return finding.Warnf("%s (seen at %s)"+rankWaits, end, at).Named("node.failed").Do("%s", end.fix())
	}
	f := finding.Warnf("%s, and launch there has ended, too (seen at %s)"+rankWaits, end, at).Named("node.failed").
		Do("%s", meaning(end.Status))
	if !goesOn {
		return f
	}
	return finding.Warnf("%s, and launch there has ended, too (seen at %s); connections of this node's ranks to it are "+
		"still open: processes there remain, or something between drops or resets packets, as a firewall does that "+
		"forgets idle connections, and that rank has ended for it", end, at).Named("node.failed").
		Do("ps -ef   # on the other node: what remains there?\n" +
			"sysctl net.netfilter.nf_conntrack_tcp_timeout_established; nft list ruleset   # on both nodes, and between")
}

// endOn returns how the first of all ranks failed, if it ran on a node; nil: it did not, or it is not known.
func (p *companion) endOn(n rendezvous.Partner) *rankEnd {
	if p.ends == nil || n.ID == "" || !p.ends.failed.known() || p.ends.failed.end.ID != n.ID {
		return nil
	}
	return &p.ends.failed.end
}

// adrift returns what cuts this node off from the others: its interface has no link, or its address is gone, or another
// machine has it, too; else "".
func (p *companion) adrift() string {
	own := p.world.Self.Addr
	i, there := interfaceOf(own)
	switch {
	case !there && fabric.TooSmall(own) != "":
		return fmt.Sprintf("this node's address %s is gone: %s", own, fabric.TooSmall(own))
	case !there && p.doctor.flows.deleted(own).Why != "":
		return p.doctor.flows.deleted(own).Why
	case !there:
		return fmt.Sprintf("this node's address %s is gone", own)
	case i.Flags&net.FlagRunning == 0:
		return i.Name + " has no link"
	}
	if who := p.claimant(own, i); who != "" {
		return fmt.Sprintf("another machine (%s) has this node's address %s, too", who, own)
	}
	return ""
}

// claimant returns the hardware address of another machine that has this node's own address, and which node that is, if
// it is one; "": no such machine is known.
func (p *companion) claimant(own netip.Addr, i net.Interface) string {
	who, err := fabric.Claimant(own, i.Name)
	if err != nil || who == nil {
		return ""
	}
	var near []netip.Addr
	names := map[netip.Addr]string{}
	for _, n := range p.doctor.others(p.ctx) {
		if onLink(i, n.Addr) {
			near, names[n.Addr] = append(near, n.Addr), n.Name
		}
	}
	who, at := usurper(who, near, func(a netip.Addr) net.HardwareAddr {
		theirs, _ := fabric.Claimant(a, i.Name)
		return theirs
	})
	switch {
	case who == nil:
		return ""
	case at.IsValid():
		return fmt.Sprintf("%s, as %s has", who, names[at])
	}
	return who.String()
}

// usurper returns the machine that answers for this node's address, and the address of another node for which it
// answers, too, if there is one; nil: it may be a device that answers for all. Of the other nodes near it, one of the
// first three has to answer with another hardware address.
func usurper(who net.HardwareAddr, near []netip.Addr, ask func(netip.Addr) net.HardwareAddr) (net.HardwareAddr,
	netip.Addr) {
	var at netip.Addr
	apart := false
	for _, a := range near[:min(3, len(near))] {
		theirs := ask(a)
		if same := bytes.Equal(theirs, who); same && !at.IsValid() {
			at = a
		} else if !same && theirs != nil {
			apart = true
		}
	}
	if !apart {
		return nil, netip.Addr{}
	}
	return who, at
}

// onLink reports whether an address is in a network of an interface.
func onLink(i net.Interface, a netip.Addr) bool {
	addrs, _ := i.Addrs()
	return slices.ContainsFunc(addrs, func(at net.Addr) bool {
		n, ok := at.(*net.IPNet)
		return ok && n.Contains(a.AsSlice())
	})
}

// lostOf returns the node that a text of the rendezvous names ("node rank 2, host2 (10.0.0.3), was lost"), or the
// store's.
func (p *companion) lostOf(text string) (rendezvous.Partner, bool) {
	for _, n := range p.doctor.others(p.ctx) {
		if strings.HasPrefix(text, fmt.Sprintf("node rank %d, %s, ", n.Rank, n.Name)) ||
			n.Rank == 0 && strings.HasPrefix(text, "the node that hosts the store") {
			return n, n.Addr.IsValid() && n.Peer != 0
		}
	}
	return rendezvous.Partner{}, false
}
