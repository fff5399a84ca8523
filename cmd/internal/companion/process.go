package companion

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"launch/fabric"
	"launch/internal/child"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// Descriptors that Client passes.
const (
	fdLaunch = 3 // of handoff.Open: the process that becomes the command
	fdSocket = 4
)

const (
	// clearBudget bounds how long calls in progress, and the news of a failure, may take to end.
	clearBudget = time.Second
	// statusBudget bounds the wait for the status of a command that has ended:
	// the kernel has none for this process until the command's parent asks for it.
	statusBudget = 100 * time.Millisecond
)

// companion is that process, or a part of launch. Its exported methods are launch's calls.
type companion struct {
	ctx    context.Context
	cancel context.CancelFunc
	print  finding.Print
	busy   sync.RWMutex   // read-locked by each call
	wg     sync.WaitGroup // what calls leave running
	news   chan news

	handedOff chan none   // closed when launch is about to become the command
	leave     chan string // why launch leaves
	broken    chan error  // why the store hosted here cannot continue
	rounds    sync.Map    // *round by ID

	spec        *Spec
	tls         *tls.Config // of the side channel
	credential  string      // in which munge hides spec.Token; "": it does not
	port        *masterport.Held
	door        *sidechannel.Door // answers at port until the start; nil: it does not
	sideChannel *sidechannel.Listener
	server      atomic.Pointer[rendezvous.Server]
	launch      int          // its PID, later the command's
	command     atomic.Int64 // with --restarts: the PID of the command
	ended       atomic.Bool  // with --restarts: that command has ended
	status      int          // of the command that has ended, if known
	statusKnown bool
	client      *clientv3.Client
	choosing    context.Context // while nodes may choose another host for the store; nil: they do not
	chosen      context.CancelFunc
	begun       atomic.Bool // this node has started
	hangup      rendezvous.Hangup
	session     *rendezvous.Session
	world       *rendezvous.World
	watcher     *watcher
	ends        *ends // nil: a single node, or one that starts again
	doctor      *doctor
	blamed      atomic.Bool                            // a finding about another node is printed
	split       atomic.Bool                            // that the network may be in two parts is printed
	running     context.Context                        // of the present start, from its go on
	machine     func(context.Context, netip.Addr) bool // whether the kernel there answers at once; nil: not known
	endRun      context.CancelFunc
	explained   atomic.Int64 // when a failure here was explained, in nanoseconds since 1970
}

// Main returns the companion process for the table of children.
func Main(print finding.Print) child.Func {
	return func(ctx context.Context, _ io.Reader, _ io.Writer) error {
		if err := child.CloseInherited(2); err != nil {
			return err
		}
		handoff.OnAbort(abortNote(false), 128+int(unix.SIGABRT))
		_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0) // else ps shows "exe"
		// A command that these end is reported, and one whose stderr is read no more ends well, too.
		signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
		// The store's files are its own; the command's umask may forbid even that.
		unix.Umask(0o077)
		_ = unix.SetNonblock(fdSocket, true)
		p, err := serve(ctx, os.NewFile(fdSocket, "launch"), print, process.Held("self", fdLaunch))
		if err != nil {
			return err
		}
		term := make(chan os.Signal, 1)
		if !fabric.CgroupOf(fabric.Live()).Narrow() { // it takes two threads
			signal.Notify(term, unix.SIGTERM)
		}
		ended := make(chan error, 1)
		stat, _ := os.Open(fmt.Sprintf("/proc/%d/stat", p.launch))
		go func() {
			err := handoff.Wait(p.ctx, os.NewFile(fdLaunch, "launch"))
			p.status, p.statusKnown = handoff.ZombieStatus(stat)
			ended <- err
		}()

		why := p.wait(ended, term)
		// First close stderr: who reads the command's output through a pipe waits for the last writer.
		closeStderr()
		if p.ends != nil && p.statusKnown && p.status == 0 {
			p.ends.over(0)
		}
		p.end(why)
		if p.command.Load() != 0 && why == launchEnded {
			p.endOrphans()
		}
		return nil
	}
}

