package companion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/finding"
	"launch/rendezvous"
)

// The rounds in which a node posts how the first of its ranks ended: with a failure, by a signal of its own, or with 0.
// The store puts the posts of all nodes in one order, whatever their clocks say.
const failedRound, crashedRound, leftRound = "failed", "crashed", "left"

// lastSay is how long the companion may wait at a command's end until it knows which rank ended first.
const lastSay = 300 * time.Millisecond

// crashSpan is how much later the end of a rank that aborts is seen here than on the other nodes: the kernel writes its
// core first.
const crashSpan = 3 * time.Second

// relatedEnds is the longest time after which another rank may end for the same reason: NCCL's watchdog waits for 10
// minutes. A rank that failed earlier was started again by its torchrun (--max-restarts).
const relatedEnds = 20 * time.Minute

// rankEnd is how a rank ended.
type rankEnd struct {
	Rank   int       `json:"rank"` // -1: the command itself, or with PID a rank whose number is not known
	PID    int       `json:"pid,omitempty"`
	Node   string    `json:"node"`
	ID     string    `json:"id"` // the node's
	Status int       `json:"status"`
	At     time.Time `json:"at"`
	Unread bool      `json:"unread,omitempty"` // the command's output went to a pipe that no process read any more
	// Full is the file that the command's output goes to, where its file system has no space left.
	Full   string `json:"full,omitempty"`
	Launch bool   `json:"launch,omitempty"` // launch itself was ended by a signal, and maybe all processes there
	Prior  prior  `json:"prior,omitzero"`
}

// String says which rank ended, and how: "rank 3 on host1 (10.0.0.2) ended with 137 (killed) at 12:00:01".
func (e rankEnd) String() string {
	who := "the command"
	switch {
	case e.Launch:
		who = "launch"
	case e.Rank >= 0:
		who = fmt.Sprintf("rank %d", e.Rank)
	case e.PID > 0:
		who = fmt.Sprintf("a rank (pid %d)", e.PID)
	}
	return fmt.Sprintf("%s on %s %s at %s", who, e.Node, ended(e.Status), e.At.Format("15:04:05")) + e.more()
}

// more says that its node's lines are lost, and what was seen there before; "": nothing of that.
func (e rankEnd) more() string {
	if e.Full != "" {
		return fmt.Sprintf(" (no space is left for its output, %s)", e.Full) + e.Prior.String()
	}
	if e.Unread {
		return " (the program that read its output had ended)" + e.Prior.String()
	}
	return e.Prior.String()
}

// fix says what the signal means that ended it, or what was seen before.
func (e rankEnd) fix() string {
	if e.Launch {
		return "what ended the processes there? A session that ended (KillUserProcesses of systemd-logind: loginctl " +
			"enable-linger), a scheduler, a deleted pod, a person"
	}
	if e.Full != "" {
		return fmt.Sprintf("df -h %s   # on %s: a print fails there, and its last lines may be lost", e.Full, e.Node)
	}
	return cmp.Or(meaning(e.Status), e.Prior.fix(e.Node))
}

// ended says how a process ended.
func ended(status int) string {
	if by := rendezvous.Ender(status); by != "" {
		return "was ended by " + by
	}
	return "ended with " + rendezvous.StatusText(status)
}

// ends knows which rank of all nodes ended first.
type ends struct {
	p                     *companion
	failed, crashed, left firstEnd // one that crashed has failed, too
	ask                   func()   // begins to hear of crashes, once
	severed               sync.Once
	vanished              *rendezvous.Partner
}

// firstEnd is the first post to one of the rounds.
type firstEnd struct {
	round string
	once  sync.Once
	own   atomic.Int64 // the status that this node has posted, and when, in nanoseconds since 1970
	when  atomic.Int64
	heard chan none // closed once it is known
	end   rankEnd
	at    time.Time // when it was heard, by this node's clock
}

// newEnds begins to hear of ends of ranks.
func (p *companion) newEnds(ctx context.Context) *ends {
	e := &ends{p: p}
	e.failed.round, e.crashed.round, e.left.round = failedRound, crashedRound, leftRound
	hear := func(f *firstEnd) { p.wg.Go(func() { f.hear(ctx, p.session) }) }
	for _, f := range []*firstEnd{&e.failed, &e.crashed, &e.left} {
		f.heard = make(chan none)
	}
	hear(&e.failed)
	hear(&e.left)
	p.wg.Go(func() { e.waited(ctx) })
	e.ask = sync.OnceFunc(func() { hear(&e.crashed) }) // where a rank has failed: watches of all nodes cost the store
	return e
}

