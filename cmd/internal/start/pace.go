package start

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"launch/cmd/internal/remote"
	"launch/internal/finding"
	"launch/internal/mpirun"
	"launch/preflight/hosts"
)

const (
	// patience bounds the time that a host gets where all hosts are slow, and busyPatience where this one is busy.
	patience, busyPatience = 40 * time.Second, 2 * time.Minute
	// loginPatience bounds the time of a host whose sshd answers, while its login goes on.
	loginPatience = 30 * time.Second
	// beat is how often this machine is looked at, and tooLong what a pause may be late.
	beat, tooLong = 200 * time.Millisecond, 20 * time.Millisecond
	// crowd is how many processes that want to run make a processor a busy one. One more than processors is usual, and
	// then PSI (/proc/pressure/cpu) has nearly as much as with forty.
	crowd = 3
	// busyConnect is how long ssh may try to connect from a busy machine, whose own shell takes ownLate at least.
	busyConnect, ownLate = 30 * time.Second, 3 * time.Second
)

// pace gives slow hosts more time where this machine, or all hosts, are slow: three times what the slowest that has
// answered took, and as much as this machine let its own processes wait for a processor.
type pace struct {
	began   time.Time
	stop    func()
	connect time.Duration // for ssh; 0: as always

	slow func(host string) // says that a login takes long; nil: it gets no more time
	lost chan struct{}     // closed once a host cannot take part: then no login gets more time
	lose sync.Once         // closes lost

	slowest atomic.Int64 // nanoseconds
	waited  atomic.Int64 // nanoseconds that a process of this machine waited for a processor so far
}

// newPace begins to measure how busy this machine is, until stop is called.
func newPace(files fs.FS) *pace {
	p := &pace{began: time.Now(), lost: make(chan struct{})}
	if !allProcessors(files, runtime.NumCPU()) {
		files = nil
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-done:
				return
			case <-time.After(beat):
				p.waited.Add(int64(waiting(runnable(files), runtime.NumCPU(), time.Since(last))))
			}
		}
	})
	p.stop = func() {
		close(done)
		wg.Wait()
	}
	return p
}

// waiting returns for how much of a beat a process waited for a processor, by how many want to run, and by how late the
// beat is: it took that long.
func waiting(want, processors int, took time.Duration) (waited time.Duration) {
	if late := took - beat; late > tooLong {
		waited = late
	}
	if want > crowd*processors {
		waited = max(waited, took-took*time.Duration(processors)/time.Duration(want))
	}
	return waited
}

// allProcessors reports whether this process may use all processors of its machine: /proc/loadavg is of the machine.
func allProcessors(files fs.FS, usable int) bool { return files != nil && online(files) == usable }

// online returns the number of processors of this machine; 0: it cannot be read.
func online(files fs.FS) (n int) {
	text, err := fs.ReadFile(files, "sys/devices/system/cpu/online")
	if err != nil {
		return 0
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, several := strings.Cut(part, "-")
		from, _ := strconv.Atoi(first)
		to := from
		if several {
			to, _ = strconv.Atoi(last)
		}
		n += to - from + 1
	}
	return n
}

// runnable returns how many processes of this machine want to run, without this one; 0: not known (proc_loadavg(5)).
func runnable(files fs.FS) int {
	if files == nil {
		return 0
	}
	text, err := fs.ReadFile(files, "proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) > 3 {
		running, _, _ := strings.Cut(f[3], "/")
		n, _ := strconv.Atoi(running)
		return max(0, n-1)
	}
	return 0
}

// busy returns for how long this machine was busy so far.
func (p *pace) busy() time.Duration {
	return min(time.Duration(p.waited.Load()), time.Since(p.began))
}

// overloaded reports whether this machine was busy for most of the time.
func (p *pace) overloaded() bool { return p.busy() > time.Since(p.began)/2 }

// limit returns how long after the beginning a host may answer, by what is known now.
func (p *pace) limit() time.Duration {
	base := min(patience, max(askBudget, 3*time.Duration(p.slowest.Load())))
	return min(busyPatience, base+p.busy())
}

// guard ends a question that takes too long, unless stop is called first. alive: the host's sshd answers, and its login
// goes on.
func (p *pace) guard(host string, alive func() bool, cut func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		for most, lost := time.Duration(0), p.lost; ; {
			left := max(p.limit(), most) - time.Since(p.began)
			if left <= 0 && most == 0 && p.slow != nil && !p.over() {
				on := alive() // may take seconds
				if closed(done) {
					return
				}
				if on && !p.over() {
					most = loginPatience
					left = most - time.Since(p.began)
				}
				if left > 0 {
					p.slow(host)
				}
			}
			if left <= 0 {
				cut()
				return
			}
			select {
			case <-done:
				return
			case <-lost:
				most, lost = 0, nil
			case <-time.After(left):
			}
		}
	}()
	return func() { close(done) }
}

// over reports whether a host cannot take part.
func (p *pace) over() bool { return closed(p.lost) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// answered notes that a host has answered.
func (p *pace) answered() {
	took := int64(time.Since(p.began))
	for was := p.slowest.Load(); took > was && !p.slowest.CompareAndSwap(was, took); was = p.slowest.Load() {
	}
}

// askAgain asks once more the hosts that were late while this machine was busy: ssh has a time limit of its own.
func (s *Start) askAgain(ctx context.Context, p *pace, a *asked, one func(p *pace, i int)) {
	var late []int
	var names []string
	for i, h := range a.answers {
		if !h.Local && tooLate(h) {
			late, names = append(late, i), append(names, h.Name)
		}
	}
	took := time.Since(p.began)
	if !p.overloaded() || ctx.Err() != nil || len(late) == 0 && took < askBudget {
		return
	}
	busy := fmt.Sprintf("this host is busy: in %s its processes waited %s for a processor; ", took.Round(time.Second),
		p.busy().Round(time.Second))
	if len(late) == 0 {
		s.UI.Note("%sall hosts have answered, and had more time for it", busy)
		return
	}
	s.UI.Note("%sasking %s again", busy, finding.Some(names))
	again := newPace(s.root())
	defer again.stop()
	again.connect = busyConnect
	var own time.Duration
	var self sync.WaitGroup
	self.Go(func() { // this host, to see whether the time is lost here
		session, _ := askHost(ctx, again, remote.Agent{}, "", s.Mpirun.Script(mpirun.Ask{}))
		own = time.Since(again.began)
		if session != nil {
			session.Close()
		}
	})
	remote.Each(len(late), askAtOnce, func(k int) {
		i := late[k]
		if a.sessions[i] != nil {
			a.sessions[i].Close()
		}
		one(again, i)
	})
	self.Wait()
	for _, i := range late {
		if tooLate(a.answers[i]) && own > ownLate {
			a.answers[i].Busy = fmt.Sprintf("its own shell took %s, and in %s its processes waited %s for a processor",
				own.Round(time.Second), time.Since(again.began).Round(time.Second), again.busy().Round(time.Second))
		}
	}
}

// tooLate reports whether a host did not answer in time, or got no answer in time. One that refuses is not late, nor is
// one whose kernel does not answer: for that no process has to run.
func tooLate(h hosts.Answer) bool {
	calls := h.Facts.Calls
	unheard := len(calls) > 0 && !slices.ContainsFunc(calls, func(c mpirun.Call) bool { return c.Said != "" })
	return h.Whole && unheard || !h.Whole && h.LossWay == "" && (h.Late || strings.Contains(h.Failed, "banner exchange"))
}
