package companion

import (
	"context"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/ui"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/tcpstore"
	"launch/rendezvous"
)

// reaped is how long the parent of a command that has ended may take to ask for
// its status, before which the kernel tells nobody else.
const reaped = 100 * time.Millisecond

// beside is the life beside the command. For as long as its start may still
// fail silently stderr stays open to say so; then it is let go, so that nobody
// who reads the command's output through a pipe waits for this process.
func (p *companion) beside(ended <-chan error, term <-chan os.Signal) (why string) {
	started := time.After(p.spec.StartTimeout)
	for {
		select {
		case <-ended:
			if status, ok := handoff.PidfdStatus(fdLaunch, reaped); ok {
				p.member.Finished(status)
			}
			return "its command has ended"
		case <-term:
			return "its companion was ended"
		case <-started:
			quiet()
		}
	}
}

// late says who is missing after the go, and ends the command where that was
// asked for.
func (p *companion) late(e rendezvous.Event) {
	if e.Kind != rendezvous.Late {
		return
	}
	say := ui.New(io.Discard, os.Stderr, ui.Options{JSON: p.spec.JSON, Env: plain})
	say.Findings(finding.Report{finding.Warnf("%s; the others wait for it", e.Text).Named("start.late")}, false)
	if p.spec.FailFast {
		say.Note("ending the command: --fail-fast")
		_ = unix.PidfdSendSignal(fdLaunch, unix.SIGTERM, nil, 0)
	}
}

// plain is the environment of a terminal that the command writes to as well:
// no live line and no colour in between.
func plain(string) string { return "dumb" }

// listening is the name under which rank 0 publishes that the job's own store
// answers.
const listening = "listening"

// afterStart keeps what the start still needs: on rank 0 the held port until
// the job's own store listens on it, elsewhere the wait for that.
func (p *companion) afterStart(master rendezvous.Member) {
	p.peer.Close()
	var ctx context.Context
	ctx, p.unwait = context.WithCancel(p.ctx)
	held := p.held
	if p.epoch.Rank == 0 {
		p.wg.Go(func() { p.awaitStore(ctx, held, master) })
		return
	}
	held.Close()
	p.wg.Go(func() {
		if _, err := p.member.Published(ctx, listening, master); err == nil {
			p.say(report{Op: listening})
		}
	})
}

// awaitStore lets go of the port once the job's own store has it, asks that
// store once whether it answers, and tells the others. They do not ask by
// themselves: torch's store looks up the name of everyone who connects, in the
// one thread that serves all ranks.
func (p *companion) awaitStore(ctx context.Context, held *masterport.Held, self rendezvous.Member) {
	defer held.Close()
	proc := os.DirFS("/proc")
	for pause := listenPoll; ; pause = min(2*pause, listenPollMax) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		on, err := process.Listening(proc, held.Port)
		if err != nil {
			return
		}
		if !on {
			continue
		}
		if _, err := tcpstore.Probe(ctx, netip.AddrPortFrom(self.Addr, uint16(self.Port))); err == nil {
			_ = p.member.Publish(ctx, listening, []byte("{}"))
		}
		return
	}
}

// quiet replaces stderr by nothing.
func quiet() {
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(2)
		return
	}
	_ = unix.Dup2(null, 2)
	unix.Close(null)
}

// end says goodbye and clears up; the process ends right after it.
func (p *companion) end(why string) {
	if p.member != nil {
		p.member.Leave(why)
	}
	if p.client != nil {
		p.client.Close()
	}
	if p.server != nil {
		p.server.Drop()
	}
}
