package diagnose

import (
	"fmt"
	"slices"

	"launch/diagnose/scene"
)

// outward reports whether a connection of a node leads to a machine that is no node of the job.
func (v *view) outward(n *node, k scene.Socket) bool {
	at := k.Remote.Addr().Unmap()
	return at.IsValid() && !v.isStore(n, k) && v.leadsTo(n, k) == nil && v.peerAt(at) == "" && v.atAddr(at) == nil
}

// ofOthers reports whether a connection of a node leads to another machine, or on a node of the job to a process that
// is not of the job: no process of the job is seen to have the other end.
func (v *view) ofOthers(n *node, k scene.Socket) bool {
	to := v.leadsTo(n, k)
	if to == nil || v.isStore(n, k) {
		return v.outward(n, k)
	}
	return v.readable(to) && !slices.ContainsFunc(to.scene.Sockets, func(o scene.Socket) bool {
		return o.Local == k.Remote && o.Remote == k.Local && o.PID != 0
	})
}

// leadsTo returns the node with a scene to which a connection of one leads; nil: it leads to no such node.
func (v *view) leadsTo(n *node, k scene.Socket) *node {
	if k.Remote.Addr().Unmap().IsLoopback() {
		return n
	}
	for _, o := range v.nodes {
		if o.isAt(k.Remote.Addr().Unmap()) {
			return o
		}
	}
	return nil
}

// place names the other end of a connection, with its node if that is one of the job.
func (v *view) place(n *node, k scene.Socket) string {
	if to := v.leadsTo(n, k); to != nil {
		return fmt.Sprintf("%s (%s)", k.Remote, to.name)
	}
	return k.Remote.String()
}
