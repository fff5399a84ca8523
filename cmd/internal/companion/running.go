package companion

import (
	"context"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/finding"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/tcpstore"
	"launch/rendezvous"
)

// listening is the name under which rank 0 publishes that the job's own store
// answers.
const listening = "listening"

// listenPoll is the pause between two looks whether the job's own store
// listens; it grows to listenPollMax.
const listenPoll, listenPollMax = 100 * time.Millisecond, 5 * time.Second

// late reports a node that is missing after the go, and ends the command with
// --fail-fast.
func (p *companion) late(e rendezvous.Event) {
	if e.Kind != rendezvous.Late {
		return
	}
	f := finding.Warnf("%s; the others wait for it", e.Text).Named("start.late")
	if !p.spec.FailFast {
		p.print(p.spec.JSON, f, "")
		return
	}
	p.print(p.spec.JSON, f, "ending the command: --fail-fast")
	_ = unix.PidfdSendSignal(fdLaunch, unix.SIGTERM, nil, 0)
}

// Go reports that this node starts. Rank 0 then holds its port until the job's
// own store listens there.
func (p *companion) Go(master rendezvous.Member, _ *none) (err error) {
	defer p.call(&err)()
	if err = p.session.Start(p.ctx); err != nil {
		return err
	}
	p.sideChannel.Close()
	p.running, p.endRun = context.WithCancel(p.ctx)
	if ctx, port := p.running, p.port; p.world.Rank == 0 {
		p.wg.Go(func() { p.awaitStore(ctx, port, master) })
	} else {
		port.Close()
	}
	return nil
}

// StoreReady waits until the job's own store answers, or rank 0 is gone.
func (p *companion) StoreReady(master rendezvous.Member, _ *none) (err error) {
	defer p.call(&err)()
	_, err = p.session.Published(p.running, listening, master)
	return err
}

// awaitStore releases the port once the job's own store has it, asks that store
// once whether it answers, and reports it to the other nodes. They don't ask on
// their own: torch's store looks up the name of each node that connects, in the
// one thread that serves all ranks.
func (p *companion) awaitStore(ctx context.Context, port *masterport.Held, self rendezvous.Member) {
	defer port.Close()
	proc := os.DirFS("/proc")
	for pause := listenPoll; ; pause = min(2*pause, listenPollMax) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		on, err := process.Listening(proc, port.Port)
		if err != nil {
			return
		}
		if !on {
			continue
		}
		if _, err := tcpstore.Probe(ctx, netip.AddrPortFrom(self.Addr, uint16(self.Port))); err == nil {
			_ = p.session.Publish(ctx, listening, []byte("{}"))
		}
		return
	}
}
