package preflight

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	return Check{ID: id, Needs: needs, Limit: time.Second, Run: one(func(context.Context, Input) finding.Finding { return f })}
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
	want := []string{"fail a: broken", "skip b: needs a", "skip c: needs a", "ok d: fine", "skip e: no device", "ok f: fine"}
	got, err := local(t.Context(), table, Input{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestLocalChooses(t *testing.T) {
	table := []Check{says("a", finding.Failf("broken")), says("b", finding.Passf("fine"), "a"), says("c", finding.Warnf("slow"))}
	for _, tt := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"skip", Options{Skip: []string{"a"}}, []string{"skip a: switched off by the user", "ok b: fine", "warn c: slow"}},
		{"only", Options{Only: []string{"b"}}, []string{"ok b: fine"}},
		{"only, of which one is skipped", Options{Only: []string{"a", "c"}, Skip: []string{"a"}}, []string{"skip a: switched off by the user", "warn c: slow"}},
		{"warn only", Options{WarnOnly: true}, []string{"warn a: broken", "skip b: needs a", "warn c: slow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := local(t.Context(), table, Input{}, tt.opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(got)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// What the lint finds is chosen by its own ID, too, which is the one that is seen.
func TestASettingsFindingIsChosenByItsOwnID(t *testing.T) {
	in := Input{LintIDs: []string{"env.ifname.nccl", "env.ib-hca", "env.algo"}, Lint: []finding.Finding{
		finding.Failf("no such interface").Named("env.ifname.nccl"), finding.Warnf("no port").Named("env.ib-hca"),
	}}
	const interfaces, harmful = "env.interfaces", "env.harmful"
	for _, tt := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"one left out", Options{Skip: []string{"env.ifname.nccl"}, Only: []string{interfaces, harmful}}, []string{"skip env.ifname.nccl: switched off by the user", "warn env.ib-hca: no port"}},
		{"one alone", Options{Only: []string{"env.ib-hca"}}, []string{"warn env.ib-hca: no port"}},
		{"one that was not found", Options{Only: []string{"env.algo"}}, []string{"ok env.harmful: no inherited variable is known to be harmful"}},
		{"one and a whole check", Options{Only: []string{"env.algo", interfaces}}, []string{"fail env.ifname.nccl: no such interface", "ok env.harmful: no inherited variable is known to be harmful"}},
		{"a whole check", Options{Skip: []string{interfaces}, Only: []string{interfaces, harmful}}, []string{"skip env.interfaces: switched off by the user", "warn env.ib-hca: no port"}},
	} {
		got, err := Local(t.Context(), in, tt.opt)
		if diff := cmp.Diff(tt.want, lines(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := Local(t.Context(), in, Options{Skip: []string{"env.ifname.ncl"}}); err == nil || !strings.Contains(err.Error(), `did you mean "env.ifname.nccl"?`) {
		t.Errorf("a misspelt one: %v", err)
	}
}

func TestLocalRefusesAnUnknownID(t *testing.T) {
	for id, want := range map[string]string{
		"limits.memlok": `"limits.memlock"`,
		"nofile":        `"limits.nofile"`,
		"GPU.count":     `"gpu.count"`,
		"":              `no check ""`,
		"foo":           `no check "foo"; launch check prints them`,
	} {
		for _, opt := range []Options{{Skip: []string{id}}, {Only: []string{id}}} {
			got, err := Local(t.Context(), Input{}, opt)
			if err == nil || got != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Local with %+v = %v, %v; want an error that names %s", opt, got, err, want)
			}
		}
	}
}

func TestLocalGivesUpOnACheckInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := Check{ID: "stuck", Limit: 2 * time.Second, Run: func(context.Context, Input) []finding.Finding {
			<-release // as a driver that does not come back
			return nil
		}}
		slow := Check{ID: "slow", Limit: 2 * time.Second, Run: one(func(ctx context.Context, _ Input) finding.Finding {
			<-ctx.Done()
			return finding.Skipf("10.0.0.1 did not answer")
		})}
		begin := time.Now()
		got, err := local(t.Context(), []Check{stuck, slow, says("after", finding.Passf("fine"), "stuck")}, Input{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"skip stuck: could not tell: did not finish within 2s", "skip slow: 10.0.0.1 did not answer", "ok after: fine"}
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
	a := Check{ID: "a", Limit: time.Minute, Run: one(func(context.Context, Input) finding.Finding { meet <- struct{}{}; return finding.Passf("met") })}
	b := Check{ID: "b", Limit: time.Minute, Run: one(func(context.Context, Input) finding.Finding { <-meet; return finding.Passf("met") })}
	got, err := local(t.Context(), []Check{a, b}, Input{}, Options{})
	if diff := cmp.Diff([]string{"ok a: met", "ok b: met"}, lines(got)); diff != "" || err != nil {
		t.Errorf("report, error %v (-want +got):\n%s", err, diff)
	}
}

func TestLocalSurvivesABrokenCheck(t *testing.T) {
	broken := Check{ID: "broken", Limit: time.Second, Run: func(context.Context, Input) []finding.Finding { panic("index out of range") }}
	got, err := local(t.Context(), []Check{broken, says("b", finding.Passf("fine"))}, Input{}, Options{})
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
	if got, err := Local(ctx, Input{}, Options{}); got != nil || !errors.Is(err, interrupted) {
		t.Errorf("Local = %v, %v; want the cause of the end", got, err)
	}
}

func TestEveryCheckIsComplete(t *testing.T) {
	var ids []string
	for _, c := range Checks() {
		if c.ID == "" || slices.Contains(ids, c.ID) || c.Title == "" || c.Doc == "" || c.Run == nil {
			t.Errorf("check %q: unique ID, title, doc and run are needed", c.ID)
		}
		if c.Limit <= 0 || c.Limit > max(network, storage) {
			t.Errorf("check %q may take %v", c.ID, c.Limit)
		}
		for _, need := range c.Needs {
			if !slices.Contains(ids, need) {
				t.Errorf("check %q needs %q, which does not stand before it", c.ID, need)
			}
		}
		ids = append(ids, c.ID)
	}
}

// What nothing is known about is never a pass or a failure, but for the
// inherited settings, of which there are none.
func TestLocalKnowsNothingAboutAnEmptyInput(t *testing.T) {
	got, err := Local(t.Context(), Input{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		want := finding.Skip
		if strings.HasPrefix(f.ID, "env.") {
			want = finding.Pass
		}
		if f.Status != want || f.What == "" {
			t.Errorf("%s is %q (%s), want %q with a reason", f.ID, f.Status, f.What, want)
		}
	}
}
