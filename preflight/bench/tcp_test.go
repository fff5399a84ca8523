package bench

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// both runs two ends against each other, in this process.
func both(t *testing.T, lead, answer Test) (a, b Result, errA, errB error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	there, back := make(chan []byte, 1), make(chan []byte, 1)
	say := func(out, in chan []byte) Exchange {
		return func(ctx context.Context, mine []byte) ([]byte, error) {
			out <- mine
			select {
			case b := <-in:
				return b, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	lead.Lead = true
	var wg sync.WaitGroup
	wg.Go(func() { a, errA = TCP().Run(ctx, lead, say(there, back)) })
	wg.Go(func() { b, errB = TCP().Run(ctx, answer, say(back, there)) })
	wg.Wait()
	return a, b, errA, errB
}

func local(name string) Port {
	return Port{Name: name, Netdev: "lo", Net: netip.MustParsePrefix("127.0.0.1/8")}
}

func quick(p Port) Test {
	return Test{Port: p, Streams: 4, Warm: 20 * time.Millisecond, Span: 80 * time.Millisecond, Pings: 100}
}

func TestBothEndsOfAPairKnowTheSame(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, b, errA, errB := both(t, quick(local("a")), quick(local("b")))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Out != b.Back || a.Back != b.Out || a.Latency != b.Latency || a.Tail != b.Tail {
		t.Errorf("the ends differ:\n%+v\n%+v", a, b)
	}
	for _, f := range []Flow{a.Out, a.Back} {
		// half of the span at least
		if f.Speed < 1e6 || f.RTT <= 0 || f.PMTU < 1000 || f.Deliver <= 0 || f.Carried < f.Speed*0.04 {
			t.Errorf("not believable of a loopback: %+v", f)
		}
	}
	if a.Latency <= 0 || a.Tail < a.Latency || a.Pings < 10 {
		t.Errorf("latency %v, tail %v of %d", a.Latency, a.Tail, a.Pings)
	}
}

func TestAnEndThatCannotOpenAPortIsTheErrorOfBoth(t *testing.T) {
	nowhere := quick(local("b"))
	nowhere.Port.Net = netip.MustParsePrefix("203.0.113.7/24")
	_, _, errA, errB := both(t, quick(local("a")), nowhere)
	for _, err := range []error{errA, errB} {
		if err == nil || !strings.Contains(err.Error(), "cannot assign requested address") {
			t.Errorf("got %v", err)
		}
	}
}

func TestStrangersGetNoStream(t *testing.T) {
	l, err := listenOn(t.Context(), local("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ticket := []byte("0123456789abcdef")
	stranger, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	_, _ = stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n....."))
	got := make(chan error, 1)
	go func() {
		streams, err := admit(t.Context(), l, 2, ticket)
		cut(streams)
		got <- err
	}()
	test := Test{Port: local("b"), Streams: 2}
	streams, err := connect(t.Context(), test, door{At: l.Addr().(*net.TCPAddr).AddrPort(), Ticket: ticket})
	if err != nil {
		t.Fatal(err)
	}
	cut(streams)
	if err := <-got; err != nil {
		t.Error(err)
	}
	_ = stranger.SetReadDeadline(time.Now().Add(2 * time.Second))
	if n, err := io.ReadFull(stranger, make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a stranger was answered with %d bytes", n)
	}
}

func TestAnEndThatNeverComesIsWaitedForNoLongerThanAllowed(t *testing.T) {
	began := time.Now()
	say := func(_ context.Context, mine []byte) ([]byte, error) { // another process that only talks
		var d door
		if json.Unmarshal(mine, &d) == nil && d.At.IsValid() {
			return []byte("{}"), nil
		}
		return mine, nil
	}
	_, err := TCP().Run(t.Context(), quick(local("a")), say)
	if err == nil || time.Since(began) > joinBudget+2*lateBudget {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestMemoryDoesNotGrowWithTheSpeed(t *testing.T) {
	var before, after runtime.MemStats
	test := quick(local("a"))
	test.Streams = 8
	runtime.ReadMemStats(&before)
	if _, _, errA, errB := both(t, test, test); errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	runtime.ReadMemStats(&after)
	// Both ends are in this process: one chunk for what is
	// sent and one for what is received, each.
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(10*chunk); got > most {
		t.Errorf("%d KiB were allocated, at most %d are meant to be", got>>10, most>>10)
	}
}
