package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/process"
	"launch/preflight/network"
	"launch/rendezvous"
)

// depart leaves the job, reports err to the other nodes, and returns how this node ends; nil: well.
func (s *Start) depart(ctx context.Context, err error) error {
	err = s.numberedTwice(s.blameWay(ctx, err))
	if s.comp == nil {
		return s.inPod(err)
	}
	s.leave(s.farewell(ctx, err))
	s.reported = !isDuplicate(err) && !errors.Is(err, companion.ErrDied) // these are not registered
	// the job needed no standby node, and ended well
	if e, ok := errors.AsType[*rendezvous.SpareError](err); ok && e.Why == "" {
		s.status = 0
		s.UI.Note("%v", e)
		return nil
	}
	return s.inPod(err)
}

// blameWay turns the error about a store that does not answer into one about this node's own link or route.
func (s *Start) blameWay(ctx context.Context, err error) error {
	if !errors.Is(err, rendezvous.ErrUnreachable) || s.store == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstLook)
	defer cancel()
	var all []netip.AddrPort
	for _, host := range storeNames(s.Job.Store.V) {
		addrs, _ := systemResolver(ctx, host)
		for _, a := range addrs {
			all = append(all, netip.AddrPortFrom(a, uint16(s.Job.Store.V.Port)))
		}
	}
	if f := fabric.Stuck(all); f.Why != "" {
		return exit.Errorf(exit.Unreachable, "the store at %s is not reached, and the reason is here: %s",
			strings.Join(s.store.Endpoints, ", "), f.Why).Do("%s", f.Here())
	}
	if i := slices.IndexFunc(s.Local, unanswered); i >= 0 && silent(err) && !s.wait.hasAnswered() {
		return exit.Errorf(exit.Unreachable, "store unreachable: %s", s.Local[i].What).Do("%s", s.Local[i].Fix)
	}
	if why := s.wait.reason(); why != "" && !strings.Contains(err.Error(), rendezvous.LongPackets) {
		return exit.Errorf(exit.Unreachable, "%v", err).Do("%s", why)
	}
	return err
}

// unanswered reports whether a finding says why no endpoint of the store answered when this node began.
func unanswered(f finding.Finding) bool {
	return f.ID == "store.answers" && f.Status == finding.Warn &&
		(strings.Contains(f.What, network.NotEven) || strings.Contains(f.What, network.OtherSource))
}

// silent reports whether the store still gives no sign: it has neither refused a call nor taken one.
func silent(err error) bool {
	text := err.Error()
	return !strings.Contains(text, "refused") && !strings.Contains(text, rendezvous.LongPackets)
}

// leave ends the companion; the other nodes learn why.
func (s *Start) leave(why string) {
	s.comp.Leave(why)
	s.comp = nil
}

// notNeeded is why a standby node leaves at the end of a job.
const notNeeded = "the job did not need this standby node"

// farewell returns why this node leaves, for the others.
func (s *Start) farewell(ctx context.Context, err error) string {
	if sig, ok := s.caught().(syscall.Signal); ok && ctx.Err() != nil {
		return endedBy(sig)
	}
	switch e, _ := errors.AsType[*exit.Error](err); {
	case e != nil && e.Code == exit.Missing:
		return rendezvous.TimeUp
	case e != nil && e.Code == exit.Unfit:
		return s.unfitBy()
	}
	if _, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return notNeeded
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return fmt.Sprintf(otherSize+" %s, this job has %s", e.Self, e.Want)
	}
	return err.Error()
}

// How the texts begin with which a node that is unfit, or that expects another number of nodes, leaves.
const (
	unfitHere = "it is unfit"
	otherSize = "it was refused: it has --nnodes"
)

// cures returns what to do about the nodes that have said why they do not take part, and whether no other is missing.
func cures(m *rendezvous.MissingError) (fix string, all bool) {
	by := map[string]map[string]bool{unfitHere: {}, otherSize: {}}
	for _, n := range m.Unfit {
		by[unfitHere][n.Name] = true
	}
	for _, l := range m.Left {
		for why, names := range by {
			if strings.HasPrefix(l.Left, why) {
				names[l.Name()] = true
			}
		}
	}
	var out []string
	if len(by[unfitHere]) > 0 {
		out = append(out, "fix the unfit node")
	}
	if len(by[otherSize]) > 0 {
		out = append(out, "give the same --nnodes on every node")
	}
	known := len(by[unfitHere]) + len(by[otherSize]) + m.More
	return strings.Join(out, "; "), known > 0 && m.Joined+known >= cmp.Or(m.Min, m.Want)
}

