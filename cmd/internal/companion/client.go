package companion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/child"
	"launch/internal/handoff"
	"launch/rendezvous"
)

// ErrDied: the companion is gone, so this node's place is too.
var ErrDied = errors.New("the companion process died")

// ErrSilent: the companion is there, but does not answer.
var ErrSilent = errors.New("the companion process does not answer: is it stopped?")

// What the companion may take beyond the time that it was given (it asks a
// store that is gone who is missing), and for what needs no one else.
const (
	slack        = 10 * time.Second
	goLimit      = 15 * time.Second // rendezvous waits 5 s for the others
	handoffLimit = 2 * time.Second
)

// leaveBudget bounds the goodbye of an interrupted node: the others are told
// within it, or learn it from the lease.
const leaveBudget = 2 * time.Second

// Client is launch's side of its companion.
type Client struct {
	Self rendezvous.Member // as the others see this node: with its port and side channel

	sock    *os.File
	enc     *json.Encoder
	mu      sync.Mutex // one writer at a time
	answers chan report
	end     error         // why the companion ended, where it could say so; read after done
	ready   *event        // the job's own store answers, or rank 0 is gone
	done    chan struct{} // closed when the reader ended
}

// Start starts the companion and waits until it has the store, the port and
// the side channel. tell is called for every event, from one goroutine.
func Start(ctx context.Context, spec Spec, tell func(rendezvous.Event)) (*Client, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	_ = unix.SetNonblock(fds[0], true)
	mine, theirs := os.NewFile(uintptr(fds[0]), "companion"), os.NewFile(uintptr(fds[1]), "launch")
	self, err := handoff.SelfPidfd()
	if err != nil {
		mine.Close()
		theirs.Close()
		return nil, err
	}
	defer self.Close()
	cmd := child.Command(Name)
	cmd.ExtraFiles = []*os.File{self, theirs}
	cmd.Stderr = os.Stderr
	_, err = handoff.Detach(cmd)
	theirs.Close() // or its end would never be seen here
	if err != nil {
		mine.Close()
		return nil, fmt.Errorf("start the companion: %w", err)
	}
	c := &Client{sock: mine, enc: json.NewEncoder(mine), answers: make(chan report, 1), ready: newEvent(), done: make(chan struct{})}
	go c.read(tell)
	ctx, cancel := context.WithTimeoutCause(ctx, max(spec.Budget, time.Second)+slack, ErrSilent)
	defer cancel()
	r, err := c.ask(ctx, order{Op: "start", Spec: &spec})
	if err != nil {
		c.Leave("")
		return nil, err
	}
	c.Self = *r.Self
	return c, nil
}

// read sorts what the companion says: events to tell, answers to whoever asked.
func (c *Client) read(tell func(rendezvous.Event)) {
	defer close(c.done)
	defer func() { c.present().set() }()
	dec := json.NewDecoder(c.sock)
	for {
		var r report
		if dec.Decode(&r) != nil {
			return
		}
		switch r.Op {
		case "event":
			tell(*r.Event)
		case listening:
			c.present().set()
		case failed:
			c.end = r.Fault.err() // it clears up, and ends
		default:
			if c.end == nil {
				c.answers <- r
			}
		}
	}
}

func (c *Client) send(o order) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enc.Encode(o); err != nil {
		return ErrDied
	}
	return nil
}

// ask sends an order and waits for its answer.
func (c *Client) ask(ctx context.Context, o order) (report, error) {
	if err := c.send(o); err != nil {
		return report{}, err
	}
	return c.await(ctx)
}

func (c *Client) await(ctx context.Context) (report, error) {
	select {
	case r := <-c.answers:
		return r, r.Fault.err()
	case <-c.done:
		select { // what it said before its end counts
		case r := <-c.answers:
			return r, r.Fault.err()
		default:
			return report{}, cmp.Or(c.end, ErrDied)
		}
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
}

// Join waits for a world; see rendezvous.Session.Join.
func (c *Client) Join(ctx context.Context, budget time.Duration) (rendezvous.World, error) {
	if c.Self.Spares == 0 { // a spare node may wait for as long as the job runs
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(budget, time.Second)+slack, ErrSilent)
		defer cancel()
	}
	r, err := c.ask(ctx, order{Op: "join", Budget: budget})
	if err != nil {
		return rendezvous.World{}, err
	}
	return *r.World, nil
}

