package companion

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// located adds the store's address to what is said of its host, which has no other name here.
func (p *companion) located(text string) string {
	return strings.Replace(text, "hosts the store,", "hosts the store ("+strings.Join(p.spec.Endpoints, ", ")+"),", 1)
}

// presence is what a call to a node that was lost shows.
type presence string

const (
	notCalled presence = ""
	isBack    presence = "answers again: it or the network stopped for a while"
	hasEnded  presence = "its machine answers, and launch has ended there"
	isStopped presence = "its machine takes connections, and launch does not answer there: stopped, frozen or without " +
		"processor time"
	isAbsent presence = "nothing answers at its address"
	isHelper presence = "its ranks still send data: launch's own process there is stopped or has ended"
	isSlow   presence = "its ranks' data still arrives, while a call to it gets no answer in time: the network path is " +
		"slow, full or loses packets"
)

// goesOn reports whether a node that was lost takes part in the job.
func (p presence) goesOn() bool { return p == isBack || p == isHelper || p == isSlow }

// backPause is how often a node that was lost and answers again is called.
const backPause = 5 * time.Second

// gone reports a lost node; where this node itself is cut off, that. With --fail-fast it ends the command, but not
// while the lost node answers again or its ranks send data: its connections may have lasted. Since the rendezvous
// reports a loss once, such a node is called again and again.
func (p *companion) gone(text, at string) {
	if why := p.adrift(); why != "" {
		p.tell(finding.Warnf("%s (seen at %s): this node has lost the others", why, at).Named("node.lost"))
		return
	}
	n, known := p.lostOf(text)
	text = p.located(text)
	now := notCalled
	if known {
		if f := fabric.Stuck([]netip.AddrPort{netip.AddrPortFrom(n.Addr, uint16(n.Peer))}); f.Why != "" {
			p.tell(finding.Warnf("%s (seen at %s): this node has lost node rank %d, %s", f.Why, at, n.Rank, n.Name).
				Named("node.lost").Do("%s", f.Here()))
			return
		}
		now = p.presenceOf(n)
	}
	if now.goesOn() {
		p.say(finding.Warnf("%s (seen at %s), and %s", text, at, now).Named("node.lost"), "")
		for now.goesOn() {
			select {
			case <-time.After(backPause):
				now = p.presenceOf(n)
			case <-p.running.Done():
				return
			}
		}
		if now == hasEnded || p.running.Err() != nil { // how its command ended is reported otherwise
			return
		}
		at = time.Now().Format("15:04:05")
	}
	if end := p.endOn(n); end != nil && now == hasEnded {
		p.tell(p.fellOver(*end, n, at))
		return
	}
	seen := at
	if now != notCalled {
		seen += "; " + string(now)
	}
	p.doctor.forget(n)
	f := finding.Warnf("%s (seen at %s)"+rankWaits, text, seen).Named("node.lost")
	if p.doctor.alone(p.ctx) {
		f = f.Do("nft list ruleset; iptables -S; ip -s link   # on this node first: it has lost all others")
	}
	p.tell(f)
}

// fellOver says that a node was lost after its first rank had ended. Its kernel ends the connections of a process that
// has ended: where one is still open here, a process there remains, or its packets are dropped on the way.
func (p *companion) fellOver(end rankEnd, n rendezvous.Partner, at string) finding.Finding {
	f := finding.Warnf("%s, and launch there has ended, too (seen at %s)"+rankWaits, end, at).Named("node.failed").
		Do("%s", meaning(end.Status))
	open := scene.Open(p.doctor.family)
	if !slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...), func(a netip.Addr) bool {
		return slices.Contains(open, a)
	}) {
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
	case !there:
		return fmt.Sprintf("this node's address %s is gone (a new one by DHCP?)", own)
	case i.Flags&net.FlagRunning == 0:
		return i.Name + " has no link"
	}
	if who := p.claimant(own, i); who != nil {
		return fmt.Sprintf("another machine (%s) has this node's address %s, too", who, own)
	}
	return ""
}

// claimant returns the hardware address of another machine that has this node's own address; nil: none is known.
func (p *companion) claimant(own netip.Addr, i net.Interface) net.HardwareAddr {
	who, err := fabric.Claimant(own, i.Name)
	if err != nil || who == nil {
		return nil
	}
	var near []netip.Addr
	for _, n := range p.doctor.others(p.ctx) {
		if onLink(i, n.Addr) {
			near = append(near, n.Addr)
		}
	}
	return usurper(who, near, func(a netip.Addr) net.HardwareAddr {
		theirs, _ := fabric.Claimant(a, i.Name)
		return theirs
	})
}

// usurper returns the machine that answers for this node's address; nil: it may be a device that answers for all. Of
// the other nodes near it, one of the first three has to answer with another hardware address.
func usurper(who net.HardwareAddr, near []netip.Addr, ask func(netip.Addr) net.HardwareAddr) net.HardwareAddr {
	for _, a := range near[:min(3, len(near))] {
		if theirs := ask(a); theirs != nil && !bytes.Equal(theirs, who) {
			return who
		}
	}
	return nil
}

// onLink reports whether an address is in a network of an interface.
func onLink(i net.Interface, a netip.Addr) bool {
	addrs, _ := i.Addrs()
	return slices.ContainsFunc(addrs, func(at net.Addr) bool {
		n, ok := at.(*net.IPNet)
		return ok && n.Contains(a.AsSlice())
	})
}

// callBudget bounds one call to a node that was lost. Where nothing answers, there are calls in a row: a path that has
// just healed takes a new SYN, and TCP would wait longer each time before it sends one again.
const (
	callBudget = 900 * time.Millisecond
	callTries  = 3
)

// heardWithin is how old the last data of a rank may be that goes on without launch on its node: longer than a step of
// most trainings.
const heardWithin = 5 * time.Second

// presenceOf calls a node that was lost. Its ranks may go on without launch.
func (p *companion) presenceOf(n rendezvous.Partner) (now presence) {
	for range callTries {
		if now = p.callLost(n); now != isAbsent {
			break
		}
	}
	other, may := map[presence]presence{hasEnded: isHelper, isStopped: isHelper, isAbsent: isSlow}[now]
	if !may {
		return now
	}
	from := scene.Heard(heardWithin, p.doctor.family)
	if slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...), func(a netip.Addr) bool {
		return slices.Contains(from, a)
	}) {
		return other
	}
	return now
}

func (p *companion) callLost(n rendezvous.Partner) presence {
	ctx, cancel := context.WithTimeout(p.ctx, callBudget)
	defer cancel()
	_, err := sidechannel.Probe(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), p.spec.Token.Keys(p.spec.Job).Client(),
		sidechannel.Options{})
	if sidechannel.Here(err) {
		return presence("this node could not call it: " + err.Error())
	}
	switch sidechannel.CauseOf(err) {
	case "":
		return isBack
	case sidechannel.Refused:
		return hasEnded
	case sidechannel.Silent:
		return isStopped
	case sidechannel.Dropped, sidechannel.NoHost, sidechannel.NoRoute, sidechannel.Unknown:
		return isAbsent
	}
	return notCalled
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
