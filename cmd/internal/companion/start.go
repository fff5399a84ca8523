package companion

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"launch/fabric"
	"launch/internal/handoff"
	"launch/internal/masterport"
	"launch/internal/munge"
	"launch/internal/process"
	"launch/internal/secret"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// sameJobBudget is how long a second node on one machine waits for the first one's store. Every
// sameJobTry it tries the port again: an earlier run may just be ending.
const sameJobBudget, sameJobTry = 10 * time.Second, 2 * time.Second

// listenPoll is the first pause between two looks whether the job's own store listens.
const listenPoll, listenPollMax = 100 * time.Millisecond, 5 * time.Second

// Start gets the port, the side channel, the store and the membership.
func (p *companion) Start(spec Spec, out *Joining) (err error) {
	defer p.call(&err)()
	spec.Self.ID = rand.Text()
	s, self := &spec, spec.Self
	p.spec = s
	if p.print != nil { // a process of its own
		handoff.OnAbort(abortNote(s.JSON), 128+int(unix.SIGABRT))
	}
	p.readAhead()
	p.openDoctor()
	ctx, cancel := context.WithTimeout(p.ctx, cmp.Or(s.First, s.Budget))
	defer cancel()
	if p.client, err = p.connect(ctx, s); err != nil {
		return err
	}
	self.First = p.server.Load() != nil
	if keys := s.Token.Keys(s.Job); keys != nil {
		p.tls = keys.Server()
	}
	if err = p.openSideChannel(&self); err != nil {
		return err
	}
	if err = p.hold(s, &self, 0); err != nil {
		return err
	}
	var reached func() netip.Addr
	if s.Guess && self.First {
		self.Guess = true
		reached = func() netip.Addr { return process.Reached(os.DirFS("/proc"), int(s.Serve[0].Port())) }
	}
	p.session = rendezvous.Enter(p.ctx, p.client, rendezvous.Config{Job: s.Job, Self: self, Reached: reached,
		StartTimeout: s.StartTimeout, LastCall: s.LastCall, FailFast: s.NoWait, Renews: s.Renews,
		Hosted: s.Embedded, OwnStore: s.Embedded, Hangup: &p.hangup, Events: p.event})
	if len(s.Serve) > 0 && !self.First {
		p.wg.Go(func() { p.takeOver() })
	}
	*out = Joining{self, s.Token}
	return nil
}

// readAhead reads what the command will import: while this node waits, and on while the command starts.
func (p *companion) readAhead() {
	if p.spec.Ahead != nil {
		p.wg.Go(func() { _ = fabric.ReadAhead(p.ctx, *p.spec.Ahead) }) // the command reads what is missing
	}
}

// Go reports that this node starts. The host of the job's own store holds its port until that listens. The other nodes
// wait until the door at that port is shut: their command would take it for the store.
func (p *companion) Go(host rendezvous.Partner, _ *none) (err error) {
	defer p.call(&err)()
	p.quiet()
	if err = p.session.Start(p.ctx); err != nil {
		return err
	}
	p.begun.Store(true)
	if sh := p.spec.Shared; sh != nil && (p.spec.Self.Restarts == 0 || !sh.At.IsValid()) {
		p.chosen()
	}
	p.running, p.endRun = context.WithCancel(p.ctx)
	ctx, w := p.running, p.newWatcher()
	p.doctor.begin(ctx, p.world)
	p.watcher = w
	if p.world.Size > 1 && p.spec.Self.Restarts == 0 {
		p.ends = p.newEnds(ctx)
	}
	p.wg.Go(func() { w.watch(ctx) })
	if p.spec.Torchrun || p.spec.Spawns {
		p.wg.Go(func() { w.watchRanks(ctx) })
	}
	p.wg.Go(func() { w.watchApart(ctx) })
	if port := p.port; host.Rank == p.world.Rank {
		p.wg.Go(func() { p.awaitStore(ctx, port) })
	} else {
		port.Close()
		p.awaitQuiet(ctx, host)
	}
	return nil
}

// A host of the job's own store hears of the start as soon as the others; a busy one takes longer to shut its door.
const (
	quietBudget = 5 * time.Second
	quietPause  = 2 * time.Millisecond
)

