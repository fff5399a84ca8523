// Package hostwatch is the small process that remains next to an mpirun that launch became. It has a shell on each
// other host of the line, notices a host that is lost, and looks at all hosts for a job that does not go on. mpirun
// itself notices a lost host after minutes, and a rank that waits for ever not at all.
//
// It begins some time after mpirun, so that its logins are not in mpirun's way, and ends with it.
package hostwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/remote"
	"launch/internal/child"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/process"
)

// Name is the process's name in the table of children.
const Name = "hostwatch"

// Host is a host of the line, other than this one.
type Host struct {
	Name   string `json:"name"`
	Target string `json:"target"` // for the agent: with the user
}

// Spec is what launch passes to the process.
type Spec struct {
	Hosts     []Host        `json:"hosts"`
	Agent     []string      `json:"agent"`      // the program that reaches them, with its options
	Program   string        `json:"program"`    // the file of launch here, and
	Hash      string        `json:"hash"`       // its SHA-256: a host may have the same
	HangAfter time.Duration `json:"hang_after"` // the first look at a job that may hang; 0: no look
	FailFast  bool          `json:"fail_fast"`  // a lost host ends mpirun
	Host      string        `json:"host"`       // this one
	JSON      bool          `json:"json"`       // the form of what is printed
	Mixed     bool          `json:"mixed"`      // the lines of all nodes go to one log
}

// Descriptors that Start passes.
const (
	fdLaunch = 3 // of handoff.Open: the process that becomes mpirun
	fdSpec   = 4
)

// settle is how long mpirun has to start its daemons and ranks before the first login, and settleEach how much more for
// each host, up to maxSettle; a shorter HangAfter bounds it.
const settle, settleEach, maxSettle = 5 * time.Second, 200 * time.Millisecond, 20 * time.Second

// Start starts the process. It ends with this process, or what that becomes.
func Start(spec Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode what to watch: %w", err)
	}
	fd, err := unix.MemfdCreate("launch-hosts", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "hosts")
	defer file.Close()
	if _, err = file.Write(text); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("write what to watch: %w", err)
	}
	self, err := handoff.Open(os.Getpid())
	if err != nil {
		return err
	}
	defer self.Close()
	cmd := child.Command(Name)
	cmd.Env = append(os.Environ(), cmd.Env...) // the agent's: PATH, SSH_AUTH_SOCK
	cmd.ExtraFiles = []*os.File{self, file}
	cmd.Stderr = os.Stderr
	_, err = handoff.Detach(cmd)
	return err
}

// Main returns the process for the table of children.
func Main(print finding.Print) child.Func {
	return func(ctx context.Context, _ io.Reader, _ io.Writer) error {
		var spec Spec
		if err := json.NewDecoder(os.NewFile(fdSpec, "hosts")).Decode(&spec); err != nil {
			return fmt.Errorf("read what to watch: %w", err)
		}
		if err := child.CloseInherited(2); err != nil {
			return err
		}
		_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0) // else ps shows "exe"
		signal.Ignore(unix.SIGHUP, unix.SIGINT)                  // mpirun's end is ours
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := &watch{spec: spec, print: print, mpirun: process.Held("self", fdLaunch),
			copies: remote.NewCopies(), sockets: new(process.Table), losses: make(chan loss)}
		go func() {
			_ = handoff.Wait(ctx, os.NewFile(fdLaunch, "launch"))
			cancel()
		}()
		w.run(ctx)
		return nil
	}
}

// watch looks at the hosts of one mpirun.
type watch struct {
	spec    Spec
	print   finding.Print
	mpirun  int // its PID
	hosts   []*host
	copies  remote.Copies
	sockets *process.Table
	losses  chan loss
}

// run watches until mpirun ends.
func (w *watch) run(ctx context.Context) {
	for _, h := range w.spec.Hosts {
		w.hosts = append(w.hosts, &host{Host: h, watch: w})
	}
	wait := min(maxSettle, settle+time.Duration(len(w.hosts))*settleEach)
	if w.spec.HangAfter > 0 {
		wait = min(wait, w.spec.HangAfter)
	}
	if !sleep(ctx, wait) {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		remote.Each(len(w.hosts), len(w.hosts), func(i int) { w.hosts[i].attend(ctx) })
	}()
	if w.spec.HangAfter > 0 {
		go w.look(ctx, w.spec.HangAfter-wait)
	}
	w.collect(ctx)
	<-ended
}

// sleep waits; false: ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// say prints a finding and a note between the lines of the job.
func (w *watch) say(f finding.Finding, note string) {
	w.print(finding.From{JSON: w.spec.JSON, Mixed: w.spec.Mixed, Host: w.spec.Host, Rank: -1}, f, note)
}

// endGrace is how long mpirun may take to end its job after SIGTERM: its daemon on a lost host does not answer.
const endGrace = 5 * time.Second

// end ends mpirun.
func (w *watch) end(ctx context.Context) {
	started := process.Descendants(w.mpirun)
	_ = handoff.Signal(fdLaunch, unix.SIGTERM)
	if !sleep(ctx, endGrace) {
		return
	}
	for _, pid := range started {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	_ = handoff.Signal(fdLaunch, unix.SIGKILL)
}
