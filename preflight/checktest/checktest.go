// Package checktest makes inputs for tests of checks, and runs single checks.
package checktest

import (
	"net/netip"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
)

// Verdict runs one check of a table and returns its first finding.
func Verdict(t *testing.T, table []preflight.Check, id string, in preflight.Input) finding.Finding {
	t.Helper()
	got, err := preflight.Run(t.Context(), table, in, preflight.Options{Only: []string{id}})
	if err != nil || len(got) == 0 {
		t.Fatalf("%s: %v, %v", id, got, err)
	}
	if f := got[0]; f.Status == finding.Fail || f.Status == finding.Warn {
		if f.What == "" || f.Breaks == "" || f.Fix == "" {
			t.Errorf("%s does not say what, so what and what to do: %+v", id, f)
		}
	}
	return got[0]
}

// Wants compares a finding with a status and, after it, a part of its What.
func Wants(t *testing.T, got finding.Finding, want string) {
	t.Helper()
	status, part, _ := strings.Cut(want, " ")
	if string(got.Status) != status || !strings.Contains(got.What, part) {
		t.Errorf("%s: %s %q, want %s with %q", got.ID, got.Status, got.What, status, part)
	}
}

// Four returns a node of a job of four, by torchrun: the store is at host0, this node at 10.0.0.5.
func Four() preflight.Input {
	return preflight.Input{
		Addr: netip.MustParseAddr("10.0.0.5"),
		Job: job.Job{
			Nodes: setting.Value[int]{V: 4, Set: true},
			Store: setting.Value[job.Store]{V: job.Store{Embedded: true, Host: "host0", Port: 29377}, Set: true,
				From: setting.Source{Name: "--store"}},
			Line: launcher.Line{Kind: launcher.Torchrun, Argv: []string{"torchrun", "t.py"}},
		},
		Node: fabric.Node{
			Hostname: "node5",
			Interfaces: []fabric.Interface{
				{Index: 1, Name: "lo", Kind: "loopback", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
				{Index: 2, Name: "eth0", Kind: "physical", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}},
				{Index: 3, Name: "docker0", Kind: "bridge", Up: true,
					Addrs: []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16")}},
			},
			GPUs: gpu.Facts{Absent: "no driver"},
		},
	}
}

// Nodes sets the number of nodes.
func Nodes(in preflight.Input, n int) preflight.Input { in.Job.Nodes.V = n; return in }

// External sets an external store.
func External(in preflight.Input, urls ...string) preflight.Input {
	in.Job.Store.V = job.Store{Endpoints: urls}
	return in
}

// NProc sets the number of processes on each node, as --nproc-per-node.
func NProc(in preflight.Input, s string) preflight.Input {
	in.Job.NProc = setting.Value[string]{V: s, Set: true, From: setting.Source{Name: "torchrun --nproc-per-node"}}
	return in
}

// GPUs sets the number of GPUs.
func GPUs(in preflight.Input, n int) preflight.Input {
	in.Node.GPUs = gpu.Facts{Present: n > 0, Devices: make([]gpu.GPU, n)}
	return in
}

// Env sets the environment, as names and values.
func Env(in preflight.Input, pairs ...string) preflight.Input {
	in.Env = func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
	return in
}

// Verdicts runs one check of a table and returns all its findings.
func Verdicts(t *testing.T, table []preflight.Check, id string, in preflight.Input) []finding.Finding {
	t.Helper()
	got, err := preflight.Run(t.Context(), table, in, preflight.Options{Only: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Lines returns the status, ID and What of each finding.
func Lines(r finding.Report) []string {
	return finding.Map(r, func(f finding.Finding) string { return string(f.Status) + " " + f.ID + ": " + f.What })
}