// serve answers launch's calls over a connection; launch is its PID.
func serve(ctx context.Context, conn io.ReadWriteCloser, print finding.Print, launch int) (*companion, error) {
	p := &companion{print: print, launch: launch, news: make(chan news), handedOff: make(chan none),
		leave: make(chan string, 1), broken: make(chan error, 1), machine: machineAnswers}
	p.ctx, p.cancel = context.WithCancel(ctx)
	server := rpc.NewServer()
	if err := server.RegisterName(service, p); err != nil {
		return nil, err
	}
	go server.ServeCodec(jsonrpc.NewServerCodec(conn))
	return p, nil
}

// inside starts a companion that is a part of this process, and returns launch's end of their connection. It ends when
// launch leaves.
func inside() (io.ReadWriteCloser, error) {
	mine, theirs := net.Pipe()
	p, err := serve(context.Background(), theirs, nil, os.Getpid())
	if err != nil {
		return nil, err
	}
	go func() {
		p.end(p.wait(nil, nil))
		theirs.Close()
	}()
	return mine, nil
}

// end ends what runs, and takes leave.
func (p *companion) end(why string) {
	p.cancel()
	idle := make(chan none)
	go func() { p.busy.Lock(); p.wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-time.After(clearBudget):
	}
	p.clear(why)
}

// launchEnded is why a node leaves whose launch has ended and gave no reason.
const launchEnded = "its launch ended"

// wait waits for the end of launch, or of the command that it became, and returns why this node leaves.
func (p *companion) wait(ended <-chan error, term <-chan os.Signal) (why string) {
	select {
	case <-ended:
		return p.over()
	case <-term:
		select {
		case <-ended: // before: what remains of a job that has ended well may get SIGTERM
			return p.over()
		default:
		}
		if !p.isCommand() {
			p.fail(ErrTerminated)
		} else if p.ends != nil {
			p.ends.terminated()
		}
		return "its companion process was ended by SIGTERM"
	case why := <-p.leave:
		return why
	case err := <-p.broken:
		p.fail(err)
		return "its store failed: " + err.Error()
	}
}

// isCommand reports whether launch has become the command, or is about to.
func (p *companion) isCommand() bool {
	select {
	case <-p.handedOff:
		return true
	default:
		return false
	}
}

// over reports the end of launch, or of the command that it became, and returns why this node leaves.
func (p *companion) over() (why string) {
	if !p.isCommand() {
		return launchEnded
	}
	if !p.statusKnown {
		p.status, p.statusKnown = handoff.Status(fdLaunch, statusBudget)
	}
	if p.statusKnown {
		p.session.Finished(p.status)
	}
	p.watcher.memory() // it may be why
	if p.statusKnown && p.status != 0 && time.Now().UnixNano()-p.explained.Load() > int64(lastRankAfter) {
		p.explain("this node's command", func() { p.ends.over(p.status) })
	}
	if p.command.Load() != 0 && p.status == 128+int(unix.SIGKILL) {
		return launchEnded // it was the parent of the command
	}
	return "its command has ended"
}

// explain prints what is known of a failure here, once order has put it among those of the other nodes.
func (p *companion) explain(what string, order func()) {
	p.explained.Store(time.Now().UnixNano())
	p.watcher.storage()
	p.watcher.readOnly()
	if p.ends != nil {
		order()
		if p.ends.vanished == nil {
			p.ends.reset(p.ctx)
		}
		p.ends.blame(what)
	}
}

// doomed reports whether this process ends with the command: as the first process of a container does, and its
// child where the entrypoint is a shell script.
func (p *companion) doomed() bool {
	if p.command.Load() != 0 {
		return false
	}
	s, err := process.Read(p.launch)
	return p.launch == 1 || err == nil && s.Parent == 1
}

// closeStderr replaces stderr by /dev/null.
func closeStderr() {
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(2)
		return
	}
	_ = unix.Dup2(null, 2)
	unix.Close(null)
}

// lastWord is how long the store remains for the other nodes to hear that it ends with its host.
const lastWord = 50 * time.Millisecond