// Everyone is each node of the joined world; see rendezvous.Session.Everyone.
func (c *Client) Everyone(ctx context.Context, budget time.Duration) ([]rendezvous.Partner, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(budget, time.Second)+slack, ErrSilent)
	defer cancel()
	r, err := c.ask(ctx, order{Op: "everyone", Budget: budget})
	return r.All, err
}

// Posted is what some ranks have posted to a round; see rendezvous.Session.Posted.
func (c *Client) Posted(ctx context.Context, name string, ranks []int, budget time.Duration) ([][]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(budget, time.Second)+slack, ErrSilent)
	defer cancel()
	r, err := c.ask(ctx, order{Op: "posted", Name: name, Ranks: ranks, Budget: budget})
	return r.Posts, err
}

// Round posts mine and returns the result; see rendezvous.Session.Round.
func (c *Client) Round(ctx context.Context, name string, mine []byte, budget time.Duration, reduce rendezvous.Reduce) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(budget, time.Second)+slack, ErrSilent)
	defer cancel()
	r, err := c.ask(ctx, order{Op: "round", Name: name, Value: mine, Budget: budget})
	for err == nil && r.Op == "reduce" {
		o := order{Op: "reduced"}
		o.Value, o.Start = reduce(r.Posts)
		r, err = c.ask(ctx, o)
	}
	return r.Result, err
}

// Go tells the others that this node may start; on the store's host it waits
// for them.
func (c *Client) Go(ctx context.Context, master rendezvous.Member) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goLimit, ErrSilent)
	defer cancel()
	_, err := c.ask(ctx, order{Op: "go", Master: &master})
	return err
}

// StoreReady is closed when, after Go, the job's own store on node rank 0
// answers, or there is nothing left to wait for: rank 0 or the rendezvous is
// gone.
func (c *Client) StoreReady() <-chan struct{} { return c.present().c }

// present is the event of the present start.
func (c *Client) present() *event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// event happens once.
type event struct {
	once sync.Once
	c    chan struct{}
}

func newEvent() *event { return &event{c: make(chan struct{})} }

func (e *event) set() { e.once.Do(func() { close(e.c) }) }

// Handoff lets the companion alone with the command that this process is about
// to become.
func (c *Client) Handoff(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, handoffLimit, ErrSilent)
	defer cancel()
	_, err := c.ask(ctx, order{Op: "handoff"})
	return err
}

// Ended tells the others that this node's command has ended; see
// rendezvous.Session.Ended.
func (c *Client) Ended(status int) error { return c.send(order{Op: "ended", Status: status}) }

// Fate waits until the run is over; see rendezvous.Session.Fate. Its answer is
// the next one, so nothing else is asked meanwhile.
func (c *Client) Fate(ctx context.Context) (rendezvous.Fate, error) {
	r, err := c.ask(ctx, order{Op: "fate"})
	if err != nil {
		return rendezvous.Fate{}, err
	}
	return *r.Fate, nil
}

// Return makes this node one that waits for a world again, with a new port for
// the job's own store.
func (c *Client) Return(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goLimit, ErrSilent)
	defer cancel()
	r, err := c.ask(ctx, order{Op: "return"})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Self, c.ready = *r.Self, newEvent()
	return nil
}

// Leave ends the companion; why is told to the others.
func (c *Client) Leave(why string) {
	if c.send(order{Op: "leave", Why: why}) == nil {
		select {
		case <-c.done:
		case <-c.drained():
		case <-time.After(leaveBudget):
		}
	}
	c.sock.Close()
	<-c.done
}

// drained throws away the answers that nobody waits for any more, so that the
// reader sees the end.
func (c *Client) drained() <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		for {
			select {
			case <-c.answers:
			case <-c.done:
				return
			}
		}
	}()
	return out
}