// of returns the first end of those like one with this status.
func (e *ends) of(status int) *firstEnd {
	if status == 0 {
		return &e.left
	}
	return &e.failed
}

func (f *firstEnd) hear(ctx context.Context, s *rendezvous.Session) {
	value, err := s.First(ctx, f.round)
	if err == nil && json.Unmarshal(value, &f.end) == nil {
		// people read the name: it is cleaned where it arrives
		n := rendezvous.Note{Name: f.end.Node}.Shortened()
		n.Clean()
		f.end.Node, f.at = n.Name, time.Now()
		full := rendezvous.Note{Name: f.end.Full}.Shortened()
		full.Clean()
		f.end.Full = full.Name
		f.end.Prior.clean()
		close(f.heard)
	}
}

// post posts that a rank of this node ended, or the command.
func (e *ends) post(end rankEnd) {
	status := end.Status
	to := []*firstEnd{e.of(status)}
	if crash(status) {
		to = append(to, &e.crashed)
	}
	unread, full := false, ""
	if status != 0 {
		defer e.ask()
		unread, full = inTime(e.p.unread), inTime(e.p.outputFull)
	}
	for _, f := range to {
		f.once.Do(func() {
			f.own.Store(int64(status))
			f.when.Store(time.Now().UnixNano())
			end.Node, end.ID, end.At = e.p.world.Self.Name(), e.p.world.Self.ID, time.Now()
			end.Unread, end.Full = unread, full
			value, _ := json.Marshal(end)
			e.p.session.Say(f.round, value)
		})
	}
}

// crash reports whether a process ended by a signal of its own, as where an exception is not caught.
func crash(status int) bool {
	return slices.Contains([]int{128 + int(unix.SIGABRT), 128 + int(unix.SIGSEGV), 128 + int(unix.SIGBUS),
		128 + int(unix.SIGILL), 128 + int(unix.SIGFPE)}, status)
}

// before returns what happened on other nodes before the failure of this node's command: the first failure, and the
// first end with 0 if that was before each failure. Nothing is returned where all were ended alike, as by a scheduler:
// a rank of this node then ended by the same signal, while torchrun ends with 1.
func (e *ends) before() (failed, left *rankEnd) {
	own, status, asked := e.p.world.Self.ID, int(e.failed.own.Load()), e.asked()
	if e.failed.recent() && e.failed.end.ID != own && !(asked && e.failed.end.Status == status) {
		failed = &e.failed.end
	}
	if e.left.recent() && e.left.end.ID != own && !asked && !(e.failed.known() && e.failed.at.Before(e.left.at)) {
		left = &e.left.end
	}
	return failed, left
}

// asked reports whether the first of this node's ranks was asked to end.
func (e *ends) asked() bool {
	status := int(e.failed.own.Load())
	return status == 128+int(syscall.SIGTERM) || status == 128+int(syscall.SIGINT)
}

