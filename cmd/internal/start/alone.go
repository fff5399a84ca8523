package start

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/cmd/internal/storeaddr"
	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/rendezvous"
)

// aloneAfter is how long a node waits alone before it says what may keep the others away: a node that is started
// by hand takes a few seconds to follow.
const aloneAfter = 5 * time.Second

// sayAlone prints what may keep the others away from the store that this node hosts.
func (s *Start) sayAlone() {
	if f := s.misled(); f != nil {
		s.UI.Findings(f, false)
	} else if text := s.alone(); text != "" {
		s.UI.Note("%s", text)
	}
}

// alone returns what may keep the others away from the store that this node hosts; "": it hosts none.
func (s *Start) alone() string {
	at, place := s.Job.Store.V, s.store
	if !at.Embedded || len(place.Serve) == 0 {
		return ""
	}
	text := fmt.Sprintf("no other node has joined within %s: ", aloneAfter)
	if storeaddr.LoopbackName(at.Host) {
		return text + fmt.Sprintf("%s %s is the address of each machine itself, and serves only nodes on this machine. "+
			"If there are several machines, name one of them on all: --store HOST", s.Job.Store.From.Name, at.Host)
	}
	if at.Shared {
		return text + fmt.Sprintf("this node hosts the store of %s, the name of a Service, as its %s is 0. Other pods "+
			"whose %[2]s is 0, too, host one of their own: then name one pod on all, --store POD.SERVICE, and unset it",
			at.Host, s.Job.Index.From.Name)
	}
	if s.Job.Store.From.Name == job.PodHostName {
		return text + fmt.Sprintf("do the other pods run? %s", getPods(*s.Job.Pod))
	}
	text += fmt.Sprintf("this node hosts the store at %s. Check that all nodes have the same %s",
		strings.Join(place.Endpoints, ", "), s.Job.Store.From.Name)
	if s.Node.IsNamed(at.Host) {
		text += ": a line with $(hostname) names another host on each"
	}
	if a := place.Serve[0].Addr(); ownNetwork(s.Node) && s.bridged(a) {
		text += fmt.Sprintf(". %s is in a network of this machine's containers alone: other machines reach this one "+
			"where the container runs with --network host", a)
	}
	return text
}

// bridged reports whether an address of this container is in a network that docker or podman makes by default
// (default-address-pools of dockerd, default_subnet and default_subnet_pools in containers.conf).
func (s *Start) bridged(a netip.Addr) bool {
	i, _ := s.Node.InterfaceOf(a)
	return i.Kind == "veth" && slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool {
		return p.Addr() == a && slices.ContainsFunc([]string{"172.17.0.0/16", "172.18.0.0/15", "172.20.0.0/14",
			"172.24.0.0/14", "172.28.0.0/14", "10.88.0.0/16"}, func(pool string) bool {
			return p.Bits() == 16 && netip.MustParsePrefix(pool).Contains(a)
		})
	})
}

// misled returns a finding, if any, about the store's name where it leads to this node, which has another name and is
// not node rank 0: for the others it leads elsewhere, and this node waits at a store of its own.
func (s *Start) misled() []finding.Finding {
	at, index := s.Job.Store.V, s.Job.Index
	_, err := netip.ParseAddr(at.Host)
	if !at.Embedded || len(s.store.Serve) == 0 || err == nil || storeaddr.LoopbackName(at.Host) || !index.Set ||
		index.V == 0 || s.Node.IsNamed(at.Host) || len(s.store.Others(s.Node)) > 0 {
		return nil
	}
	f := finding.Warnf("%s leads to this node, which is %s and node rank %d: no other node has joined the store that it "+
		"hosts", at.Host, s.Node.Hostname, index.V).Named("store.resolves").
		Breaking("if that name leads the others to another machine, this node waits alone").
		Do("getent hosts %s   # on this node and on another one\nthen correct /etc/hosts or the name server", at.Host)
	for _, l := range s.Node.System.Hosts {
		if l.Has(at.Host) {
			f = f.See("/etc/hosts", "%s %s", l.Addr, at.Host)
		}
	}
	return []finding.Finding{f}
}

// unhosted returns what to do about a store that refuses connections; "": nothing is known.
func (s *Start) unhosted(e rendezvous.Event) string {
	at := s.Job.Store.V
	if s.store == nil || !at.Embedded || len(s.store.Serve) > 0 || s.store.At.IsValid() ||
		!strings.Contains(e.Text, "connection refused") {
		return ""
	}
	if at := s.onlyStore(); at.IsValid() {
		if f := fabric.Taken(at.Addr()); f.Why != "" {
			return fmt.Sprintf("the store at %s refuses, and the reason is here: %s\n%s", at, f.Why, f.Here())
		}
	}
	text := fmt.Sprintf("no launch listens at %s yet: the node that has this address hosts the store. Start launch there "+
		"with the same line, or name one of the nodes: --store HOST", strings.Join(s.store.Endpoints, ", "))
	if a := s.store.Addr; userMode(a, s.onlyStore()) {
		return fmt.Sprintf("no launch listens at %s yet, and this node's own address is %s, which each container with a "+
			"user-mode network (slirp4netns, QEMU) has: the nodes cannot reach each other there, and none has the store's "+
			"address. Start the containers with --network host: then each node has the addresses of its machine",
			strings.Join(s.store.Endpoints, ", "), a)
	}
	if ownNetwork(s.Node) {
		text += "; in a container, --network host gives it the addresses of its machine"
	}
	return text + s.otherPort() + s.meant() + translated(s.onlyStore())
}

