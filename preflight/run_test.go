package preflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"launch/internal/finding"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// says is a check that finds f.
func says(id string, f finding.Finding, needs ...string) Check {
	return Check{ID: id, Needs: needs, Limit: time.Second,
		Run: One(func(context.Context, Input) finding.Finding { return f })}
}

func lines(r finding.Report) []string {
	var out []string
	for _, f := range r {
		out = append(out, string(f.Status)+" "+f.ID+": "+f.What)
	}
	return out
}

func TestLocalReportsOneCauseOnce(t *testing.T) {
	table := []Check{
		says("a", finding.Failf("broken")),
		says("b", finding.Passf("never seen"), "a"),
		says("c", finding.Passf("never seen"), "b"),
		says("d", finding.Passf("fine")),
		says("e", finding.Skipf("no device")),
		says("f", finding.Passf("fine"), "d", "e"),
	}
	want := []string{"fail a: broken", "skip b: needs a", "skip c: needs a", "ok d: fine", "skip e: no device",
		"ok f: fine"}
	got, err := Run(t.Context(), table, Input{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestLocalChooses(t *testing.T) {
	table := []Check{says("a", finding.Failf("broken")), says("b", finding.Passf("fine"), "a"),
		says("c", finding.Warnf("slow"))}
	for _, tt := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"skip", Options{Skip: []string{"a"}}, []string{"skip a: switched off by the user", "ok b: fine", "warn c: slow"}},
		{"only", Options{Only: []string{"b"}}, []string{"ok b: fine"}},
		{"only, of which one is skipped", Options{Only: []string{"a", "c"}, Skip: []string{"a"}},
			[]string{"skip a: switched off by the user", "warn c: slow"}},
		{"warn only", Options{WarnOnly: true}, []string{"warn a: broken", "skip b: needs a", "warn c: slow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Run(t.Context(), table, Input{}, tt.opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(got)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocalGivesUpOnACheckInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := Check{ID: "stuck", Limit: 2 * time.Second, Run: func(context.Context, Input) []finding.Finding {
			<-release // as a driver that does not come back
			return nil
		}}
		slow := Check{ID: "slow", Limit: 2 * time.Second, Run: One(func(ctx context.Context, _ Input) finding.Finding {
			<-ctx.Done()
			return finding.Skipf("10.0.0.1 did not answer")
		})}
		begin := time.Now()
		got, err := Run(t.Context(), []Check{stuck, slow, says("after", finding.Passf("fine"), "stuck")}, Input{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"skip stuck: could not tell: did not finish within 2s", "skip slow: 10.0.0.1 did not answer",
			"ok after: fine"}
		if diff := cmp.Diff(want, lines(got)); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
		if took := time.Since(begin); took > 2*time.Second+grace {
			t.Errorf("it took %v", took)
		}
		close(release)
	})
}

func TestLocalRunsChecksInParallel(t *testing.T) {
	meet := make(chan struct{})
	a := Check{ID: "a", Limit: time.Minute, Run: One(func(context.Context,
		Input) finding.Finding {
		meet <- struct{}{}
		return finding.Passf("met")
	})}
	b := Check{ID: "b", Limit: time.Minute, Run: One(func(context.Context,
		Input) finding.Finding {
		<-meet
		return finding.Passf("met")
	})}
	got, err := Run(t.Context(), []Check{a, b}, Input{}, Options{})
	if diff := cmp.Diff([]string{"ok a: met", "ok b: met"}, lines(got)); diff != "" || err != nil {
		t.Errorf("report, error %v (-want +got):\n%s", err, diff)
	}
}

func TestLocalSurvivesABrokenCheck(t *testing.T) {
	broken := Check{ID: "broken", Limit: time.Second,
		Run: func(context.Context, Input) []finding.Finding { panic("index out of range") }}
	got, err := Run(t.Context(), []Check{broken, says("b", finding.Passf("fine"))}, Input{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"skip broken: could not tell: the check itself is broken (index out of range)", "ok b: fine"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestLocalEndsWithItsContext(t *testing.T) {
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	if got, err := Run(ctx, nil, Input{}, Options{}); got != nil || !errors.Is(err, interrupted) {
		t.Errorf("Local = %v, %v; want the cause of the end", got, err)
	}
}

func TestSizesAreShort(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 64 << 10: "64 KiB", 1536 << 20: "1.5 GiB",
		8 << 50: "8192 TiB"} {
		if got := finding.Size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
