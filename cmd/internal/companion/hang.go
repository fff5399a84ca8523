package companion

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/procfs"

	"launch/diagnose"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

const (
	// hangPoll is the pause between two looks at the counters of this node's processes.
	hangPoll = 5 * time.Second
	// stillCPU is the share of a core that all processes of a command which waits may use: torchrun's loop takes
	// about 0.3 %, rank 0 of env:// with its polling 4 %.
	stillCPU = 0.06
	// stillRead is what they may read in a second: rank 0 of env:// polls with 3.5 kB/s.
	stillRead = 64 << 10
	// stillFaults is how many page faults they may have in a second. An import from a slow disk has thousands, and
	// reads little by read(2).
	stillFaults = 50
)

// watchStart prints why the job does not go on, once nothing has moved on this node for as long as after says, or for a
// short time if only help from outside can end it, and again when the reason changes. The node of the lowest rank that
// is there does so. With --on-hang end the node of rank 0 has launch end the job if two looks find the same certain
// reason.
func (d *doctor) watchStart(ctx context.Context, after time.Duration) {
	tick := time.NewTicker(min(hangPoll, after/2))
	defer tick.Stop()
	last := d.spent()
	w := newVigil(after, last.at)
	var reported standing
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := d.spent()
		d.pasts.saw(now.family, now.at)
		w.saw(last, now)
		d.calm.saw(now.at, now.at.Sub(w.calm))
		if reported.saw(last, now) {
			f, ok := d.judged(ctx)
			if f, ok := reported.judge(f.answer, ok && !d.p.hasFailed()); ok {
				d.p.say(f, "")
				w.goesOn()
			}
			now = d.spent()
		}
		last = now
		since, due := w.due(now.at)
		if due == noLook || !d.watches(ctx) {
			continue
		}
		f, ok := d.hangs(ctx)
		end := d.spent()
		if f, ok = w.judge(f, ok, due); !ok || stirs(due, now, end) {
			continue // or the nodes were seen at different moments of a job
		}
		again, confirmed := w.repeats(f.key, since, now.at)
		if !again {
			d.p.say(hangFinding(f.answer, d.p.adrift(), time.Since(since)), "")
			reported.reports(since, due)
		}
		world := d.world.Load()
		if due != lookEarly && d.p.spec.EndHung && f.answer.Certain() && world != nil && world.Rank == 0 {
			if confirmed {
				d.end(f)
				return
			}
			w.hurry(time.Now())
		}
	}
}

// confirmHang is the most that a job that certainly hangs is given until --on-hang end looks again.
const confirmHang = 30 * time.Second

// found is an answer about a job that does not go on.
type found struct {
	answer verdict.Answer
	key    string // the same for the same reason
	scenes []scene.Scene
}

// end hands a job that hangs to launch, which ends it.
func (d *doctor) end(f found) {
	why := f.answer.Why[0]
	select {
	case d.hung <- Hang{Why: fmt.Sprintf("%s (%s, %s)", why.Says, why.Cause, why.Sure), Fix: why.Do, Scenes: f.scenes}:
	default:
	}
}

// effort is what the processes of this node's command have done until a moment.
type effort struct {
	at     time.Time
	cpu    float64 // seconds
	polls  float64 // of these, of threads that only poll
	read   uint64  // bytes, by read(2) and from disks
	faults uint    // of pages
	pids   int     // a sum that changes when a process starts or ends
	family []int   // the processes
}

// spent sums the counters of the command and of all below it.
func (d *doctor) spent() effort {
	e := effort{at: time.Now(), family: d.family()}
	for _, pid := range e.family {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		if s, err := p.Stat(); err == nil {
			e.cpu += s.CPUTime()
			if s.NumThreads > 1 && s.Comm != scene.Worker {
				e.polls += scene.Polling(pid).Seconds()
			}
			e.faults += s.MinFlt + s.MajFlt
			e.pids += pid
		}
		if io, err := p.IO(); err == nil {
			e.read += io.RChar + io.ReadBytes
		}
	}
	return e
}

// moved reports whether the processes have done more between two moments than waiting takes.
func moved(a, b effort) bool {
	return busy(a, b) || b.cpu-a.cpu > stillCPU*b.at.Sub(a.at).Seconds()
}

// worked does what moved does, without the time of threads that only poll.
func worked(a, b effort) bool {
	b.cpu -= b.polls - a.polls
	return moved(a, b)
}

// stirs reports whether the processes have done more during a look than what it was made for allows.
func stirs(due look, a, b effort) bool {
	return busy(a, b) || due == lookStill && moved(a, b) || due == lookEarly && worked(a, b)
}

// busy reports whether they have done more than to use CPU time, as a rank that waits in a loop does.
func busy(a, b effort) bool {
	span := b.at.Sub(a.at).Seconds()
	more := func(now, before, still float64) bool { return now-before > still*span }
	return a.pids != b.pids || more(float64(b.read), float64(a.read), stillRead) ||
		more(float64(b.faults), float64(a.faults), stillFaults)
}

// hangs asks all nodes and judges; false: the job makes progress, or it cannot be said.
func (d *doctor) hangs(ctx context.Context) (f found, ok bool) {
	if f, ok = d.judged(ctx); !ok || len(f.answer.Why) == 0 {
		return f, false
	}
	return f, f.answer.State == verdict.Hung || f.answer.State == verdict.Open
}

// judged asks all nodes and judges; false: there was no time for it, or no job.
func (d *doctor) judged(ctx context.Context) (f found, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, consultBudget+5*time.Second)
	defer cancel()
	others := make(chan []scene.Scene, 1)
	go func() { others <- d.consult(ctx) }()
	f.scenes = append([]scene.Scene{d.look(ctx)}, <-others...)
	all := diagnose.Judge(f.scenes)
	if ctx.Err() != nil || len(all) == 0 {
		return f, false
	}
	f.answer, f.key = all[0], all[0].Key()
	return f, true
}

// hangFinding says in one finding why the job does not go on.
func hangFinding(a verdict.Answer, adrift string, still time.Duration) finding.Finding {
	return because("no progress for "+still.Round(time.Second).String(), a, adrift).Named("job.hangs")
}

// because says in one finding why something of the job does not go on. What has cut this node off, where something has,
// is the cause of all that it sees of others.
func because(what string, a verdict.Answer, adrift string) finding.Finding {
	if adrift != "" && a.Why[0].Cause == "path.lost" {
		return finding.Warnf("%s: this node has lost the others: %s", what, adrift).
			Do("ip addr; ip -s link; ip neigh   # on this node: its address, its link, and who else has that address")
	}
	return a.Finding(what)
}
