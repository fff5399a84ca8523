package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"launch/diagnose/scene"
)

// hosts returns one node for each scene, the latest of a host, and one for each further network namespace that a
// scene shows: a container is a node of its own.
func hosts(scenes []scene.Scene) (out []*node) {
	for i := range scenes {
		s := &scenes[i]
		same := slices.IndexFunc(out, func(n *node) bool {
			return n.scene.Host == s.Host && n.scene.Boot == s.Boot && n.scene.Net == s.Net
		})
		if same < 0 {
			out = append(out, &node{name: s.Host, index: -1, scene: s})
			continue
		}
		out[same].scene = latest(out[same].scene, s)
	}
	known := map[process]bool{}
	var inside []*node
	for _, n := range out {
		own, others := apart(n.scene)
		n.scene = own
		for _, p := range own.Procs {
			known[identity(p)] = true
		}
		inside = append(inside, others...)
	}
	for _, n := range inside {
		if !slices.ContainsFunc(n.scene.Procs, func(p scene.Proc) bool { return known[identity(p)] }) {
			for _, p := range n.scene.Procs {
				known[identity(p)] = true
			}
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return out
}

// latest returns the later one of a host's two scenes, with what a companion alone knows, which may have taken the
// other.
func latest(a, b *scene.Scene) *scene.Scene {
	if b.Taken.After(a.Taken) {
		a, b = b, a
	}
	s := *a
	if s.Paths == nil && s.Ways == nil {
		s.Paths, s.Ways, s.Sockets = b.Paths, b.Ways, remembered(s.Sockets, b.Sockets)
	}
	if s.Crawls == nil {
		s.Crawls = b.Crawls
	}
	if s.Past == nil {
		s.Past = b.Past
	}
	return &s
}

// process identifies a process: two nodes with the same PID, start to the millisecond and namespace are one.
type process struct {
	pid     int
	started time.Time
	net     uint64
}

func identity(p scene.Proc) process {
	return process{p.PID, p.Started.Round(100 * time.Millisecond), p.Net}
}

// apart divides a scene by network namespaces: the reader's own, with what has no namespace, and the others.
func apart(s *scene.Scene) (own *scene.Scene, others []*node) {
	foreign := func(net uint64) bool { return net != 0 && s.Net != 0 && net != s.Net }
	nets := map[uint64]bool{}
	for _, p := range s.Procs {
		if foreign(p.Net) {
			nets[p.Net] = true
		}
	}
	if len(nets) == 0 {
		return s, nil
	}
	only := func(keep func(uint64) bool) scene.Scene {
		c := *s
		c.Procs = slices.DeleteFunc(slices.Clone(s.Procs), func(p scene.Proc) bool { return !keep(p.Net) })
		c.Sockets = slices.DeleteFunc(slices.Clone(s.Sockets), func(k scene.Socket) bool { return !keep(k.Net) })
		c.Stores = slices.DeleteFunc(slices.Clone(s.Stores), func(st scene.Store) bool { return !keep(st.Net) })
		return c
	}
	rest := only(func(net uint64) bool { return !foreign(net) })
	for _, net := range slices.Sorted(maps.Keys(nets)) {
		c := only(func(n uint64) bool { return n == net })
		c.Net, c.Addrs = net, localAddrs(c.Sockets)
		others = append(others, &node{name: containerName(s.Host, c.Procs), index: -1, scene: &c})
	}
	return &rest, others
}

// containerName names a container by the host name that its processes have in their environment, as Kubernetes
// sets it for a pod, else by one of them.
func containerName(host string, procs []scene.Proc) string {
	for _, p := range procs {
		if name := p.Env["HOSTNAME"]; name != "" && name != host {
			return name
		}
	}
	return fmt.Sprintf("%s (container of pid %d)", host, procs[0].PID)
}

// localAddrs returns the addresses that sockets have at this end, without loopback.
func localAddrs(all []scene.Socket) (out []netip.Addr) {
	for _, k := range all {
		if a := k.Local.Addr().Unmap(); a.IsValid() && !a.IsLoopback() && !a.IsUnspecified() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// remembered returns sockets with the marks that an earlier look has given the same ones.
func remembered(sockets, earlier []scene.Socket) []scene.Socket {
	marked := slices.DeleteFunc(slices.Clone(earlier), func(k scene.Socket) bool { return !k.Forgot })
	if len(marked) == 0 {
		return sockets
	}
	out := slices.Clone(sockets)
	for i := range out {
		out[i].Forgot = out[i].Forgot || slices.ContainsFunc(marked, func(k scene.Socket) bool {
			return k.Local == out[i].Local && k.Remote == out[i].Remote
		})
	}
	return out
}
