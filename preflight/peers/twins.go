package peers

import (
	"fmt"
	"slices"

	"launch/internal/finding"
	"launch/internal/sidechannel"
)

// twins returns what is known where another machine also has the called node's address: a
// call to one reaches either. Nodes that share a machine may share an address.
func twins(e edge, posts []Post) (words, bool) {
	at := hostOf(e.call.Addr)
	if e.call.Cause == sidechannel.Token || e.to.Traits.Machine == "" {
		return words{}, false
	}
	has := map[int]bool{} // by rank
	for _, o := range edges(posts) {
		if o.call.Also == e.call.Also && hostOf(o.call.Addr) == at {
			has[o.to.Rank] = true
		}
	}
	var who []string // in rank order, so the text is the same for each of them
	image, other, what := false, false, "machines"
	for _, p := range posts {
		if !has[p.Rank] || p.Traits.Machine == "" || p.Rank != e.to.Rank && p.Traits.sameNetwork(e.to.Traits) {
			continue
		}
		who = append(who, p.Name)
		if p.Rank != e.to.Rank {
			other, image = true, image || p.Traits.Image != "" && p.Traits.Image == e.to.Traits.Image
			if p.Traits.Machine == e.to.Traits.Machine {
				what = "containers"
			}
		}
	}
	if !other {
		return words{}, false
	}
	w := words{id: "peer.identity", several: true,
		why: fmt.Sprintf("%d %s have the address %s: %s", len(who), what, at, finding.Some(who)),
		fix: "containers with networks of their own: docker run --network host …; in Kubernetes the pods' network, " +
			"or hostNetwork: true\n" +
			"else give each machine its own address (ip addr), or choose another network: --addr 10.0.0.0/16"}
	if e.call.Also {
		w.fix = fmt.Sprintf("ip addr   # give each of them its own address in place of %s, or choose another interface", at)
		return w, true
	}
	if image {
		w.why += "; they share one /etc/machine-id, as clones of one disk do, so DHCP gives them one address"
		w.fix = "rm /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; reboot   # on one of them"
	}
	return w, true
}

// inPlaceOf returns the reason and the fix where another node answers a call.
func inPlaceOf(e edge, posts []Post) words {
	who := "another launch"
	if i := slices.IndexFunc(posts, func(p Post) bool { return p.ID == e.call.Other }); i >= 0 {
		who = posts[i].Name
	}
	return words{id: "peer.identity", why: fmt.Sprintf("%s answers at %s in its place", who, e.call.Addr),
		fix: fmt.Sprintf("ip addr   # on both: two machines have that address, or a device forwards it\n"+
			"give %s its own: launch --addr ADDRESS …", e.to.Name)}
}

// clones returns what is known where the two nodes of a call that gets lost have one hardware address.
func clones(e edge) (words, bool) {
	mac := e.from.Traits.PeerMAC
	lost := slices.Contains([]sidechannel.Cause{sidechannel.Dropped, sidechannel.NoHost, sidechannel.Silent}, e.call.Cause)
	if !lost || mac == "" || mac != e.to.Traits.PeerMAC {
		return words{}, false
	}
	return words{id: "peer.identity",
		why: fmt.Sprintf("both have the hardware address %s, as clones of a virtual machine do: the switch sends the "+
			"packets of one to the other", mac),
		fix: fmt.Sprintf("give one of them another MAC in its definition; to try: ip link set %s address "+
			"02:00:00:00:00:01   # on %s", e.to.Traits.PeerIf, e.to.Name)}, true
}

// children returns what is known where one node is a container on an interface of the machine that the other one is on:
// the kernel sends nothing from a macvlan or ipvlan to its own machine.
func children(e edge) (words, bool) {
	a, b := e.from, e.to
	if b.Traits.Child == "" {
		a, b = b, a
	}
	lost := slices.Contains([]sidechannel.Cause{sidechannel.Dropped, sidechannel.NoHost}, e.call.Cause)
	if !lost || b.Traits.Child == "" || a.Traits.Child != "" || a.Traits.Machine == "" ||
		a.Traits.Machine != b.Traits.Machine || a.Traits.sameNetwork(b.Traits) {
		return words{}, false
	}
	return words{
		why: fmt.Sprintf("both are on one machine, and %s of %s is a %s, which never reaches its own machine",
			b.Traits.PeerIf, b.Name, b.Traits.Child),
		fix: fmt.Sprintf("use a bridge or the network of the host for %s, or run %s in a %s of its own", b.Name, a.Name,
			b.Traits.Child)}, true
}

// withoutClones returns the calls to and from other nodes than those of clones: packets to a hardware address that two
// machines have are lost at random.
func withoutClones(all, failed []edge) []edge {
	cloned := map[int]bool{} // by rank
	for _, e := range failed {
		if _, ok := clones(e); ok {
			cloned[e.from.Rank], cloned[e.to.Rank] = true, true
		}
	}
	return slices.DeleteFunc(all, func(e edge) bool { return cloned[e.from.Rank] || cloned[e.to.Rank] })
}
