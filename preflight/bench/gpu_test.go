package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/verbs"
)

// Where an end has no GPU, both come to the same without a word.
func TestAnEndWithoutAGPUIsTheReasonAtBoth(t *testing.T) {
	has := Port{Name: "mlx5_0", GPU: &GPU{PCI: "0000:1b:00.0"}}
	none := func(why string) Port { return Port{Name: "mlx5_0", NoGPU: why} }
	for _, tt := range []struct {
		lead, other Port
		want        OnGPU
	}{
		{none("no GPU here"), has, OnGPU{Cause: CauseNoGPU, Skipped: "no GPU here"}},
		{has, none("no GPU there"), OnGPU{Cause: CauseNoGPU, Skipped: "no GPU there", There: true}},
		{none("no GPU here"), none("no GPU there"), OnGPU{Cause: CauseNoGPU, Skipped: "no GPU here"}},
	} {
		say := func(context.Context, []byte) ([]byte, error) { return nil, errors.New("it spoke") }
		lead := onGPU(t.Context(), Test{Port: tt.lead, Peer: tt.other, Lead: true, GPU: true}, say)
		if diff := cmp.Diff(tt.want, *lead); diff != "" {
			t.Errorf("lead (-want +got):\n%s", diff)
		}
		other := onGPU(t.Context(), Test{Port: tt.other, Peer: tt.lead, GPU: true}, say)
		if diff := cmp.Diff(tt.want, *other.turned()); diff != "" {
			t.Errorf("other end, turned (-want +got):\n%s", diff)
		}
	}
}

// What both ends say of one measurement is the lead's view, and whether it is
// between GPUs is the lead's to say.
func TestTheLeadSaysWhetherGPUsAreMeasured(t *testing.T) {
	for _, ask := range []bool{false, true} {
		measure := func(_ context.Context, t Test, _ Exchange) (Result, error) {
			r := Result{Out: Flow{Speed: 1}, Back: Flow{Speed: 2}}
			if !t.Lead {
				r.Out, r.Back = r.Back, r.Out
			}
			if t.GPU {
				r.GPU = &OnGPU{Out: 3, Back: 4, Memory: "dmabuf", Peer: "peermem"}
				if !t.Lead {
					r.GPU = r.GPU.turned()
				}
			}
			return r, nil
		}
		a, _ := opened(t, "a", nil, local("eth0"))
		b, at := opened(t, "b", nil, local("eth0"))
		var got [2]Sample
		var wg sync.WaitGroup
		for i, n := range []*Node{a, b} {
			n.Ways = []Measurer{{Kind: "tcp", Can: func(Port) bool { return true }, Run: measure}}
			wg.Go(func() {
				m := meeting(i, 1-i, n.Ports[0], at)
				m.Test.GPU = ask && m.Lead
				got[i] = n.Meet(t.Context(), m)
			})
		}
		wg.Wait()
		if diff := cmp.Diff(got[0], got[1]); diff != "" || (got[0].GPU != nil) != ask {
			t.Errorf("asked %v; the ends differ (-lead +other):\n%s%+v", ask, diff, got[0])
		}
		if g := got[0].GPU; ask && (g.Out != 3 || g.Back != 4 || g.Memory != "dmabuf") {
			t.Errorf("the lead's view %+v", g)
		}
	}
}

// What a port carries is held against its counters: streams between GPUs count
// there, too.
func TestWhatGoesBetweenGPUsIsCarried(t *testing.T) {
	test := Test{Warm: 100 * time.Millisecond, Span: 300 * time.Millisecond, GPU: true}
	for _, tt := range []struct {
		cause string
		out   float64
	}{
		{"", 100 + 1000*0.2},
		{CauseNoGPU, 100},
		{string(verbs.NoCUDA), 100},
		{string(verbs.NoGPUDirect), 100},
		{string(verbs.Lost), 0}, // the amount that was sent is not known
		{string(verbs.Crashed), 0},
	} {
		r := Result{Out: Flow{Carried: 100}, Back: Flow{Carried: 100}, GPU: &OnGPU{Cause: tt.cause, Out: 1000, Back: 1000}}
		r.carry(test)
		if r.Out.Carried != tt.out || r.Back.Carried != tt.out {
			t.Errorf("%q: carried %v and %v, want %v", tt.cause, r.Out.Carried, r.Back.Carried, tt.out)
		}
	}
}

func TestBetweenGPUsIsShorterAndBounded(t *testing.T) {
	test := Test{Port: Port{HCA: "mlx5_0", GPU: &GPU{PCI: "0000:1b:00.0"}}, Streams: 4, Warm: 100 * time.Millisecond,
		Span: 250 * time.Millisecond}
	v := test.gpuTest()
	if both := 2 * (v.Warm + v.Span); both > test.Warm+test.Span {
		t.Errorf("both directions take %v, one between hosts %v", both, test.Warm+test.Span)
	}
	if v.PingSizes != nil || v.GPU.PCI != "0000:1b:00.0" {
		t.Errorf("test %+v", v)
	}
	with := test
	with.GPU = true
	if with.limit() != test.limit()+test.GPULimit() || with.hostLimit() != test.limit() {
		t.Errorf("limits %v and %v", test.limit(), with.limit())
	}
}
