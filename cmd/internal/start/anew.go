package start

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"

	"launch/internal/dns"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/rendezvous"
)

// renews returns whether launch starts itself again where the run of this node is over, as where the machine of
// the store is lost: in a pod of a controller that would end it, and 10 s later start another one with the same line.
func (s *Start) renews() bool {
	return s.Subcommand == "" && s.Opt.Restarts > 0 && ofAPod(s.Job) && s.Job.Vouch == job.Scheduled
}

// anew becomes launch with the same line if err is the end of this node's run. It returns err where that is not so, and
// in a pod that has been replaced already: its name has the address of the newer one, too.
func (s *Start) anew(ctx context.Context, err error) error {
	over, ok := errors.AsType[*rendezvous.RunOverError](err)
	if !ok || !s.renews() || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	servers := dns.Pods{Config: nameServers(s.Node)}
	if !onlyPod(servers.Find(ctx, s.Job.Pod.FullName()), s.Node.IsLocal) {
		return err
	}
	s.UI.Note("%v; launch starts again in this pod", over)
	s.stop()
	if s.caught() == nil {
		_ = handoff.Exec("/proc/self/exe", os.Args, handoff.Environ())
	}
	return err // the controller does the same
}

// onlyPod returns whether all addresses of a pod's name are its own.
func onlyPod(addrs []netip.Addr, own func(netip.Addr) bool) bool {
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !own(a) })
}
