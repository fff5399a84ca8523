package hosts

import (
	"net/netip"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// A host whose own file, or whose interfaces, do not fit what the others use is named. Lists that leave something to
// all hosts, or that the line replaces, are fine.
func TestParametersThatDoNotFitAHost(t *testing.T) {
	own := func(name, value string) func(in *Input) {
		return func(in *Input) {
			in.Answers[2].Facts.Parameters = []mpirun.Parameter{{Name: name, Value: value, From: "/f", Line: 3}}
		}
	}
	line := func(name, value string) func(in *Input) {
		return func(in *Input) {
			in.Run.Parameters = append(in.Run.Parameters, mpirun.Parameter{Name: name, Value: value, From: "mpirun --mca"})
		}
	}
	head := func(name, value string) func(in *Input) {
		return func(in *Input) {
			in.Head.Parameters = []mpirun.Parameter{{Name: name, Value: value, From: "/f", Line: 1}}
		}
	}
	renamed := func(in *Input) { in.Answers[2].Facts.Addrs[0].Interface = "ens3" }
	rdma := func(in *Input) { in.Answers[2].Facts.RDMA = []string{"mlx5_0"} }
	for _, tt := range []struct {
		do     []func(in *Input)
		says   string // "": nothing is to be said
		status finding.Status
	}{
		{do: []func(in *Input){own("btl", "self,vader")}, says: "h2: /f:3 there has btl = self,vader", status: finding.Warn},
		{do: []func(in *Input){own("btl", "^tcp")}, says: "btl = ^tcp", status: finding.Warn},
		{do: []func(in *Input){own("oob", "^tcp")}, says: "oob = ^tcp", status: finding.Warn},
		{do: []func(in *Input){own("pml", "cm"), line("btl", "self"), head("pml", "ob1")}, status: finding.Warn,
			says: "pml = cm"},
		{do: []func(in *Input){own("btl", "^openib")}},
		{do: []func(in *Input){own("btl", "self,tcp,vader")}},
		{do: []func(in *Input){own("btl", "self,vader"), line("btl", "tcp,self")}},
		{do: []func(in *Input){own("btl", "self,vader"), head("btl", "self,vader")}},
		{do: []func(in *Input){own("btl", "self,vader"), line("pml", "ucx")}},
		{do: []func(in *Input){own("btl", "self,vader"), rdma}},
		{do: []func(in *Input){own("pml", "^ucx"), head("pml", "ob1")}},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "eth0")}, status: finding.Fail,
			says: "h2: btl_tcp_if_include=eth0 (mpirun --mca) selects no interface"},
		{do: []func(in *Input){renamed, line("oob_tcp_if_include", "eth0")}, status: finding.Fail,
			says: "oob_tcp_if_include"},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "eth0"), rdma}, status: finding.Warn, says: "eth0"},
		{do: []func(in *Input){renamed, line("prte_if_include", "eth0"), func(in *Input) { in.MPI = "openmpi5" }},
			status: finding.Fail, says: "prte_if_include=eth0"},
		{do: []func(in *Input){line("oob_tcp_if_include", "10.99.0.0/16")}, status: finding.Warn, says: "10.99"},
		{do: []func(in *Input){own("oob_tcp_if_include", "eth9")}, status: finding.Fail, says: "eth9 (/f:3) selects no"},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "eth0,ens3")}},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "10.0.0.0/8")}},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "10.0/16")}},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "10.0.0.3")}}, // Open MPI leaves it out
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "eth0"), line("btl", "^tcp")}},
		{do: []func(in *Input){renamed, line("btl_tcp_if_include", "eth0"),
			func(in *Input) { in.Answers[2].Facts.Addrs = nil }}}, // not known
	} {
		in := healthy()
		in.Answers[2].Facts.Addrs = []mpirun.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.0.0.3/24")}}
		for _, do := range tt.do {
			do(&in)
		}
		var found []finding.Finding
		for _, f := range Judge(in).Report {
			if f.ID == "mpi.parameters" && f.Status != finding.Pass {
				found = append(found, f)
			}
		}
		switch {
		case tt.says == "" && found != nil:
			t.Errorf("a false alarm: %+v", found)
		case tt.says != "" && (len(found) != 1 || !strings.Contains(found[0].What, tt.says) || found[0].Status != tt.status):
			t.Errorf("%q: %+v", tt.says, found)
		case strings.HasPrefix(tt.says, "prte_") && !strings.HasPrefix(found[0].Fix, "mpirun --prtemca prte_if_"):
			t.Errorf("%q: fix %q", tt.says, found[0].Fix)
		case strings.Contains(tt.says, "selects") && !strings.Contains(found[0].Fix, "10.0.0.0/24"):
			t.Errorf("%q: fix %q", tt.says, found[0].Fix)
		}
	}
}
