package companion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/child"
	"launch/internal/handoff"
	"launch/internal/process"
	"launch/internal/secret"
	"launch/rendezvous"
)

// ErrDied: the companion has ended, so this node has lost its place.
var ErrDied = errors.New("the companion process died")

// ErrTerminated: the companion got SIGTERM.
var ErrTerminated = errors.New("the companion process was ended by SIGTERM")

// ErrSilent: the companion runs, but does not answer.
var ErrSilent = errors.New("the companion process does not answer: is it stopped?")

// Limits of answers: slack is added to a call's own budget, to ask a lost store which nodes are missing.
const (
	slack        = 10 * time.Second
	callLimit    = 15 * time.Second // rendezvous waits 5 s for the other nodes
	handoffLimit = 2 * time.Second
	noLimit      = 100 * 365 * 24 * time.Hour
)

// leaveBudget bounds how long launch waits for the other nodes to learn why it leaves.
const leaveBudget = 2 * time.Second

// Client is launch's side of its companion.
type Client struct {
	Self  rendezvous.Member // as the other nodes see this one: with its port and side channel
	Token secret.Token      // the nodes' secret; "": they have none

	rpc     *rpc.Client
	rounds  int                   // how many there were: the ID of the last
	failure atomic.Pointer[fault] // why the companion ends, if it could report it
	done    chan none             // closed when the connection has ended
}

// Start starts the companion and waits until it has the store, the port and
// the side channel. It calls onEvent for each event, from one goroutine.
func Start(ctx context.Context, spec Spec, onEvent func(rendezvous.Event)) (*Client, error) {
	open := func() (io.ReadWriteCloser, error) { return spawn(spec) }
	if spec.Brief && len(spec.Serve) == 0 {
		open = inside
	}
	conn, err := open()
	if err != nil {
		return nil, err
	}
	c := connect(conn, onEvent)
	j, err := ask[Joining](ctx, c, within(cmp.Or(spec.First, spec.Budget)), "Start", spec)
	if err != nil {
		c.Leave("")
		return nil, err
	}
	c.Self, c.Token = j.Self, j.Token
	return c, nil
}

// connect returns a client that speaks over conn.
func connect(conn io.ReadWriteCloser, onEvent func(rendezvous.Event)) *Client {
	c := &Client{rpc: jsonrpc.NewClient(conn), done: make(chan none)}
	go c.follow(onEvent)
	return c
}

// sign returns the variable by which the companions of a job are found.
func sign(job string, endpoints []string) string {
	return "LAUNCH_COMPANION=" + job + " " + strings.Join(endpoints, ",")
}

// Earlier returns the processes that launch became in an earlier start of this job on this host, and
// that still run. A host is a network namespace: several nodes may share a machine.
func Earlier(job string, endpoints []string) (pids []int) {
	here, _ := os.Readlink("/proc/self/ns/net")
	for p := range process.Having(sign(job, endpoints)) {
		if at, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p)); err != nil || at != here {
			continue
		}
		pid := process.Held(strconv.Itoa(p), fdLaunch)
		if pid == 0 {
			continue
		}
		if handedOver(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// handedOver reports whether a launch has become its command: it runs another program than this process.
func handedOver(pid int) bool {
	there, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	here, _ := os.Stat("/proc/self/exe")
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && !os.SameFile(there, here) && string(name) != "launch\n"
}

// spawn starts the process and returns launch's end of their socket pair.
func spawn(spec Spec) (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	_ = unix.SetNonblock(fds[0], true)
	mine, theirs := os.NewFile(uintptr(fds[0]), "companion"), os.NewFile(uintptr(fds[1]), "launch")
	defer theirs.Close() // else launch would never see the companion close it
	self, err := handoff.Open(os.Getpid())
	if err != nil {
		mine.Close()
		return nil, err
	}
	defer self.Close()
	cmd := child.Command(Name)
	cmd.Env = append(cmd.Env, sign(spec.Job, spec.Endpoints))
	if spec.Narrow {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "GOTRACEBACK=none")
	}
	if spec.Stalls { // where a signal finds no memory for its frame, the kernel ends the process
		cmd.Env = append(cmd.Env, "GODEBUG=asyncpreemptoff=1", "GOTRACEBACK=none")
	}
	cmd.ExtraFiles = []*os.File{self, theirs}
	cmd.Stderr = os.Stderr
	if _, err = handoff.Detach(cmd); err != nil {
		mine.Close()
		return nil, fmt.Errorf("start the companion: %w", err)
	}
	return mine, nil
}

// follow asks for the companion's news until the connection ends.
func (c *Client) follow(onEvent func(rendezvous.Event)) {
	defer close(c.done)
	for {
		n, err := ask[news](context.Background(), c, noLimit, "Next", none{})
		switch {
		case err != nil:
			return
		case n.Failure != nil:
			c.failure.Store(n.Failure)
		case n.Event != nil:
			onEvent(*n.Event)
		}
	}
}

