package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"launch/fabric/machine/machinetest"
	"launch/fabric/ofi"
	"launch/preflight"
	"launch/preflight/checktest"
)

// programs are stand-ins for fi_info and fi_pingpong: the first lists the domains, the second runs a shell's lines.
func programs(t *testing.T, domains []string, pingpong string) func(string) (ofi.Programs, bool) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, lines string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := "echo 'fi_getinfo: -61' >&2; exit 61"
	if len(domains) > 0 {
		info = "cat <<X\n"
		for _, d := range domains {
			info += "provider: efa\n    fabric: efa\n    domain: " + d + "\n"
		}
		info += "X"
	}
	p := ofi.Programs{Info: write("fi_info", info), PingPong: write("fi_pingpong", pingpong)}
	return func(string) (ofi.Programs, bool) { return p, true }
}

func TestEFAIsProvedByLibfabric(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bothEnds := "PINGPONG=1 exec " + self + ` "$@"`
	node := machinetest.Node(t, "aws-p4d-24xlarge")
	var domains []string
	for _, h := range node.HCAs {
		if h.Driver == "efa" {
			domains = append(domains, h.Name+"-rdm")
		}
	}
	if len(domains) != 4 {
		t.Fatalf("%q", domains)
	}
	fails := func(lines string) string { return "case $6 in " + domains[1] + ") " + lines + ";; esac\n" + bothEnds }
	broken := "echo 'fi_endpoint(): Cannot allocate memory' >&2; exit 12"
	none := func(string) (ofi.Programs, bool) { return ofi.Programs{}, false }
	for name, tt := range map[string]struct {
		ofi  func(string) (ofi.Programs, bool)
		want string
	}{
		"all in order":    {programs(t, domains, bothEnds), "ok 4 EFAs: all data came back unchanged, in 28"},
		"none is listed":  {programs(t, nil, bothEnds), "warn libfabric does not find 4 of 4 EFAs: rdmap"},
		"one is missing":  {programs(t, domains[:3], bothEnds), "warn libfabric does not find 1 of 4 EFAs"},
		"one fails":       {programs(t, domains, fails(broken)), "warn 1 of 4 EFAs cannot carry data to itself"},
		"one is silent":   {programs(t, domains, fails("exec sleep 20")), "ok 3 EFAs: all data came back unchanged"},
		"no programs":     {none, "skip could not tell: libfabric's own programs"},
		"nothing is sent": {nil, "skip a recording or a dry run"},
		"none answers":    {programs(t, domains, ""), "warn 4 of 4 EFAs cannot carry data"},
	} {
		t.Run(name, func(t *testing.T) {
			in := checktest.HGX(func(in *preflight.Input) { in.Node, in.OFI = node, tt.ofi })
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.efa", in), tt.want)
		})
	}
	in := checktest.Railed(8, "InfiniBand", func(in *preflight.Input) { in.OFI = programs(t, domains, bothEnds) })
	checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.efa", in), "skip the fabric is not EFA")
}

// A libfabric that cannot say anything is no fault of the adapters.
func TestAnInfoThatDoesNotRunSaysNothing(t *testing.T) {
	find := programs(t, nil, "")
	p, _ := find("")
	lines := "echo 'fi_info: error while loading shared libraries: libfabric.so.1' >&2; exit 127"
	if err := os.WriteFile(p.Info, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	in := checktest.HGX(func(in *preflight.Input) {
		in.Node, in.OFI = machinetest.Node(t, "aws-p5-48xlarge"), find
	})
	got := checktest.Verdict(t, Checks(), "rdma.efa", in)
	if s := fmt.Sprint(got); !strings.Contains(s, "could not tell") {
		t.Error(s)
	}
}