// storeEnded reports whether the launch of the node that hosts the store has ended: its port is closed.
func (e *ends) storeEnded() bool {
	if !e.p.spec.Embedded || e.p.server.Load() != nil || e.asked() {
		return false
	}
	c, err := net.DialTimeout("tcp", e.p.spec.Endpoints[0], lastSay)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// endOf returns a statement about the failed command of another node. Where its first rank was ended by a signal, that:
// torchrun itself then ends with 1.
func (p *companion) endOf(text string) string {
	n, _ := p.lostOf(text)
	end := p.endOn(n)
	if end == nil {
		return text
	}
	text += end.more()
	who := fmt.Sprintf("node rank %d, %s, ", n.Rank, n.Name)
	switch by := rendezvous.Ender(end.Status); {
	case end.Rank < 0 && end.PID == 0 || end.Status <= 128:
		return text
	case end.Rank < 0:
		return who + fmt.Sprintf("failed: a rank there (pid %d) %s", end.PID, ended(end.Status)) + end.more()
	case by != "":
		return who + "was ended by " + by
	}
	result := rendezvous.StatusText(end.Status) + end.more()
	return who + fmt.Sprintf("failed: its rank %d ended with %s", end.Rank, result)
}

// known reports whether the first end is known.
func (f *firstEnd) known() bool {
	select {
	case <-f.heard:
		return true
	default:
		return false
	}
}

// recent reports whether the first end is known, and not long ago.
func (f *firstEnd) recent() bool { return f.known() && time.Since(f.at) < relatedEnds }

// over posts how this node's command ended, and waits until it is in order among all ends.
func (e *ends) over(status int) {
	e.post(rankEnd{Rank: -1, Status: status})
	select {
	case <-e.of(status).heard:
	case <-time.After(lastSay):
	}
	if status != 0 {
		e.missing(e.p.ctx)
	}
}

// terminated posts that SIGTERM has ended this process, as a rule together with all others of this node's job.
func (e *ends) terminated() {
	e.post(rankEnd{Rank: -1, Status: 128 + int(syscall.SIGTERM), Launch: true})
	select {
	case <-e.failed.heard:
	case <-time.After(lastSay):
	}
}

// settle waits until the failure of a rank of this node is in order among all, and until it is known whether another
// node has vanished. Where it was the first, it waits also for a crash of a rank of another node.
func (e *ends) settle(ctx context.Context) {
	wait := func(f *firstEnd, limit time.Duration) {
		select {
		case <-f.heard:
		case <-time.After(limit):
		case <-ctx.Done():
		}
	}
	wait(&e.failed, lastSay)
	if e.missing(ctx); e.vanished == nil && e.failedHere() {
		e.reset(ctx)
		wait(&e.crashed, crashSpan)
	}
}

// together returns the end of a rank of another node that failed at the same time as one of this node, where one of
// both crashed: the kernel reports a crash late, so the order of the posts says nothing.
func (e *ends) together() *rankEnd {
	own := time.Unix(0, e.failed.when.Load())
	near := func(f *firstEnd) bool {
		return f.known() && f.end.ID != e.p.world.Self.ID && f.at.Sub(own).Abs() < crashSpan
	}
	switch {
	case crash(int(e.failed.own.Load())) && near(&e.failed) && !crash(e.failed.end.Status):
		return &e.failed.end
	case e.failed.own.Load() != 0 && !crash(int(e.failed.own.Load())) && near(&e.crashed):
		return &e.crashed.end
	}
	return nil
}

// soonAfter is how soon a rank fails because its connections to one that has ended with 0 are closed: later, it has
// another reason.
const soonAfter = 30 * time.Second

// blame prints which rank of another node ended before something of this node failed, unless a finding about another
// node is printed already.
func (e *ends) blame(what string) {
	if e.p.blamed.Load() {
		return
	}
	here := e.p.world.Self.Name()
	switch failed, left := e.before(); {
	case e.vanished != nil:
		e.p.say(withoutReport(*e.vanished, what), "")
	case e.together() != nil:
		end := e.together()
		first, then, crashed := end.Node, here, end.Status
		if !crash(end.Status) {
			first, then, crashed = here, end.Node, int(e.failed.own.Load())
		}
		e.p.say(finding.Warnf("%s, and one of this node %s at %s: which of both failed first is not known", end,
			ended(int(e.failed.own.Load())), time.Unix(0, e.failed.when.Load()).Format("15:04:05")).
			Named("node.failed").Do("%s", strings.TrimSpace(fmt.Sprintf("first look at what %s printed, whose rank crashed; "+
			"then at %s\n%s", first, then, meaning(crashed)))), "")
	case failed != nil:
		first := "first look at what " + failed.Node + " printed\n" + failed.fix()
		if failed.Unread {
			first = "first look at what read the output of " + failed.Node + ": why has it ended? A print fails there " +
				"since then (BrokenPipeError, SIGPIPE)"
		}
		soon := left != nil && e.failed.at.Sub(e.left.at) < soonAfter
		if soon && !failed.Unread && failed.Status < 128 && failed.fix() == "" {
			first = fmt.Sprintf("first look at rank %d, which ended with 0: does it make fewer steps than the others, or call "+
				"sys.exit? Ranks that exchange data with it fail then\nthen look at what %s printed", left.Rank, failed.Node)
		}
		f := finding.Warnf("%s, before %s failed: its failure may follow from that", failed, what).
			Named("node.failed").Do("%s", strings.TrimSpace(first))
		if left != nil {
			f = f.See("before that", "%s", left)
		}
		e.p.say(f, "")
	case left != nil:
		e.p.say(finding.Warnf("%s, before %s failed: a rank that exchanges data with it fails", left, what).
			Named("node.ended").Do("do all ranks have the same number of steps?"), "")
	case e.sayMoved(what):
	case e.failedHere() && e.failed.end.fix() != "":
		e.p.say(finding.Warnf("%s, first of all ranks", e.failed.end).Named("node.rank").Do("%s", e.failed.end.fix()), "")
	case e.storeEnded():
		e.p.say(finding.Warnf("launch on the node that hosts the store (%s) had ended, before %s failed: its failure may "+
			"follow from that", e.p.spec.Endpoints[0], what).
			Named("node.lost").Do("first look at that node: what it printed, and what ended its processes"), "")
	}
}
