package taskgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// hand waits for the others, and gives them the result.
func (f *First) hand(ctx context.Context, result []byte, budget time.Duration) []int {
	f.Gather(ctx, budget, func([]int) {})
	return f.Hand(result)
}

// awaitOne waits until a task has joined.
func (f *First) awaitOne(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if missing, _ := f.missing(); len(missing) < f.others {
			return
		}
	}
	t.Fatal("no task joined")
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
	if missing := f.hand(t.Context(), []byte(result), long); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
	for range 3 {
		if a := <-waiting; a.err != nil || a.got != result {
			t.Errorf("number %d: %v, %d bytes", a.number, a.err, len(a.got))
		}
	}
}

func TestALateTaskIsWaitedFor(t *testing.T) {
	g := group(t)
	f := first(t, g, 2)
	defer f.Close()
	early := others(t.Context(), g, 1)
	f.awaitOne(t)
	handed := make(chan []int)
	go func() { handed <- f.hand(t.Context(), []byte("w"), long) }()
	if a := <-others(t.Context(), g, 2); a.got != "w" {
		t.Errorf("%+v", a)
	}
	if a := <-early; a.got != "w" {
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
	if diff := cmp.Diff([]int{1, 3}, f.hand(t.Context(), []byte("w"), 300*time.Millisecond)); diff != "" {
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
	f.awaitOne(t)
	cancel(interrupted)
	if a := <-gone; !errors.Is(a.err, interrupted) {
		t.Errorf("%+v", a)
	}
	began := time.Now()
	if diff := cmp.Diff([]int{1}, f.hand(t.Context(), []byte("w"), long)); diff != "" {
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
	f.awaitOne(t)
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
		f.hand(t.Context(), nil, time.Second)
		f.Close()
		<-waiting
	}
}

func TestAnIncompleteResultIsAnError(t *testing.T) {
	g := group(t)
	lock, err := take(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: lock.socket})
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
	f.awaitOne(t)
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

// Another user has taken the names of the folders first, or left them open.
func TestAFolderOfAnotherUserIsNotEntered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a folder of another user")
	}
	was := bases
	t.Cleanup(func() { bases = was })
	bases = []string{t.TempDir(), t.TempDir(), t.TempDir()}
	in := func(i int) string { return filepath.Join(bases[i], "launch-0") }
	other := os.Mkdir(in(0), 0o700)
	theirs := os.Chown(in(0), 65533, 65533)
	link := os.Symlink("/etc", in(1))
	if err := errors.Join(other, theirs, link); err != nil {
		t.Fatal(err)
	}
	dir, err := folder()
	if err != nil || dir != in(2) {
		t.Errorf("%s, %v", dir, err)
	}
	if err := os.Chmod(in(2), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err = folder(); !errors.Is(err, ErrNoFolder) || !strings.Contains(err.Error(), "belongs to user 65533") {
		t.Errorf("got %v", err)
	}
}

// A first task that was killed leaves its socket behind.
func TestALeftSocketIsReplaced(t *testing.T) {
	g := group(t)
	lock, err := take(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock.socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock.release()
	f := first(t, g, 1)
	defer f.Close()
	waiting := others(t.Context(), g, 1)
	f.hand(t.Context(), []byte("w"), long)
	if a := <-waiting; a.got != "w" {
		t.Errorf("%+v", a)
	}
}
