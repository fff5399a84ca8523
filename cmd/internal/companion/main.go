package companion

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"launch/internal/child"
	"launch/internal/handoff"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/secret"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// Descriptors that Client passes.
const (
	fdLaunch = 3 // pidfd of the process that becomes the command
	fdSocket = 4
)

const (
	// sameJobBudget is how long a second node on one machine waits for the
	// first one's store to say whose it is, and sameJobTry how long before it
	// looks whether the port has become free: an earlier run may just be ending.
	sameJobBudget, sameJobTry = 10 * time.Second, 2 * time.Second
	// listenPoll is the pause between two looks whether the job's own store
	// listens; it grows to listenPollMax.
	listenPoll, listenPollMax = 100 * time.Millisecond, 5 * time.Second
)

// companion is the process itself.
type companion struct {
	ctx    context.Context
	enc    *json.Encoder
	mu     sync.Mutex
	reply  chan order // "reduced", for the reducer that waits
	held   *masterport.Held
	peer   *sidechannel.Listener
	server *rendezvous.Server
	client *clientv3.Client
	member *rendezvous.Session
	epoch  *rendezvous.World
	wg     sync.WaitGroup

	spec   *Spec
	alone  atomic.Bool // launch has become the command
	listen *tls.Config
	unwait context.CancelFunc // ends what the present start waits for
	broken chan error         // why the store that is hosted here cannot go on
}

// Main is the companion process; it is run from the table of children.
func Main(ctx context.Context, _ io.Reader, _ io.Writer) error {
	if err := child.CloseInherited(2); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0) // else ps shows "exe"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = unix.SetNonblock(fdSocket, true)
	sock := os.NewFile(fdSocket, "launch")
	p := &companion{ctx: ctx, enc: json.NewEncoder(sock), reply: make(chan order, 1), broken: make(chan error, 1)}
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- handoff.WaitPidfd(ctx, os.NewFile(fdLaunch, "pidfd")) }()
	orders := make(chan order)
	go read(sock, orders)

	why, done := p.serve(orders, ended, term)
	if !done { // the command runs: from here only its end counts
		sock.Close()
		why = p.beside(ended, term)
	}
	// First let go of stderr: whoever reads the command's output through a
	// pipe waits until the last writer is gone.
	quiet()
	cancel()
	over := make(chan struct{})
	go func() { p.wg.Wait(); close(over) }()
	select { // a store that is just starting, and its folder
	case <-over:
	case <-time.After(time.Second):
	}
	p.end(why)
	return nil
}

