package companion

import (
	"os"
	"slices"
	"testing"
	"time"

	"launch/diagnose/scene"
)

// A slow file server answers between two looks.
func TestWhatAMainThreadHasDoneIsRemembered(t *testing.T) {
	var p pasts
	p.saw([]int{os.Getpid()}, time.Unix(1000, 0)) // of a process that is there
	if len(p.of) != 1 {
		t.Fatal("this process cannot be read")
	}
	p.saw(nil, time.Unix(1001, 0))
	if len(p.of) != 0 {
		t.Error("a process that has ended is remembered")
	}
	at := time.Unix(1000, 0)
	for i, read := range []int64{5, 5, 1 << 20, 1 << 20, 2 << 20} {
		p.add(7, at.Add(time.Duration(i)*10*time.Second), read, read/1000)
	}
	ranks := []scene.Proc{{PID: 7, Role: scene.Rank}, {PID: 8, Role: scene.Rank}}
	got := p.until(at.Add(43*time.Second), ranks)
	want := []scene.Act{{Ago: 23 * time.Second, Read: 1<<20 - 5, Wakes: 1048}, {Ago: 3 * time.Second, Read: 1 << 20,
		Wakes: 1049}}
	if len(got) != 1 || got[0].Over != 43*time.Second || !slices.Equal(got[0].Acts, want) {
		t.Errorf("%+v", got)
	}
	p.add(7, at.Add(3*time.Minute), 3<<20, 9000)
	if got = p.until(at.Add(3*time.Minute), ranks); got[0].Over != scene.MaxPast || len(got[0].Acts) != 1 {
		t.Errorf("after 3 min: %+v", got)
	}
	p.add(7, at.Add(4*time.Minute), 10, 1) // another process with this PID
	if got = p.until(at.Add(4*time.Minute), ranks); got[0].Over != 0 || len(got[0].Acts) != 0 {
		t.Errorf("of another process: %+v", got)
	}
}

// launch doctor sees its own node, but for what only the companion knows.
func TestTheCompanionAddsWhatItAloneKnows(t *testing.T) {
	d, _ := nodeOf(t, "", lo)
	d.last = scene.Scene{Host: "host1", Past: []scene.Past{{PID: 7, Over: time.Minute}}}
	d.taken = time.Now()
	if got := d.all(t.Context()); len(got) == 0 || len(got[len(got)-1].Past) != 1 {
		t.Errorf("%+v", got)
	}
}

// A thread that has run since the last look is in another call.
func TestForHowLongAThreadHoldsTheGIL(t *testing.T) {
	var p pasts
	for i, tt := range []struct {
		at    int64
		place string // "": no thread does
		want  time.Duration
	}{{0, "7 100", 0}, {10, "7 100", 10 * time.Second}, {20, "7 101", 0}, {25, "7 101", 5 * time.Second}, {30, "", 0},
		{40, "7 101", 0}} {
		proc := scene.Proc{PID: 9}
		if tt.place != "" {
			proc.GIL = &scene.Held{Place: tt.place}
		}
		if p.holding([]scene.Proc{{PID: 8}, proc}, time.Unix(1000+tt.at, 0)); proc.GIL != nil && proc.GIL.Over != tt.want {
			t.Errorf("look %d: for %s, want %s", i, proc.GIL.Over, tt.want)
		}
	}
}