// awaitQuiet waits until the companion of a node has begun its run, and has shut its door before.
func (p *companion) awaitQuiet(ctx context.Context, host rendezvous.Partner) {
	ctx, cancel := context.WithTimeout(ctx, quietBudget)
	defer cancel()
	at, keys := netip.AddrPortFrom(host.Addr, uint16(host.Peer)), p.spec.Token.Keys(p.spec.Job).Client()
	for pause := quietPause; ; pause = min(2*pause, 100*time.Millisecond) {
		_, err := sidechannel.Hear(ctx, at, keys, host.ID, 0)
		if err == nil || sidechannel.CauseOf(err) == sidechannel.Refused { // its command has ended already
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// awaitStore releases the port once the job's own store has it.
func (p *companion) awaitStore(ctx context.Context, port *masterport.Held) {
	defer port.Close()
	for pause := listenPoll; ; pause = min(2*pause, listenPollMax) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if on, err := process.Listening(port.Port); on || err != nil {
			return
		}
	}
}

// Return makes this node wait for a world again, with a new side channel, and another port: what listened on
// the last one may still be ending.
func (p *companion) Return(_ none, out *rendezvous.Member) (err error) {
	defer p.call(&err)()
	p.endRun()
	last, s := p.port.Port, *p.spec
	p.quiet()
	p.port.Close()
	if s.Port = last + 1; s.Fixed || s.Port > s.High {
		s.Port = p.spec.Port
	}
	self := p.world.Self
	if err = p.hold(&s, &self, last); err != nil {
		return err
	}
	if err = p.openSideChannel(&self); err != nil {
		return err
	}
	p.session.Return(func(m *rendezvous.Member) { m.Port, m.Peer = self.Port, self.Peer })
	*out = self
	return nil
}

// openSideChannel listens everywhere if this node has several addresses for the other nodes to call.
func (p *companion) openSideChannel(self *rendezvous.Member) (err error) {
	at := p.spec.Listen
	if len(p.spec.Self.Addrs) > 0 {
		at = netip.IPv6Unspecified()
	}
	if p.sideChannel, err = sidechannel.Listen(at, p.tls, self.ID, p.spec.About); err == nil {
		self.Peer = p.sideChannel.Port()
	}
	return err
}

// hold reserves the port for the job's own store. A port that the user insists on is for rank 0:
// another node on the same machine takes a different one. While rank 0 is unknown, the port is only
// preferred. last is the port of the start before, which is the last choice.
func (p *companion) hold(s *Spec, self *rendezvous.Member, last int) (err error) {
	switch {
	case !s.Fixed || !s.Embedded && self.Index < 0 || self.Role != "":
		p.port, err = masterport.Pick(s.Port, last, s.Low, s.High)
	case self.Index > 0 || self.Index < 0 && !self.First:
		p.port, err = masterport.Pick(0, s.Port, s.Low, s.High)
	default:
		p.port, err = masterport.Hold(s.Port)
		if u, _ := masterport.Look(os.DirFS("/proc"), masterport.Everywhere(s.Port)); err != nil && u.By != "" {
			err = fmt.Errorf("%w, by %s", err, u.By)
		}
	}
	if err != nil {
		return err
	}
	self.Port = p.port.Port
	l, err := p.port.Listen()
	if err != nil {
		return err
	}
	p.door, err = sidechannel.OpenDoor(l, self.ID)
	return err
}

// quiet ends what answers at the held port: the start begins, or this node leaves it.
func (p *companion) quiet() {
	if p.door != nil {
		_ = p.port.Quiet() // else the store finds the port taken, and says so
		p.door.Shut()
		p.door = nil
	}
}

// connect hosts the store if this node is to, and connects to it.
func (p *companion) connect(ctx context.Context, s *Spec) (*clientv3.Client, error) {
	at := rendezvous.Store{Endpoints: s.Endpoints, Access: s.Access, Hangup: &p.hangup}
	if s.Embedded {
		at.Job = s.Job
	}
	at.TLS = TLS(s.Token, s.Job, s.Embedded, s.Endpoints)
	if s.Munge {
		learner := learner(&s.Job)
		at.TLS = &rendezvous.TLS{Client: learner.Client()}
		defer func() {
			if s.Token == "" {
				s.Token, p.credential = learner.Learned()
			}
		}()
	}
	if s.Shared != nil {
		p.choosing, p.chosen = context.WithCancel(p.ctx)
		p.dialChosen()
	}
	if len(s.Serve) == 0 {
		at.Nodes, at.Later = s.Self.Size, s.Embedded
		if s.Shared != nil {
			p.wg.Go(func() { p.findAgain(at) })
		}
		if s.Names != nil && (s.Shared == nil || !s.Shared.At.IsValid()) {
			p.wg.Go(func() { p.follow(at) })
		}
		return rendezvous.Connect(ctx, at, func(err error) { p.event(silent(err)) })
	}
	for end := time.Now().Add(sameJobBudget); ; {
		err := p.host(ctx)
		if err == nil {
			at.TLS = p.storeTLS()
			c, err := rendezvous.Connect(ctx, at, func(err error) { p.event(silent(toItself(err))) })
			return c, toItself(err)
		}
		if !errors.Is(err, rendezvous.ErrPortTaken) {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, sameJobTry)
		c, connectErr := rendezvous.Connect(short, at, nil)
		cancel()
		if !errors.Is(connectErr, rendezvous.ErrUnreachable) {
			return c, connectErr
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, err // something else has the port
		}
	}
}

// silent is the event of a store that does not answer yet.
func silent(err error) rendezvous.Event {
	return rendezvous.Event{Kind: rendezvous.Lost, Text: err.Error()}
}

// toItself adds to the error of a store that runs in this process what follows from that.
func toItself(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; this node hosts it, so it does not reach its own address: iptables -S; nft list ruleset", err)
}

// learner is a client that reads its secret from the store's certificate.
func learner(job *string) *secret.Learner {
	return &secret.Learner{Job: job,
		Reveal: func(credential string) (string, error) { return munge.Reveal(context.Background(), credential) }}
}

// Learn returns the TLS of a client of a store whose secret munge hides; a nil job is any.
func Learn(job *string) *rendezvous.TLS { return &rendezvous.TLS{Client: learner(job).Client()} }

// Hide makes a secret and hides it by munge.
func Hide(ctx context.Context) (token secret.Token, credential string, err error) {
	token = secret.New()
	credential, err = munge.Hide(ctx, string(token))
	return token, credential, err
}

// host hosts the store, with a new secret if munge hides it.
func (p *companion) host(ctx context.Context) (err error) {
	if !p.spec.Munge {
		return p.serve(ctx)
	}
	if p.spec.Token, p.credential, err = Hide(ctx); err == nil {
		err = p.serve(ctx)
	}
	if err != nil { // another process has the port, and a secret
		p.spec.Token, p.credential = "", ""
	}
	return err
}

// storeTLS returns the TLS of the embedded store.
func (p *companion) storeTLS() *rendezvous.TLS {
	return Embedded(p.spec.Token, p.spec.Job, p.credential)
}

// Embedded returns the TLS of the embedded store of a job; nil: there is no token.
func Embedded(token secret.Token, job, credential string) *rendezvous.TLS {
	keys := token.Public(job, credential)
	if keys == nil {
		return nil
	}
	return &rendezvous.TLS{Client: keys.Client(), Server: keys.Server()}
}

// serve hosts the store.
func (p *companion) serve(ctx context.Context) error {
	server, err := rendezvous.Serve(ctx, p.spec.Job, p.spec.Serve, p.storeTLS())
	if err == nil {
		p.server.Store(server)
		go func() { p.broken <- <-server.Failed() }()
		if p.spec.Shared != nil {
			p.wg.Go(func() { p.yield(server) })
		}
	}
	return err
}

// takeOverPoll is how often a node tries to host a store that another process of its machine hosts.
const takeOverPoll = 500 * time.Millisecond

// takeOver hosts the store once the process of this machine that hosts it has ended: it belonged to
// an earlier run of the job.
func (p *companion) takeOver() {
	for {
		select {
		case <-time.After(takeOverPoll):
		case <-p.handedOff:
			return
		case <-p.ctx.Done():
			return
		}
		switch err := p.serve(p.ctx); {
		case err == nil:
			p.session.Host()
			return
		case !errors.Is(err, rendezvous.ErrPortTaken):
			p.broken <- err
			return
		}
	}
}

// TLS returns what a token is for in a connection to the store of a job; nil: it is not encrypted. A store
// that is not embedded may be a `launch store`, which belongs to no job.
func TLS(token secret.Token, job string, embedded bool, endpoints []string) *rendezvous.TLS {
	switch {
	case token == "":
		return nil
	case embedded:
		return Embedded(token, job, "")
	case strings.HasPrefix(endpoints[0], "https://"):
		return &rendezvous.TLS{Client: token.Keys("").Either()}
	}
	return nil
}
