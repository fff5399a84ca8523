package start

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"launch/cmd/internal/remote"
	"launch/cmd/internal/ui"
	"launch/internal/mpirun"
	"launch/preflight/hosts"
)

// A host is late by what this machine is late itself.
func TestABusyHeadGivesItsHostsMoreTime(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		since, waited, slowest time.Duration
		want                   time.Duration // the limit
		overloaded             bool
	}{
		{"an idle head", 11 * time.Second, 0, 0, 11 * time.Second, false},
		{"slow hosts", 11 * time.Second, 0, 10 * time.Second, 30 * time.Second, false},
		{"very slow hosts", 30 * time.Second, 0, 30 * time.Second, patience, false},
		{"processes that waited", 11 * time.Second, 9 * time.Second, 0, 20 * time.Second, true},
		{"never more than it lasts", 11 * time.Second, time.Hour, 0, 22 * time.Second, true},
		{"at most", 10 * time.Minute, 9 * time.Minute, 0, busyPatience, true},
	} {
		p := &pace{began: time.Now().Add(-tc.since)}
		p.waited.Store(int64(tc.waited))
		p.slowest.Store(int64(tc.slowest))
		if got := p.limit().Round(time.Second); got != tc.want || p.overloaded() != tc.overloaded {
			t.Errorf("%s: %s, overloaded %v; want %s", tc.name, got, p.overloaded(), tc.want)
		}
	}
}

func TestWhetherAProcessMayUseAllProcessors(t *testing.T) {
	for _, tc := range []struct {
		online string
		usable int
		want   bool
	}{
		{"0-127\n", 128, true}, {"0-127\n", 1, false}, {"0\n", 1, true}, {"0-3,8-11,16\n", 9, true}, {"", 4, false},
	} {
		files := fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte(tc.online)}}
		if got := allProcessors(files, tc.usable); got != tc.want {
			t.Errorf("%q, %d: %v", tc.online, tc.usable, got)
		}
	}
	if allProcessors(fstest.MapFS{}, 1) || allProcessors(nil, 1) {
		t.Error("without the file")
	}
}

// The processes of the machine count only where this one may use all processors.
func TestAPaceSeesABusyMachine(t *testing.T) {
	n := runtime.NumCPU()
	for online, want := range map[int]bool{n: true, n + 1: false} {
		files := fstest.MapFS{"proc/loadavg": {Data: fmt.Appendf(nil, "9 9 9 %d/90000 1", 1000*n)},
			"sys/devices/system/cpu/online": {Data: fmt.Appendf(nil, "0-%d\n", online-1)}}
		p := newPace(files)
		time.Sleep(3 * beat)
		p.stop()
		if got := p.overloaded(); got != want {
			t.Errorf("%d online, %d usable: overloaded %v, it waited %s", online, n, got, p.busy())
		}
	}
}

