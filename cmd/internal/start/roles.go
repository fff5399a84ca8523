package start

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// rolesOf returns the nodes of each role, in rank order.
func rolesOf(all []rendezvous.Partner) map[string][]rendezvous.Partner {
	out := map[string][]rendezvous.Partner{}
	for _, p := range all {
		out[p.Role] = append(out[p.Role], p)
	}
	return out
}

// after returns the roles that this node waits for.
func (s *Start) after() []string {
	return finding.Map(s.Job.After, func(a job.After) string { return a.Role })
}

// masterNode returns the node on which the job's own store of this node's command will listen.
func (s *Start) masterNode() rendezvous.Partner {
	if mine := s.roles[s.Job.Role.V]; s.Job.Role.Set && len(mine) > 0 {
		return mine[0]
	}
	return s.World.Master.Partner(0)
}

// narrow makes of the world of all nodes that of this node's role.
func (s *Start) narrow(w *launcher.World) {
	mine := s.roles[s.Job.Role.V]
	rank := slices.IndexFunc(mine, func(p rendezvous.Partner) bool { return p.Rank == s.World.Rank })
	if rank < 0 {
		return // the nodes are not known yet
	}
	w.Nodes, w.NodeRank = launcher.Known(len(mine)), launcher.Known(rank)
	w.MasterAddr, w.MasterPort = mine[0].Addr.String(), launcher.Known(mine[0].Port)
}

// roleVars are the variables by which a command finds the nodes of each role.
func (s *Start) roleVars() []setting.Var {
	if !s.Job.Role.Set {
		return nil
	}
	set := func(role, what, value, why string) setting.Var {
		return setting.Var{Name: job.RoleVariable(role, what), Value: value, Scope: setting.Job, Reason: why,
			Source: "rendezvous"}
	}
	var out []setting.Var
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		if name == "" {
			continue // the decision says that these nodes have none
		}
		nodes := s.roles[name]
		addrs := finding.Map(nodes, func(p rendezvous.Partner) string { return p.Addr.String() })
		out = append(out,
			set(name, "ADDR", addrs[0], "the address of the first node of role "+name),
			set(name, "ADDRS", strings.Join(addrs, ","), "the addresses of the nodes of role "+name+", by node rank"))
	}
	return out
}

// Waiting for a role: how often its nodes are asked, when that is said first and then again, and for how long a node
// may be silent. Its launch answers for as long as its command runs.
const (
	rolePoll   = 200 * time.Millisecond
	roleCall   = 3 * time.Second
	roleSay    = 5 * time.Second
	roleAgain  = time.Minute
	roleSilent = 20 * time.Second
)

// awaitRoles says which place this node has in its role, and waits until each node of the roles of --after listens.
func (s *Start) awaitRoles(ctx context.Context) error {
	if s.Job.Role.Set {
		w := s.world()
		s.UI.Note("role %s: node rank %s of %d, with MASTER_ADDR %s and MASTER_PORT %s", s.Job.Role.V, w.NodeRank, w.Nodes.V,
			w.MasterAddr, w.MasterPort)
	}
	for _, a := range s.Job.After {
		for _, p := range s.roles[a.Role] {
			if err := s.awaitNode(ctx, a, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitNode waits until a node listens on the port of --after, or its command has ended.
func (s *Start) awaitNode(ctx context.Context, a job.After, p rendezvous.Partner) error {
	began := time.Now()
	say, heard := began.Add(roleSay), began
	keys := s.Opt.Token.Keys(s.Job.ID.V).Client()
	for {
		h, err := hear(ctx, p, keys, a.Port)
		now := time.Now()
		if err == nil {
			heard = now
		}
		switch {
		case h == sidechannel.Listens:
			if now.Sub(began) > roleSay {
				s.UI.Note("%s listens on port %d, after %s", p.Name, a.Port, now.Sub(began).Round(time.Second))
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (sidechannel.CauseOf(err) == sidechannel.Refused || now.Sub(heard) > roleSilent):
			return exit.Errorf(exit.PeerUnfit, "--after %s: the command of %s has ended, or the node is lost, and nothing has "+
				"listened on port %d there", a, p.Name, a.Port).Do("read what %s printed", p.Name)
		}
		if now.After(say) {
			s.UI.Note("%s", awaited(a, p, h, err, now.Sub(began)))
			say = now.Add(roleAgain)
		}
		select {
		case <-time.After(rolePoll):
		case <-ctx.Done():
		}
	}
}

// awaited says what this node waits for.
func awaited(a job.After, p rendezvous.Partner, h sidechannel.Hearing, err error, since time.Duration) string {
	what := "nothing listens there yet"
	switch {
	case err != nil:
		what = "its launch does not answer: " + err.Error()
	case h == sidechannel.Elsewhere:
		what = fmt.Sprintf("a program listens there, but not at %s, which the other nodes use: give it that address, "+
			"or 0.0.0.0", p.Addr)
	}
	return fmt.Sprintf("waiting for port %d on %s (--after %s), for %s: %s", a.Port, p.Name, a,
		since.Round(time.Second), what)
}

// hear asks a node whether a program there listens on a port.
func hear(ctx context.Context, p rendezvous.Partner, keys *tls.Config, port int) (sidechannel.Hearing, error) {
	ctx, cancel := context.WithTimeout(ctx, roleCall)
	defer cancel()
	return sidechannel.Hear(ctx, netip.AddrPortFrom(p.Addr, uint16(p.Peer)), keys, p.ID, port)
}