// within returns the limit of a call with a budget.
func within(budget time.Duration) time.Duration { return max(budget, time.Second) + slack }

// ask calls a method of the companion and waits for its answer for as long as limit and ctx allow.
func ask[T any](ctx context.Context, c *Client, limit time.Duration, method string, args any) (out T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	calls := make(chan *rpc.Call, 1)
	go c.rpc.Go(service+"."+method, args, new(T), calls) // a stopped companion lets the write wait, too
	select {
	case call := <-calls:
		if call.Error != nil {
			return out, c.errorOf(call.Error)
		}
		return *call.Reply.(*T), nil
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// errorOf returns the companion's error, or why there is no answer.
func (c *Client) errorOf(err error) error {
	if f := c.failure.Load(); f != nil {
		return f.err()
	}
	if text, ok := errors.AsType[rpc.ServerError](err); ok {
		return received(text)
	}
	return ErrDied
}

// Join waits for a world; see rendezvous.Session.Join.
func (c *Client) Join(ctx context.Context, budget time.Duration) (rendezvous.World, error) {
	limit := within(budget)
	if c.Self.Spares > 0 { // a standby node may wait for as long as the job runs
		limit = noLimit
	}
	return ask[rendezvous.World](ctx, c, limit, "Join", budget)
}

// Everyone returns each node of the joined world; see rendezvous.Session.Everyone.
func (c *Client) Everyone(ctx context.Context, budget time.Duration) ([]rendezvous.Partner, error) {
	r, err := ask[answer](ctx, c, within(budget), "Everyone", budget)
	return r.All, err
}

// Posted returns what some ranks have posted to a round; see rendezvous.Session.Posted.
func (c *Client) Posted(ctx context.Context, name string, ranks []int, budget time.Duration) ([][]byte, error) {
	r, err := ask[answer](ctx, c, within(budget), "Posted", question{Name: name, Ranks: ranks, Budget: budget})
	return r.Posts, err
}

// Round posts mine and returns the result; see rendezvous.Session.Round.
func (c *Client) Round(ctx context.Context, name string, mine []byte, budget time.Duration,
	reduce rendezvous.Reduce) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within(budget), ErrSilent)
	defer cancel()
	c.rounds++
	q := question{ID: c.rounds, Name: name, Value: mine, Budget: budget}
	for {
		r, err := ask[answer](ctx, c, noLimit, "Round", q)
		if err != nil || r.Posts == nil {
			return r.Result, err
		}
		q.Value, q.Start = reduce(r.Posts)
	}
}

// Go reports to the other nodes that this node starts; on the store host it waits for their reports. host is the node
// whose command hosts the job's own store; other nodes wait until nothing of launch answers at its port.
func (c *Client) Go(ctx context.Context, host rendezvous.Partner) error {
	_, err := ask[none](ctx, c, callLimit, "Go", host)
	return err
}

// Handoff prepares the companion for execve: from then on it watches the command.
func (c *Client) Handoff(ctx context.Context) error {
	_, err := ask[none](ctx, c, handoffLimit, "Handoff", none{})
	return err
}

// Ended reports to the other nodes that this node's command has ended; see rendezvous.Session.Ended.
// An error is Fate's, too.
func (c *Client) Ended(status int) {
	_, _ = ask[none](context.Background(), c, noLimit, "Ended", status)
}

// Fate waits until the run is over; see rendezvous.Session.Fate. If launch is killed meanwhile, the
// companion ends what the command with this PID has started.
func (c *Client) Fate(ctx context.Context, command int) (rendezvous.Fate, error) {
	return ask[rendezvous.Fate](ctx, c, noLimit, "Fate", command)
}

// Hung waits until the job is to end because it hangs. If launch is killed meanwhile, the companion ends what the
// command with this PID has started.
func (c *Client) Hung(ctx context.Context, command int) (Hang, error) {
	return ask[Hang](ctx, c, noLimit, "Hung", command)
}

// Halt says to the other nodes that the job ends, and why, and waits until they have heard it.
func (c *Client) Halt(ctx context.Context, why string) error {
	_, err := ask[none](ctx, c, within(haltBudget), "Halt", why)
	return err
}

// Return makes this node wait for a world again, with a new port for the job's own store.
func (c *Client) Return(ctx context.Context) error {
	self, err := ask[rendezvous.Member](ctx, c, callLimit, "Return", none{})
	if err == nil {
		c.Self = self
	}
	return err
}

// Leave ends the companion, which reports to the other nodes why this one leaves.
func (c *Client) Leave(why string) {
	go c.rpc.Go(service+".Leave", why, new(none), make(chan *rpc.Call, 1))
	select {
	case <-c.done:
	case <-time.After(leaveBudget):
	}
	c.rpc.Close()
	<-c.done
}