// read hands on the orders until launch closes its side.
func read(sock io.Reader, orders chan<- order) {
	defer close(orders)
	dec := json.NewDecoder(sock)
	for {
		var o order
		if dec.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

// serve carries out orders until the handoff (done is false) or the end.
func (p *companion) serve(orders <-chan order, ended <-chan error, term <-chan os.Signal) (why string, done bool) {
	for {
		select {
		case <-ended:
			return "its launch ended", true
		case <-term:
			return "its companion was ended", true
		case err := <-p.broken:
			p.say(report{Op: failed, Fault: faultOf(err)})
			return "its store failed: " + err.Error(), true
		case o, ok := <-orders:
			switch {
			case !ok:
				return "its launch ended", true
			case o.Op == "leave":
				return o.Why, true
			case o.Op == "handoff":
				p.alone.Store(true)
				p.say(report{Op: o.Op})
				return "", false
			case o.Op == "reduced":
				select {
				case p.reply <- o:
				default: // nobody waits for it any more
				}
			default:
				p.wg.Go(func() { p.do(o) })
			}
		}
	}
}

// do carries out one order and answers it.
func (p *companion) do(o order) {
	r := report{Op: o.Op}
	ctx, cancel := context.WithTimeout(p.ctx, max(o.Budget, time.Second))
	defer cancel()
	var err error
	switch o.Op {
	case "ended":
		p.member.Ended(o.Status)
		return
	case "fate":
		var f rendezvous.Fate
		f, err = p.member.Fate(p.ctx, p.spec.Budget)
		r.Fate = &f
	case "return":
		r.Self, err = p.again()
	case "start":
		r.Self, err = p.start(o.Spec)
	case "join":
		var w rendezvous.World
		if w, err = p.member.Join(p.ctx, max(o.Budget, time.Second)); err == nil {
			r.World, p.epoch = &w, &w
		}
	case "everyone":
		r.All, err = p.member.Everyone(ctx)
	case "posted":
		r.Posts, err = p.member.Posted(ctx, o.Name, o.Ranks)
	case "round":
		r.Result, err = p.member.Round(ctx, o.Name, o.Value, p.reducer(ctx))
	case "go":
		if err = p.member.Start(p.ctx); err == nil {
			p.afterStart(*o.Master)
		}
	default:
		err = fmt.Errorf("companion: unknown order %q", o.Op)
	}
	r.Fault = faultOf(err)
	p.say(r)
}

// reducer lets launch reduce: the posts are its business.
func (p *companion) reducer(ctx context.Context) rendezvous.Reduce {
	return func(posts [][]byte) ([]byte, bool) {
		select {
		case <-p.reply: // of a round that broke
		default:
		}
		p.say(report{Op: "reduce", Posts: posts})
		select {
		case o := <-p.reply:
			return o.Value, o.Start
		case <-ctx.Done():
			return nil, false
		}
	}
}

// listenAt is where the side channel listens: everywhere, where the others are to
// call at several addresses.
func listenAt(s *Spec) netip.Addr {
	if len(s.Self.Addrs) > 0 {
		return netip.IPv6Unspecified()
	}
	return s.Listen
}

// start gets the port, the side channel, the store and the membership.
func (p *companion) start(s *Spec) (*rendezvous.Member, error) {
	var err error
	p.spec = s
	var keys *secret.Keys
	if s.Secret != "" {
		if keys, err = secret.New(s.Secret); err != nil {
			return nil, err
		}
		p.listen = keys.Server()
	}
	self := s.Self
	self.ID = rand.Text()
	if p.peer, err = sidechannel.Listen(listenAt(s), p.listen, self.ID, s.About); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, s.Budget)
	defer cancel()
	if p.client, err = p.store(ctx, s, keys); err != nil {
		return nil, err
	}
	self.First = p.server != nil
	if p.held, err = hold(s, self, 0); err != nil {
		return nil, err
	}
	self.Port, self.Peer = p.held.Port, p.peer.Port()
	var reached func() netip.Addr
	if s.Guess && p.server != nil {
		reached = func() netip.Addr { return process.Reached(os.DirFS("/proc"), int(s.Serve[0].Port())) }
	}
	p.member = rendezvous.Enter(p.ctx, p.client, rendezvous.Config{Job: s.Job, Self: self, Reached: reached, StartTimeout: s.StartTimeout, LastCall: s.LastCall, FailFast: s.FailFast, Hosted: s.Embedded, Asks: s.Embedded, Events: p.tell})
	return &self, nil
}

// again makes this node ready for the next start: another port, since what
// listened on the last one may still be ending, and a new side channel.
func (p *companion) again() (*rendezvous.Member, error) {
	p.unwait()
	last, s := p.held.Port, *p.spec
	p.held.Close()
	if s.Port = last + 1; s.Fixed || s.Port > s.High {
		s.Port = p.spec.Port
	}
	var err error
	self := p.epoch.Self
	if p.held, err = hold(&s, self, last); err != nil {
		return nil, err
	}
	if p.peer, err = sidechannel.Listen(listenAt(&s), p.listen, self.ID, s.About); err != nil {
		return nil, err
	}
	self.Port, self.Peer = p.held.Port, p.peer.Port()
	p.member.Return(func(m *rendezvous.Member) { m.Port, m.Peer = self.Port, self.Peer })
	return &self, nil
}

// hold gets the port for the job's own store. One that a person insists on is
// for the node that becomes rank 0: another one on the same machine leaves it
// alone. Where nobody can tell yet who that is, it is only preferred. last is the
// port of the start before, which is taken only where no other is left.
func hold(s *Spec, self rendezvous.Member, last int) (*masterport.Held, error) {
	switch {
	case !s.Fixed || !s.Embedded && self.Index < 0:
		return masterport.Pick(s.Port, last, s.Low, s.High)
	case self.Index > 0 || self.Index < 0 && !self.First:
		return masterport.Pick(0, s.Port, s.Low, s.High)
	}
	h, err := masterport.Hold(s.Port)
	if u, _ := masterport.Look(os.DirFS("/proc"), masterport.Everywhere(s.Port)); err != nil && u.By != "" {
		err = fmt.Errorf("%w, by %s", err, u.By)
	}
	return h, err
}

// store hosts the store where it falls to this node, and connects to it.
func (p *companion) store(ctx context.Context, s *Spec, keys *secret.Keys) (*clientv3.Client, error) {
	where := rendezvous.Store{Endpoints: s.Endpoints, Access: s.Access}
	if s.Embedded {
		where.Job = s.Job
	}
	where.TLS = TLS(keys, s.Embedded, s.Endpoints)
	if len(s.Serve) == 0 {
		where.Nodes, where.Later = s.Self.Size, s.Embedded
		return rendezvous.Connect(ctx, where, p.waiting)
	}
	for end := time.Now().Add(sameJobBudget); ; {
		server, err := rendezvous.Serve(ctx, s.Job, s.Serve, where.TLS)
		if err == nil {
			p.server = server
			go func() {
				select {
				case err := <-server.Failed():
					p.broken <- err
				case <-p.ctx.Done():
				}
			}()
			return rendezvous.Connect(ctx, where, nil)
		}
		if !errors.Is(err, rendezvous.ErrPortTaken) {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, sameJobTry)
		c, cerr := rendezvous.Connect(short, where, nil)
		cancel()
		if !errors.Is(cerr, rendezvous.ErrUnreachable) {
			return c, cerr
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, err // something else has the port
		}
	}
}

func (p *companion) waiting(err error) {
	p.tell(rendezvous.Event{Kind: rendezvous.Lost, Text: err.Error()})
}

func (p *companion) tell(e rendezvous.Event) {
	if p.alone.Load() {
		p.late(e)
		return
	}
	p.say(report{Op: "event", Event: &e})
}

func (p *companion) say(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.enc.Encode(r) // launch is gone: its pidfd says so
}

// TLS is what the token's keys speak with a store; nil: nothing.
func TLS(keys *secret.Keys, embedded bool, endpoints []string) *rendezvous.TLS {
	switch {
	case keys == nil:
		return nil
	case embedded:
		return &rendezvous.TLS{Client: keys.Client(), CertPEM: keys.CertPEM, KeyPEM: keys.KeyPEM}
	case strings.HasPrefix(endpoints[0], "https://"):
		return &rendezvous.TLS{Client: keys.Either()}
	}
	return nil
}