// unfitBy says, for the others, why this node is unfit: the first finding between the nodes that names it, else the
// first one, else its own.
func (s *Start) unfitBy() string {
	failed := s.Peer.Failed()
	if s.World != nil {
		own := s.World.Self.Name()
		if i := slices.IndexFunc(failed, func(f finding.Finding) bool { return slices.Contains(f.Nodes, own) }); i > 0 {
			failed = failed[i:]
		}
	}
	if len(failed) == 0 {
		failed = s.Local.Failed()
	}
	if len(failed) == 0 {
		return unfitHere
	}
	return unfitHere + ": " + failed[0].What
}

// endedBy says, for the others, that a signal ended this node.
func endedBy(sig syscall.Signal) string {
	return "it was ended by " + cmp.Or(rendezvous.Ender(128+int(sig)), sig.String())
}

// missing turns a wait that ran out into an error that names the missing nodes.
func (s *Start) missing(err error) error {
	m, ok := errors.AsType[*rendezvous.MissingError](err)
	if !ok {
		return err
	}
	m.Attendance = m.Total()
	joined, left := m.Joined, ui.Left(m.Left)
	for _, l := range m.Left {
		if l.Index >= 0 { // without an index it may have joined again as another node
			joined++
		}
	}
	again := "start launch with the same line on the missing nodes, or raise --join-timeout"
	fix, known := cures(m)
	switch {
	case known:
		again = fix + ", then start launch there with the same line"
	case fix != "":
		again = fix + "; " + again
	}
	if len(m.Unfit) > 0 {
		left += "; " + ui.Unfit(m.Unfit, m.More)
	}
	if s.twins {
		again = numbered(s.Job.Index.From.Name) + "\n" + again
	}
	switch {
	case m.Running != "":
		return s.taken(m)
	case joined >= cmp.Or(m.Min, m.Want):
		return exit.Errorf(exit.Missing, "%s nodes joined, but were not ready together within %s%s", ui.All(joined, m.Want),
			s.Opt.JoinTimeout, left).
			Do("%s", cmp.Or(fix, "see the findings above, or raise --join-timeout"))
	}
	at := s.Job.Store.V
	_, named := netip.ParseAddr(at.Host)
	switch {
	case storeaddr.LoopbackName(at.Host):
		again += "\n--store " + at.Host + " is the address of each machine itself: it serves only nodes on one machine"
	case !known && at.Embedded && !at.Shared && named != nil && len(s.store.Serve) > 0:
		again += fmt.Sprintf("\ngetent hosts %s   # on the missing nodes: the store is at %s", at.Host, s.store.Addr)
	}
	left += s.strangers(m.Attendance)
	return exit.Errorf(exit.Missing, "only %d of %s nodes joined within %s; missing: %s%s", joined,
		ui.Wanted(m.Attendance), s.Opt.JoinTimeout,
		ui.Missing(m.Attendance, s.Job.Hosts), left).Do("%s", again)
}

// taken returns the error of a node that waited for the end of the job's previous start.
func (s *Start) taken(m *rendezvous.MissingError) error {
	at := s.Job.Store.V
	if m.Ended {
		return exit.Errorf(exit.Unreachable, "the store at %s has ended: it was the store of the previous start of this job "+
			"(%s), and no new one has begun within %s", at.Endpoints[0], m.Running, s.Opt.JoinTimeout).
			Do("start launch with the same line on every node of the new start; the one that --store names hosts the store")
	}
	other := "give the new job another name: --job"
	if at.Embedded {
		other = fmt.Sprintf("give the new job a store of its own, on every node: --store %s", job.NextPort(at.Endpoints[0]))
	}
	return exit.Errorf(exit.Missing, "the job still runs on %s and has no place for this node", m.Running).
		Do("if this node belongs to it: --nnodes %d on all nodes\nelse wait until it ends, or %s", m.Want+1, other)
}

// strangers names the machines that are connected to the store that this node hosts, and are no node that has joined.
func (s *Start) strangers(a rendezvous.Attendance) string {
	if len(s.store.Serve) == 0 || len(a.Here) < a.Joined {
		return ""
	}
	joined := strings.Join(a.Here, " ")
	var out []string
	for _, end := range process.Callers(os.DirFS("/proc"), int(s.store.Serve[0].Port())) {
		at := end.Addr()
		if !strings.Contains(joined, "("+at.String()+")") && !s.Node.IsLocal(at) && !slices.Contains(out, at.String()) {
			out = append(out, at.String())
		}
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s %s connected to the store, and has not joined: see what launch says there", finding.Some(out),
		map[bool]string{true: "is", false: "are"}[len(out) == 1])
}
