package companion

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// severPause is how long the end of a connection may be on its way, and severBudget bounds the question for it: the
	// command ends soon, and in a container this process with it.
	severPause, severBudget = 200 * time.Millisecond, 700 * time.Millisecond
	// maxSevered is how many other nodes are asked.
	maxSevered = 32
)

// severed names the other nodes that have connections open which have ended on this node; links are all of these.
type severed struct {
	nodes []string
	links []scene.Link
}

// whoIsSevered asks the other nodes for their open connections to this one, after a rank of this node has ended: its
// kernel ends its connections, and that arrives within a round trip on a sound path.
func (d *doctor) whoIsSevered(ctx context.Context) (out severed) {
	ctx, cancel := context.WithTimeout(ctx, severPause+severBudget)
	defer cancel()
	w := d.world.Load()
	if w == nil {
		return out
	}
	others := d.others(ctx)
	others = others[:min(len(others), maxSevered)]
	time.Sleep(severPause)
	links := d.linksOfAll(ctx, others)
	found := scene.Severed(slices.Concat(links...), append(slices.Clone(w.Self.Addrs), w.Self.Addr))
	if len(found) == 0 {
		return out
	}
	for i, again := range d.linksOfAll(ctx, others) { // one that was just closed is gone at the second look
		still := slices.DeleteFunc(links[i], func(l scene.Link) bool {
			return !slices.Contains(found, l) || !slices.Contains(again, l)
		})
		if len(still) > 0 {
			out.nodes, out.links = append(out.nodes, others[i].Name), append(out.links, still...)
		}
	}
	slices.Sort(out.nodes)
	return out
}

// linksOfAll asks each of some nodes for its open connections to this one.
func (d *doctor) linksOfAll(ctx context.Context, all []rendezvous.Partner) [][]scene.Link {
	ctx, cancel := context.WithTimeout(ctx, severBudget/2)
	defer cancel()
	links := make([][]scene.Link, len(all))
	var asked sync.WaitGroup
	for i, n := range all {
		asked.Go(func() { links[i] = d.linksOf(ctx, n) })
	}
	asked.Wait() // a node that does not answer leaves time for a second look at the others
	return links
}

// linksOf asks a node for its open connections to this one.
func (d *doctor) linksOf(ctx context.Context, n rendezvous.Partner) (links []scene.Link) {
	keys := d.p.spec.Token.Keys(d.p.spec.Job).Client()
	if text, err := sidechannel.LinksOf(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), keys, n.ID); err == nil {
		_ = json.Unmarshal(text, &links)
	}
	return links
}

// reset reports that a rank of this node failed first of all, and that other nodes have connections open to it that
// have ended here: something between has ended them. A signal from outside explains the end of a rank.
func (e *ends) reset(ctx context.Context) {
	status := int(e.failed.own.Load())
	if status == 0 || status > 128 || !e.failed.known() || e.failed.end.ID != e.p.world.Self.ID || e.p.blamed.Load() {
		return
	}
	var s severed
	e.severed.Do(func() { s = e.p.doctor.whoIsSevered(ctx) })
	if len(s.nodes) == 0 || e.together() != nil {
		return
	}
	e.p.blamed.Store(true)
	e.p.say(severedFinding(e.failed.end, s), "")
}

// severedFinding says what connections mean that have ended at one end only.
func severedFinding(end rankEnd, s severed) finding.Finding {
	f := finding.Warnf("%s, the first of all ranks, and %s still has %s to this node open that ended here: something "+
		"between drops or resets packets, as a firewall does that forgets idle connections. A rank fails by that "+
		"(\"Connection reset by peer\", \"closed by peer\")", end, finding.Some(s.nodes),
		finding.Plural(len(s.links), "connection", "connections")).Named("node.failed")
	for _, l := range s.links[:min(len(s.links), 2)] {
		f = f.See("sockets there", "%s", fmt.Sprintf("%s to %s, established; here: closed", l.Local, l.Remote))
	}
	return f.Do("sysctl net.netfilter.nf_conntrack_tcp_timeout_established; nft list ruleset   # on both nodes, and " +
		"between")
}
