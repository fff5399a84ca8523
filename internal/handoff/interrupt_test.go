package handoff

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNotifyContextEndsWithTheSignalAndNamesIt(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		ctx, stop, caught := NotifyContext(t.Context())
		if caught() != nil || ctx.Err() != nil {
			t.Fatalf("before any signal: caught %v, %v", caught(), ctx.Err())
		}
		unix.Kill(os.Getpid(), sig)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v did not end the context", sig)
		}
		if caught() != sig {
			t.Errorf("caught %v, want %v", caught(), sig)
		}
		if got, want := context.Cause(ctx).Error(), "interrupted by "+unix.SignalName(sig); got != want {
			t.Errorf("cause %q, want %q", got, want)
		}
		stop()
	}
}

func TestNotifyContextStopsWithoutASignal(t *testing.T) {
	ctx, stop, caught := NotifyContext(t.Context())
	stop()
	stop() // again, as a defer after an early call does
	if caught() != nil || context.Cause(ctx) != context.Canceled {
		t.Errorf("caught %v, cause %v", caught(), context.Cause(ctx))
	}
}

func TestNotifyContextLosesNoSignalWhenItStops(t *testing.T) {
	runtime.LockOSThread() // a signal to one's own thread has arrived when Tgkill returns
	defer runtime.UnlockOSThread()
	for range 300 {
		ctx, stop, caught := NotifyContext(t.Context())
		unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTERM)
		stop()
		if caught() != unix.SIGTERM {
			t.Fatalf("caught %v, cause %v", caught(), context.Cause(ctx))
		}
	}
}

// notified sends itself HUP and TERM while it listens, then INT.
func notified() error {
	ctx, stop, caught := NotifyContext(context.Background())
	defer stop()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGTERM, unix.SIGINT} {
		if caught() == nil {
			unix.Kill(os.Getpid(), s)
		}
		select { // a signal of one's own is handled within microseconds
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	fmt.Println(unix.SignalName(caught().(unix.Signal)))
	return nil
}

func TestNotifyContextLeavesIgnoredSignalsIgnored(t *testing.T) {
	const hup, term = signals(1) << (unix.SIGHUP - 1), signals(1) << (unix.SIGTERM - 1)
	for _, tc := range []struct {
		ignored signals
		want    string
		record  bool // Go itself does not know it
	}{
		{0, "SIGHUP\n", false},
		{hup, "SIGTERM\n", false}, // nohup
		{hup | term, "SIGINT\n", true},
	} {
		if tc.record && !hasConstructor {
			continue
		}
		if got := withSignals(t, 0, tc.ignored, "notify", self(t)); got != tc.want {
			t.Errorf("ignored %x: caught %q, want %q", tc.ignored, got, tc.want)
		}
	}
}

// The same signal twice at once, as timeout(1) sends it, counts once: a second that
// counted would end this process.
func TestNotifyContextCountsASignalThatIsSentTwiceOnce(t *testing.T) {
	ctx, stop, caught := NotifyContext(t.Context())
	defer stop()
	unix.Kill(os.Getpid(), unix.SIGINT)
	<-ctx.Done()
	unix.Kill(os.Getpid(), unix.SIGINT)
	time.Sleep(samePress / 2)
	if caught() != unix.SIGINT {
		t.Errorf("caught %v", caught())
	}
}
