package start

import (
	"context"
	"net"
	"net/netip"

	"launch/internal/munge"
	"launch/internal/secret"
	"launch/internal/setting"
)

// tokenVariable holds the secret that the nodes share.
const tokenVariable = "LAUNCH_TOKEN"

// makeToken is what a person types for a good one.
const makeToken = "export " + tokenVariable + "=$(openssl rand -hex 16)   # once, the same on all nodes"

// shareSecret takes over the secret that the job's nodes have from their scheduler, if none is set.
func (s *Start) shareSecret() {
	if own := s.Job.Secret; s.Opt.Token == "" && own.Set && s.Job.Several() && s.Job.Store.V.Embedded &&
		secret.Token(own.V).Check() == nil {
		s.Opt.Token, s.shared = secret.Token(own.V), own.From.Name
	}
}

// munged reports whether munge is to hide the nodes' secret: in a job step of Slurm whose nodes have none,
// unless they are told that their network can be trusted.
func (s *Start) munged(ctx context.Context) bool {
	if s.shared == mungeName {
		return true
	}
	if s.Opt.Token != "" || s.Opt.OpenStore || !s.Job.Store.V.Embedded || !s.Job.Several() ||
		s.Job.ID.From != (setting.Source{Tier: setting.Scheduler, Name: "SLURM_JOB_ID"}) || munge.Works(ctx) != nil {
		return false
	}
	s.shared = mungeName
	return true
}

// mungeName is what hides the nodes' secret from other users.
const mungeName = "munge"

// saySecret says, once a job, what protects the store and the side channel, unless a good token does.
func (s *Start) saySecret() {
	if s.saidSecret || !s.Job.Store.V.Embedded {
		return
	}
	s.saidSecret = true
	switch {
	case s.shared == mungeName:
		s.UI.Note("the nodes speak TLS with a key that munge hides from other users; %s goes before it", tokenVariable)
	case s.shared != "":
		s.UI.Note("the nodes speak TLS with a key from %s, which only processes of this job have; %s goes before it",
			s.shared, tokenVariable)
	case s.Opt.Token != "" && s.Opt.Token.Weak():
		s.UI.Note("%s looks made up, and any process that reaches the store can try others; "+
			"openssl rand -hex 16 makes a good one", tokenVariable)
	case s.Opt.Token == "" && !s.Opt.OpenStore && reachable(s.store.Endpoints):
		s.UI.Note("no %s: any process that reaches the store at %s can take part in this job; "+
			"openssl rand -hex 16 makes one, --open-store silences this", tokenVariable, s.store.Endpoints[0])
	}
}

// reachable reports whether other machines may reach one of the endpoints.
func reachable(endpoints []string) bool {
	for _, e := range endpoints {
		host, _, err := net.SplitHostPort(e)
		if a, bad := netip.ParseAddr(host); err == nil && host != "localhost" && (bad != nil || !a.IsLoopback()) {
			return true
		}
	}
	return false
}