func TestForHowLongAProcessWaits(t *testing.T) {
	for _, tc := range []struct {
		want int // to run, on two processors
		took time.Duration
		is   time.Duration
	}{
		{0, beat, 0}, {2, beat, 0}, {6, beat, 0}, {40, beat, beat * 19 / 20}, {0, beat + time.Second, time.Second},
		{0, beat + time.Millisecond, 0},
	} {
		if got := waiting(tc.want, 2, tc.took); got != tc.is {
			t.Errorf("%d, %s: %s; want %s", tc.want, tc.took, got, tc.is)
		}
	}
	for text, want := range map[string]int{"0.20 0.18 0.12 41/80 11206": 40, "0.20 0.18 0.12 0/80 1": 0, "": 0,
		"1 2 3 x": 0} {
		if got := runnable(fstest.MapFS{"proc/loadavg": {Data: []byte(text)}}); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if got := runnable(nil); got != 0 {
		t.Errorf("no files: %d", got)
	}
}

func TestWhichHostsAreLate(t *testing.T) {
	for want, a := range map[bool][]hosts.Answer{
		true: {{Late: true}, {Failed: "Connection timed out during banner exchange"},
			{Whole: true, Facts: mpirun.Facts{Calls: []mpirun.Call{{To: "10.0.0.1"}}}}},
		false: {{Whole: true}, {Failed: "Connection refused"},
			{Failed: "connect to host h2 port 22: Connection timed out"}, {Late: true, LossWay: "to it"},
			{Whole: true, Late: true, Facts: mpirun.Facts{Host: "h"}},
			{Whole: true, Facts: mpirun.Facts{Calls: []mpirun.Call{{To: "10.0.0.1", Said: "connection refused"}}}}},
	} {
		for _, one := range a {
			if tooLate(one) != want {
				t.Errorf("%+v: %v", one, !want)
			}
		}
	}
}

// Where this machine was busy, the hosts that were late are asked once more, and no others.
func TestLateHostsOfABusyHeadAreAskedAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		waited time.Duration // of the 20 s since the beginning
		late   []bool
		asked  []int
		said   string
	}{
		{"an idle head", time.Second, []bool{false, true, true}, nil, ""},
		{"a busy head", 15 * time.Second, []bool{false, true, false, true}, []int{1, 3},
			"in 20s its processes waited 15s for a processor; asking h1, h3 again"},
		{"a busy head in time", 15 * time.Second, []bool{false, false}, nil, "all hosts have answered"},
	} {
		var said strings.Builder
		s := &Start{UI: ui.New(io.Discard, &said, ui.Options{Env: func(string) string { return "" }})}
		a := asked{answers: make([]hosts.Answer, len(tc.late)), sessions: make([]*remote.Session, len(tc.late))}
		for i, late := range tc.late {
			a.answers[i] = hosts.Answer{Host: mpirun.Host{Name: fmt.Sprint("h", i)}, Local: i == 0, Late: late, Whole: !late}
		}
		p := &pace{began: time.Now().Add(-20 * time.Second)}
		p.waited.Store(int64(tc.waited))
		var mu sync.Mutex
		var again []int
		s.askAgain(t.Context(), p, &a, func(p *pace, i int) {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, i)
			if p.connect != busyConnect {
				t.Errorf("%s: ssh has %s to connect", tc.name, p.connect)
			}
			a.answers[i].Late, a.answers[i].Whole = false, true
		})
		slices.Sort(again)
		if !slices.Equal(again, tc.asked) || !strings.Contains(said.String(), tc.said) || tc.said == "" && said.Len() > 0 {
			t.Errorf("%s: asked %v, said %q", tc.name, again, said.String())
		}
		if slices.ContainsFunc(a.answers, func(h hosts.Answer) bool { return h.Busy != "" }) {
			t.Errorf("%s: a host that has answered is excused", tc.name)
		}
	}
}

// A host whose sshd answers gets more time for its login, within a bound, and a silent one does not.
func TestASlowLoginGetsMoreTime(t *testing.T) {
	for _, tt := range []struct {
		alive bool
		since time.Duration
		cut   bool
	}{{true, askBudget, false}, {false, askBudget, true}, {true, loginPatience, true}} {
		said := make(chan string, 1)
		p := &pace{began: time.Now().Add(-tt.since), slow: func(host string) { said <- host }}
		cut := make(chan bool, 1)
		stop := p.guard("h1", func() bool { return tt.alive }, func() { cut <- true })
		select {
		case <-cut:
			if !tt.cut {
				t.Errorf("%+v: cut", tt)
			}
		case <-said:
			if tt.cut {
				t.Errorf("%+v: waits", tt)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%+v: nothing", tt)
		}
		stop()
	}
}

// A host that answers while its login is looked at is not cut off.
func TestAHostMayAnswerWhileItsLoginIsLookedAt(t *testing.T) {
	for _, alive := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := &pace{began: time.Now().Add(-askBudget), lost: make(chan struct{})}
			p.slow = func(string) { t.Errorf("alive: %t: it says that it waits", alive) }
			look, looked := make(chan bool), make(chan bool)
			stop := p.guard("h1", func() bool { close(look); return <-looked }, func() { t.Errorf("alive: %t: cut", alive) })
			<-look
			stop()
			looked <- alive
			synctest.Wait()
		})
	}
}

// A slow login does not delay the verdict on a host that cannot take part, whichever of both is seen first.
func TestALostHostEndsTheWaitForASlowLogin(t *testing.T) {
	for _, before := range []bool{true, false} {
		said := make(chan string, 1)
		p := &pace{began: time.Now().Add(-askBudget), slow: func(host string) { said <- host }, lost: make(chan struct{})}
		cut := make(chan bool, 1)
		if before {
			close(p.lost)
		}
		stop := p.guard("h1", func() bool { return true }, func() { cut <- true })
		if !before {
			<-said
			close(p.lost)
		}
		select {
		case <-cut:
		case <-time.After(5 * time.Second):
			t.Errorf("lost before: %t: it waits", before)
		}
		if len(said) > 0 {
			t.Errorf("lost before: %t: it says that it waits", before)
		}
		stop()
	}
}
