package handoff

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// samePress is how long after a signal the next one counts as the same: timeout(1) sends it to its child
// and to the group, and the second would end launch before it could report why. A user is slower.
const samePress = 200 * time.Millisecond

// NotifyContext returns a context that is cancelled at the first INT, TERM or HUP;
// its cause names the signal. A second signal, unless it is the same again, has its
// usual effect and ends the process. A signal that was ignored when launch started
// (nohup, a script's "&") is ignored from now on; otherwise Go would die of it.
//
// caught returns the signal that arrived, or nil. Call stop, which ends the
// listening, before Exec, and caught once more between the two: no signal is lost.
func NotifyContext(parent context.Context) (ctx context.Context, stop func(), caught func() os.Signal) {
	ctx, cancel := context.WithCancelCause(parent)
	c := make(chan os.Signal, 1)
	if ignore := Inherited().ignorable(); len(ignore) > 0 { // Ignore without a list means all
		signal.Ignore(ignore...)
	}
	if listen := heard(); len(listen) > 0 { // Notify without a list means all
		signal.Notify(c, listen...)
	}
	var got atomic.Pointer[os.Signal]
	quit, done := make(chan struct{}), make(chan struct{})
	take := func(s os.Signal) {
		got.Store(&s)
		cancel(fmt.Errorf("interrupted by %s", unix.SignalName(s.(syscall.Signal))))
	}
	go func() {
		defer close(done)
		select {
		case s := <-c:
			take(s)
			select {
			case <-time.After(samePress):
			case <-quit:
			}
			signal.Stop(c)
		case <-quit:
		}
	}()
	stop = sync.OnceFunc(func() {
		signal.Stop(c)
		close(quit)
		<-done
		select {
		case s := <-c: // it arrived while the listening ended
			take(s)
		default:
		}
		cancel(context.Canceled)
	})
	caught = func() os.Signal {
		if s := got.Load(); s != nil {
			return *s
		}
		return nil
	}
	return ctx, stop, caught
}

// Again returns a channel that gets the next INT, TERM or HUP, unless it is the same press as one before the call. stop
// ends the listening.
func Again() (c <-chan os.Signal, stop func()) {
	raw, next, quit := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	began := time.Now()
	if listen := heard(); len(listen) > 0 {
		signal.Notify(raw, listen...)
	}
	go func() {
		for {
			select {
			case s := <-raw:
				if time.Since(began) > samePress {
					next <- s
					return
				}
			case <-quit:
				return
			}
		}
	}()
	return next, sync.OnceFunc(func() {
		signal.Stop(raw)
		close(quit)
	})
}

// ignorable returns the recorded ignored signals that Go can do without: it needs
// CHLD to wait for its own children, and URG to stop a goroutine.
func (s State) ignorable() []os.Signal {
	var out []os.Signal
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if s.ignored.has(n) && n != unix.SIGCHLD && n != unix.SIGURG {
			out = append(out, n)
		}
	}
	return out
}

// heard returns the signals to listen for. Go knows an ignored INT and HUP without the record.
func heard() []os.Signal {
	return slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}, signal.Ignored)
}
