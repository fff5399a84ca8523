package taskgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long ends a test that hangs.
const long = 20 * time.Second

func group(t *testing.T) string { return t.Name() + time.Now().String() }

func first(t *testing.T, group string, others int) *First {
	t.Helper()
	f, err := Listen(group, others)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type answer struct {
	number int
	got    string
	err    error
}

// others waits for the first as each of the numbers.
func others(ctx context.Context, group string, numbers ...int) <-chan answer {
	out := make(chan answer, len(numbers))
	for _, n := range numbers {
		go func() {
			b, err := Await(ctx, group, n, long, func() {})
			out <- answer{n, string(b), err}
		}()
	}
	return out
}

func TestTheOthersGetTheResultOfTheFirst(t *testing.T) {
	g := group(t)
	result := strings.Repeat("world\n", 100_000) // more than a socket's buffer
	waiting := others(t.Context(), g, 1, 2, 3)   // before the first listens
	f := first(t, g, 3)
	defer f.Close()
	if missing := f.Hand(t.Context(), []byte(result), long); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
	for range 3 {
		if a := <-waiting; a.err != nil || a.got != result {
			t.Errorf("number %d: %v, %d bytes", a.number, a.err, len(a.got))
		}
	}
}

func TestALateTaskStillGetsTheResult(t *testing.T) {
	g := group(t)
	f := first(t, g, 2)
	defer f.Close()
	early := others(t.Context(), g, 1)
	handed := make(chan []int)
	go func() { handed <- f.Hand(t.Context(), []byte("w"), long) }()
	<-early // the first is at it, and waits for the second
	if a := <-others(t.Context(), g, 2); a.got != "w" {
		t.Errorf("%+v", a)
	}
	if missing := <-handed; len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
}

func TestATaskThatDoesNotJoinIsNamed(t *testing.T) {
	g := group(t)
	f := first(t, g, 3)
	defer f.Close()
	two := others(t.Context(), g, 2)
	if diff := cmp.Diff([]int{1, 3}, f.Hand(t.Context(), []byte("w"), 300*time.Millisecond)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := <-two; a.got != "w" {
		t.Errorf("%+v", a)
	}
}

func TestATaskThatEndsWhileItWaitsIsNamed(t *testing.T) {
	g := group(t)
	f := first(t, g, 1)
	defer f.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	gone := others(ctx, g, 1)
	o := <-f.joined // it has connected
	f.joined <- o
	cancel(interrupted)
	if a := <-gone; !errors.Is(a.err, interrupted) {
		t.Errorf("%+v", a)
	}
	began := time.Now()
	if diff := cmp.Diff([]int{1}, f.Hand(t.Context(), []byte("w"), long)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if time.Since(began) >= long {
		t.Error("it was waited for")
	}
}

func TestAFirstThatVanishesIsMissedAtOnce(t *testing.T) {
	g := group(t)
	f := first(t, g, 2)
	waiting := others(t.Context(), g, 1, 2)
	o := <-f.joined
	f.joined <- o
	f.Close()
	a, b := <-waiting, answer{}
	if !errors.Is(a.err, ErrVanished) {
		t.Errorf("%+v", a)
	}
	select { // the other may have connected too late to see it
	case b = <-waiting:
		if !errors.Is(b.err, ErrVanished) {
			t.Errorf("%+v", b)
		}
	case <-time.After(100 * time.Millisecond):
		f = first(t, g, 2)
		f.Hand(t.Context(), nil, time.Second)
		f.Close()
		<-waiting
	}
}

func TestAnIncompleteResultIsAnError(t *testing.T) {
	g := group(t)
	l, err := net.ListenUnix("unix", socket(g, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	waiting := others(t.Context(), g, 1)
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, `"d29`)
	c.Close()
	if a := <-waiting; !errors.Is(a.err, ErrVanished) {
		t.Errorf("%+v", a)
	}
}

func TestWaitsHaveAnEnd(t *testing.T) {
	g := group(t)
	if _, err := Await(t.Context(), g, 1, 50*time.Millisecond, func() {}); !errors.Is(err, ErrAbsent) {
		t.Errorf("no task joined: %v", err)
	}
	f := first(t, g, 1)
	defer f.Close()
	if _, err := Await(t.Context(), g, 1, 50*time.Millisecond, func() {}); !errors.Is(err, ErrSilent) {
		t.Errorf("no result: %v", err)
	}
}

func TestAnInterruptEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	waiting := others(ctx, group(t), 1)
	cancel(why)
	if a := <-waiting; !errors.Is(a.err, why) {
		t.Errorf("%+v", a)
	}
}

func TestATaskNumberIsTakenOnce(t *testing.T) {
	g := group(t)
	f := first(t, g, 2)
	if _, err := Listen(g, 2); !errors.Is(err, ErrTaken) {
		t.Errorf("a second first: %v", err)
	}
	waiting := others(t.Context(), g, 1)
	o := <-f.joined
	f.joined <- o
	if _, err := Await(t.Context(), g, 1, long, func() {}); !errors.Is(err, ErrTaken) {
		t.Errorf("a second number 1: %v", err)
	}
	f.Close()
	<-waiting
	if other := first(t, g+"another", 1); other != nil {
		other.Close()
	}
	f = first(t, g, 1) // free again
	f.Close()
}