// clear takes leave and removes what is left; the process ends right after it.
func (p *companion) clear(why string) {
	server := p.server.Load()
	if server != nil {
		server.Shut()
	}
	if p.session != nil {
		p.session.Leave(why)
	}
	if p.client != nil {
		p.client.Close()
	}
	if server != nil {
		time.Sleep(lastWord)
		server.Drop()
	}
}

// report waits until launch asks for news, and answers n. With that launch has seen all earlier news.
func (p *companion) report(ctx context.Context, n news) {
	select {
	case p.news <- n:
	case <-ctx.Done():
	}
}

// fail reports to launch why this process ends.
func (p *companion) fail(err error) {
	ctx, cancel := context.WithTimeout(p.ctx, clearBudget)
	defer cancel()
	p.report(ctx, news{Failure: faultOf(err)})
	p.report(ctx, news{})
}

// event reports an event of the rendezvous.
func (p *companion) event(e rendezvous.Event) {
	select {
	case <-p.handedOff:
		p.late(e)
	default:
		p.doctor.await(&e)
		p.report(p.ctx, news{Event: &e})
	}
}

// KillGrace is how long a command may take to end after SIGTERM, when --fail-fast or --on-hang ends it.
const KillGrace = 2 * time.Second

// failGrace is how long a command may run on after that of another node failed, before it is
// said: as a rule the commands of all nodes end then.
const failGrace = 1500 * time.Millisecond

// late reports a node that is missing after the go, or whose command failed.
func (p *companion) late(e rendezvous.Event) {
	at := time.Now().Format("15:04:05")
	switch e.Kind {
	case rendezvous.Late:
		p.tell(finding.Warnf("%s; the others wait for it", e.Text).Named("start.late"))
		if !p.spec.FailFast {
			p.wg.Go(func() { p.hasStarted(e.Text) })
		}
	case rendezvous.Gone:
		p.wg.Go(func() { p.gone(e.Text, at) })
	case rendezvous.Failed:
		p.wg.Go(func() {
			select {
			case <-time.After(failGrace):
				text := p.endOf(e.Text)
				p.tell(finding.Warnf("%s (seen at %s)"+rankWaits, text, at).Named("node.failed").Do("%s", meaningOf(text)))
			case <-p.ctx.Done():
			}
		})
	}
}

// rankWaits is what the end of another node means: a rank fails at once where its connection was closed.
const rankWaits = ": ranks that exchange data with it fail now, or wait until their own timeout"

// say prints a finding and a note between the lines of the command.
func (p *companion) say(f finding.Finding, note string) {
	w := finding.From{JSON: p.spec.JSON, Mixed: p.spec.Mixed, Host: p.spec.Self.Host, Job: p.spec.Job, Rank: -1}
	if p.world != nil {
		w.Rank = p.world.Rank
	}
	p.print(w, f, note)
}

// tell prints a finding about another node, and ends the command with --fail-fast.
func (p *companion) tell(f finding.Finding) {
	p.blamed.Store(true)
	if !p.spec.FailFast {
		p.say(f, "")
		return
	}
	p.say(f, "ending the command: --fail-fast")
	p.wg.Go(p.endCommand)
}

// endCommand ends the command, and after a grace all that it started: a rank that waits in a
// collective cannot handle a signal.
func (p *companion) endCommand() {
	started := process.Descendants(p.spec.Self.PID)
	_ = handoff.Signal(fdLaunch, unix.SIGTERM)
	select {
	case <-time.After(KillGrace):
	case <-p.ctx.Done():
	}
	for _, pid := range slices.Concat(started, process.Descendants(p.spec.Self.PID)) {
		if pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	_ = handoff.Signal(fdLaunch, unix.SIGKILL)
}

// interfaceOf returns the interface that has an address.
func interfaceOf(a netip.Addr) (i net.Interface, ok bool) {
	all, _ := net.Interfaces()
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, at := range addrs {
			if ip, ok := at.(*net.IPNet); ok && ip.IP.Equal(a.AsSlice()) {
				return i, true
			}
		}
	}
	return i, false
}
