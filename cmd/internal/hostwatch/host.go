package hostwatch

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"launch/cmd/internal/remote"
	"launch/internal/finding"
)

const (
	// beatEvery is the pause between two questions to a shell, and beatLimit how long one may take: a machine whose
	// processors are all busy answers late.
	beatEvery, beatLimit = 3 * time.Second, 30 * time.Second
	// loginLimit bounds a login, and loginEvery is how often one is tried again.
	loginLimit, loginEvery = 9 * time.Second, 10 * time.Second
	// together is how long after the first lost host others count as lost with it.
	together = 2 * time.Second
)

// host is one host and the shell on it.
type host struct {
	Host
	watch *watch

	mu      sync.Mutex // held for as long as the shell is asked
	session *remote.Session
	boot    string // its boot id
	program string // launch, there; "": not known yet
	gone    string // why it is lost; "": it is not
}

// loss is a host that is lost, or that answers again.
type loss struct {
	*host
	why string // "": it answers again
	at  time.Time
}

// attend asks the host again and again until ctx ends.
func (h *host) attend(ctx context.Context) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.session != nil {
			h.session.Close()
		}
	}()
	var why error
	for {
		if h.session == nil {
			if !h.login(ctx, why) {
				return
			}
		}
		if !sleep(ctx, beatEvery) {
			return
		}
		h.mu.Lock()
		why = h.session.Beat(beatLimit)
		if why != nil {
			h.session.End()
			h.session = nil
		}
		h.mu.Unlock()
	}
}

// login gets a shell on the host, for as long as it takes; false: ctx has ended. why is how the last shell ended; nil:
// this is the first one.
func (h *host) login(ctx context.Context, why error) bool {
	for {
		boot, err := h.open(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && h.boot != "" && boot != h.boot:
			h.lost(ctx, "it was started again: its ranks are gone")
		case err == nil && h.gone != "":
			h.report(ctx, loss{host: h})
		case err != nil && (errors.Is(why, remote.ErrUnacked) || errors.Is(why, remote.ErrSilent) || away(err)):
			h.lost(ctx, because(why, err))
		}
		if err == nil {
			h.boot, h.gone = boot, ""
			return true
		}
		if !sleep(ctx, loginEvery) {
			return false
		}
	}
}

// open logs in, and returns the host's boot id.
func (h *host) open(ctx context.Context) (boot string, err error) {
	limited, cut := context.WithCancel(ctx)
	late := time.AfterFunc(loginLimit, cut)
	agent := remote.Agent{Argv: h.watch.spec.Agent, Sockets: h.watch.sockets}
	s, err := remote.Open(limited, agent, h.Target)
	var printed []string
	if err == nil {
		printed, err = s.Do("cat /proc/sys/kernel/random/boot_id")
	}
	if !late.Stop() || err != nil {
		cut()
		return "", cmp.Or(err, context.DeadlineExceeded)
	}
	context.AfterFunc(ctx, cut)
	h.mu.Lock()
	h.session, h.program = s, "" // a copy has ended with the last shell
	h.mu.Unlock()
	return strings.Join(printed, ""), nil
}

// away reports whether a login fails as it does at a machine that is not there. One that refuses it is there: where it
// was started again, the next login shows that.
func away(err error) bool {
	f, ok := errors.AsType[*remote.Failed](err)
	if !ok {
		return false
	}
	for _, words := range []string{"timed out", "No route to host", "Network is unreachable"} {
		if strings.Contains(f.Error(), words) {
			return true
		}
	}
	return f.Late
}

// because says how the shell ended, and why there is no new one.
func because(why, login error) string {
	text := "no login: " + login.Error()
	if why == nil {
		return text
	}
	if f, ok := errors.AsType[*remote.Failed](why); ok {
		return "its shell has ended: " + f.Error() + "; " + text
	}
	return why.Error() + "; " + text
}

// lost reports, once, that the host is lost.
func (h *host) lost(ctx context.Context, why string) {
	if h.gone == "" {
		h.report(ctx, loss{host: h, why: why})
	}
	h.gone = why
}

func (h *host) report(ctx context.Context, l loss) {
	l.at = time.Now()
	select {
	case h.watch.losses <- l:
	case <-ctx.Done():
	}
}

// collect says which hosts are lost, those that are lost together in one finding.
func (w *watch) collect(ctx context.Context) {
	for {
		var all []loss
		var late <-chan time.Time
		for wait := true; wait; {
			select {
			case l := <-w.losses:
				if all = append(all, l); late == nil {
					late = time.After(together)
				}
			case <-late:
				wait = false
			case <-ctx.Done():
				return
			}
		}
		w.judge(ctx, all)
	}
}

// judge says what hosts that were lost within a short time mean.
func (w *watch) judge(ctx context.Context, all []loss) {
	var gone []loss
	for _, l := range all {
		if l.why == "" {
			w.say(finding.Warnf("%s answers again (seen at %s): it or the network stopped for a while", l.Name,
				l.at.Format("15:04:05")).Named("node.lost"), "")
		} else {
			gone = append(gone, l)
		}
	}
	if len(gone) == 0 {
		return
	}
	f := w.lostFinding(gone)
	if !w.spec.FailFast {
		w.say(f, "")
		return
	}
	w.say(f, "ending mpirun: --fail-fast")
	go w.end(ctx)
}

// waits is what a lost host means.
const waits = "ranks that exchange data with it wait, and mpirun itself may notice it after minutes"

// lostFinding says which hosts are lost, and where to look.
func (w *watch) lostFinding(gone []loss) finding.Finding {
	at := gone[0].at.Format("15:04:05")
	names := finding.Map(gone, func(l loss) string { return l.Name })
	f := finding.Warnf("%s was lost (seen at %s): %s", names[0], at, gone[0].why).
		Do("is it up, and its link?  ssh %s uptime", gone[0].Target)
	switch {
	case len(w.spec.Hosts) > 1 && len(gone) == len(w.spec.Hosts):
		f = finding.Warnf("this host has lost all others (seen at %s): %s", at, finding.Some(names)).
			Do("ip -s link; ip route   # on this host first")
	case len(gone) > 1:
		f = finding.Warnf("%d hosts were lost together (seen at %s): %s", len(gone), at, finding.Some(names)).
			Do("what do they share: a switch, a rack, a reboot?")
	}
	if len(gone) > 1 {
		for _, l := range gone[:min(len(gone), maxWhy)] {
			f = f.See(l.Name, "%s", l.why)
		}
	}
	return f.Named("node.lost").Breaking(waits)
}

// maxWhy is how many lost hosts are shown with the reason of each.
const maxWhy = 3