// translated says where this node's NAT sends calls to the store, which is at no node's address then; "": nowhere else.
func translated(at netip.AddrPort) string {
	on := fabric.Redirected(netip.Addr{}, at)
	if !on.IsValid() || on.Addr().IsLoopback() {
		return ""
	}
	return fmt.Sprintf(". No node has that address: this node's NAT (kube-proxy, or a rule of nft or iptables) sends "+
		"calls to it on to %s. The node there does not see that it is meant: name it on all, --store %s", on, on.Addr())
}

// otherPort says that something listens at the usual port of the store's host, where another one is named; "": not so.
func (s *Start) otherPort() string {
	at := s.onlyStore()
	if !at.IsValid() || at.Port() == job.DefaultStorePort {
		return ""
	}
	usual := netip.AddrPortFrom(at.Addr(), job.DefaultStorePort)
	conn, err := net.DialTimeout("tcp", usual.String(), time.Second)
	if err != nil {
		return ""
	}
	conn.Close()
	return fmt.Sprintf(". Something listens at %s, the usual port of a store: has another node of this job that one?",
		usual)
}

// meant says what the store's name means on this node, and how to compare it; "": it is an address.
func (s *Start) meant() string {
	name := s.Job.Store.V.Host
	if _, err := netip.ParseAddr(name); err == nil || len(s.store.Means) == 0 {
		return ""
	}
	from := "by the name server"
	for _, l := range s.Node.System.Hosts {
		if l.Has(name) && slices.Contains(s.store.Means, l.Addr) {
			from = fmt.Sprintf("by /etc/hosts: %s %s", l.Addr, strings.Join(l.Names, " "))
			break
		}
	}
	return fmt.Sprintf(". %s is %s here, %s. If a node has joined already, compare there: getent hosts %[1]s", name,
		finding.Join(s.store.Means, netip.Addr.String), from)
}

// claimed returns a finding, if any, about another machine that has an address of this node, on the interface of its
// address for the others, as far as this node may ask.
func (s *Start) claimed(addr netip.Addr) []finding.Finding {
	i, _ := s.Node.InterfaceOf(addr)
	for _, p := range i.Addrs {
		who, err := fabric.Claimant(p.Addr(), i.Name)
		if err != nil || who == nil {
			continue
		}
		return []finding.Finding{finding.Warnf("another machine (%s) has %s, too, an address of this node", who, p.Addr()).
			Named("addr.taken").See("ARP", "%s answers on %s for %s", who, i.Name, p.Addr()).
			Breaking("packets for one of the two reach the other: nodes do not join, and connections hang").
			Do("ip neigh   # on a third machine: which of the two it knows\nthen give one of them another address")}
	}
	return nil
}

// twin returns where this node has the rank from that another node has, too.
func (s *Start) twin(other string) string {
	i := s.Job.Index
	if !i.Set {
		return ""
	}
	s.twins = true
	from := i.From.Name
	return fmt.Sprintf("node rank %d is from %s here, and %s has it, too; %s", i.V, from, other, numbered(from))
}

// numbered returns what to do about a source that gives two nodes the same rank.
func numbered(from string) string {
	if _, flag, typed := strings.Cut(" "+from, " -"); typed { // launch's own, or the command's
		return fmt.Sprintf("give each node its own -%s, or omit it on all: node ranks then go by arrival", flag)
	}
	unset := from
	if strings.HasPrefix(from, "SLURM_") {
		unset = "SLURM_JOB_ID" // without it no variable of Slurm counts
	}
	return fmt.Sprintf("if %s is exported alike on every node, unset %s on all: node ranks then go by arrival", from,
		unset)
}

// twinError is the error of a node whose rank another node has, with where it is from.
type twinError struct {
	*rendezvous.DuplicateError
	known *exit.Error
}

func (e *twinError) Error() string { return e.known.What }

func (e *twinError) Unwrap() []error { return []error{e.known, e.DuplicateError} }

// numberedTwice adds to the error of a node whose rank another node has where both have it from.
func (s *Start) numberedTwice(err error) error {
	e, duplicate := errors.AsType[*rendezvous.DuplicateError](err)
	newer, superseded := errors.AsType[*rendezvous.SupersededError](err)
	from := s.Job.Index.From.Name
	switch {
	case duplicate:
		return &twinError{e, exit.Errorf(exit.Duplicate, "%v (from %s)", e, from).Do("%s", numbered(from))}
	case superseded && newer.Newer.Machine != newer.Self.Machine:
		return exit.Errorf(exit.Duplicate, "%v (from %s)", newer, from).
			Do("%s\nif that node replaces this one, there is nothing to do here", numbered(from))
	}
	return err
}

// userMode reports whether an address of this node is in the network that slirp4netns and QEMU's user-mode network give
// by default (slirp4netns(1): 10.0.2.100; QEMU: 10.0.2.15; both: the router 10.0.2.2), which leads to no other machine,
// and the way to the store is by its router. A cloud's own network may have the same numbers, and another router.
func userMode(a netip.Addr, store netip.AddrPort) bool {
	if a != netip.AddrFrom4([4]byte{10, 0, 2, 100}) && a != netip.AddrFrom4([4]byte{10, 0, 2, 15}) || !store.IsValid() {
		return false
	}
	way, err := fabric.CourseOf(netip.AddrPort{}, store)
	return err == nil && way.Gateway == netip.AddrFrom4([4]byte{10, 0, 2, 2})
}

// ownNetwork reports whether a node is in a container that has a network of its own by default, which other machines do
// not reach.
func ownNetwork(n fabric.Node) bool {
	return n.Container.Kind == "docker" || n.Container.Kind == "podman"
}
