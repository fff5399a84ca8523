package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"launch/fabric/machine/machinetest"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/checktest"
	"launch/preflight/gpu"
	"launch/preflight/rdma"
)

// local runs the checks of a node.
func local(ctx context.Context, in preflight.Input, opt preflight.Options) (finding.Report, error) {
	return preflight.Run(ctx, Table().Named(), in, opt)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the lint finds is chosen by its own ID, too, which is the one that is seen.
func TestASettingsFindingIsChosenByItsOwnID(t *testing.T) {
	in := preflight.Input{LintIDs: []string{"env.ifname.nccl", "env.ib-hca", "env.algo"}, Lint: []finding.Finding{
		finding.Failf("no such interface").Named("env.ifname.nccl"), finding.Warnf("no port").Named("env.ib-hca"),
	}}
	const interfaces, harmful = "env.interfaces", "env.harmful"
	for _, tt := range []struct {
		name string
		opt  preflight.Options
		want []string
	}{
		{"one left out", preflight.Options{Skip: []string{"env.ifname.nccl"}, Only: []string{interfaces, harmful}},
			[]string{"skip env.ifname.nccl: switched off by the user", "warn env.ib-hca: no port"}},
		{"one alone", preflight.Options{Only: []string{"env.ib-hca"}}, []string{"warn env.ib-hca: no port"}},
		{"one that was not found", preflight.Options{Only: []string{"env.algo"}},
			[]string{"ok env.harmful: no inherited variable is known to be harmful"}},
		{"one and a whole check", preflight.Options{Only: []string{"env.algo", interfaces}},
			[]string{"fail env.ifname.nccl: no such interface", "ok env.harmful: no inherited variable is known to be harmful"}},
		{"a whole check", preflight.Options{Skip: []string{interfaces}, Only: []string{interfaces, harmful}},
			[]string{"skip env.interfaces: switched off by the user", "warn env.ib-hca: no port"}},
	} {
		got, err := local(t.Context(), in, tt.opt)
		if diff := cmp.Diff(tt.want, checktest.Lines(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := local(t.Context(), in, preflight.Options{Skip: []string{"env.ifname.ncl"}}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "env.ifname.nccl"?`) {
		t.Errorf("a misspelt one: %v", err)
	}
}

func TestLocalRefusesAnUnknownID(t *testing.T) {
	for id, want := range map[string]string{
		"limits.memlok": `"limits.memlock"`,
		"nofile":        `"limits.nofile"`,
		"GPU.count":     `"gpu.count"`,
		"":              `no check ""`,
		"foo":           `no check "foo"; "launch check" lists`,
	} {
		for _, opt := range []preflight.Options{{Skip: []string{id}}, {Only: []string{id}}} {
			got, err := local(t.Context(), preflight.Input{}, opt)
			if err == nil || got != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Local with %+v = %v, %v; want an error that names %s", opt, got, err, want)
			}
		}
	}
}

func TestEveryCheckIsComplete(t *testing.T) {
	var ids []string
	for _, c := range Table().Node {
		if c.ID == "" || slices.Contains(ids, c.ID) || c.Title == "" || c.Doc == "" || c.Run == nil {
			t.Errorf("check %q: unique ID, title, doc and run are needed", c.ID)
		}
		if c.Limit < 0 || c.Limit > max(preflight.Network, preflight.Storage, preflight.File+time.Second) {
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
	got, err := local(t.Context(), preflight.Input{}, preflight.Options{})
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

func TestChecksBetweenNodesMayBeNamedBeforeThereAreNodes(t *testing.T) {
	for _, opt := range []preflight.Options{{Skip: []string{"same.nccl"}}, {Only: []string{"peer.clock"}}} {
		r, err := local(t.Context(), preflight.Input{}, opt)
		if err != nil {
			t.Errorf("%+v: %v", opt, err)
		}
		if len(opt.Only) > 0 && len(r) > 0 {
			t.Errorf("%+v: ran %v", opt, r)
		}
	}
	_, err := local(t.Context(), preflight.Input{}, preflight.Options{Skip: []string{"same.ncll"}})
	if err == nil || !strings.Contains(err.Error(), `did you mean "same.nccl"?`) {
		t.Errorf("a misspelt one: %v", err)
	}
}

// faulty is what is wrong on the recorded machines: every other one is in order.
var faulty = map[string][]string{
	"roce-lag-no-address":     {"warn rdma.gid"},                    // its fast bond was never given an address
	"ib-no-subnet-manager":    {"warn rdma.link"},                   // by its name
	"broken-hca":              {"warn rdma.link", "warn rdma.rate"}, // one has lost its firmware, the other 12 of 16 lanes
	"bgp-address-on-lo":       {"warn rdma.gid"},                    // by its title, as the next three
	"pod-no-gid-entries":      {"warn rdma.gid"},
	"slingshot-dark-link":     {"warn rdma.link"},
	"h100-all-rails-down":     {"warn rdma.link"},
	"a40-nouveau":             {"fail gpu.driver"},
	"mi325x-pollara-no-rdma":  {"warn rdma.open"},
	"a100-hdr-two-partitions": {"warn rdma.link"},
	"b300-one-plane-down":     {"warn rdma.link"},
	"l40s-lanes":              {"warn gpu.pcie"},
	// the bridge above one rail redirects, those of the GPUs next to it do not
	"h200-two-rails": {"warn gpu.p2p"},
}

// A recorded machine that is in order is called so, by all checks of GPUs and
// RDMA.
func TestRecordedMachinesGiveNoFalseAlarm(t *testing.T) {
	var ids []string
	for _, c := range slices.Concat(gpu.Checks(), rdma.Checks()) {
		if c.ID != "gpu.count" {
			ids = append(ids, c.ID)
		}
	}
	for _, name := range machinetest.Names() {
		report, err := local(t.Context(), checktest.Recorded(t, name), preflight.Options{Only: ids})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range report {
			if f.Status == finding.Fail || f.Status == finding.Warn {
				got = append(got, fmt.Sprintf("%s %s", f.Status, f.ID))
				t.Logf("%s: %s %s: %s %v", name, f.Status, f.ID, f.What, f.Seen)
			}
		}
		if diff := cmp.Diff(faulty[name], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A limit of locked memory that is too low for a loopback is reported once, by
// what it broke.
func TestALimitOfLockedMemoryIsReportedOnce(t *testing.T) {
	for _, tt := range []struct {
		fails error
		want  []string
	}{
		{&verbs.Error{Cause: verbs.Memlock, Step: "register memory"}, []string{"fail rdma.loop", "skip limits.memlock"}},
		{nil, []string{"ok rdma.loop", "warn limits.memlock"}},
	} {
		in := checktest.Railed(2, "InfiniBand")
		in.Node.Limits.Memlock, in.Node.Verbs.Present = 64<<10, true
		for _, h := range in.Node.HCAs {
			in.Node.Verbs.Devices = append(in.Node.Verbs.Devices, verbs.Device{Name: h.Name, Opens: true})
		}
		in.Loop = func(context.Context, verbs.Test, time.Duration) (verbs.LoopResult, error) {
			write := verbs.Latency{Size: 64, Pings: 20, Median: time.Microsecond}
			return verbs.LoopResult{Sizes: []verbs.LoopSize{{Write: write, Speed: 2e10}}}, tt.fails
		}
		report, err := local(t.Context(), in, preflight.Options{Only: []string{"rdma.loop", "limits.memlock"}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range report {
			got = append(got, fmt.Sprintf("%s %s", f.Status, f.ID))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
