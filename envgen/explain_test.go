package envgen

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/setting"
)

func TestExplainCoversThePlanAndWhatPeopleExpect(t *testing.T) {
	in := machine(lo, bridge, eth0).ib("mlx5_0").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25,
		"eth0").with("NCCL_ALGO", "Ring", "NCCL_IB_HCA", "mlx5")
	all := Explain(in)
	find := func(name string) Explanation {
		i := slices.IndexFunc(all, func(e Explanation) bool { return e.Name == name })
		if i < 0 {
			t.Fatalf("%s is not explained", name)
		}
		return all[i]
	}
	if e := find("NCCL_SOCKET_IFNAME"); !e.Set || e.Value != "=eth0" || len(e.Seen) == 0 {
		t.Errorf("%+v", e)
	}
	if e := find("NCCL_IB_HCA"); e.Set || e.User != "mlx5" || e.Value != "=mlx5_0:1" ||
		!strings.Contains(e.Why, "your value is used, but") {
		t.Errorf("%+v", e)
	}
	if e := find("NCCL_ALGO"); e.Set || e.User != "Ring" || e.From != "environment" ||
		!strings.Contains(e.Why, "launch never sets it") {
		t.Errorf("%+v", e)
	}
	if e := find("NCCL_IB_GID_INDEX"); e.Set || !strings.Contains(e.Why, "no RoCE port") {
		t.Errorf("%+v", e)
	}
	if e := find("NCCL_P2P_DISABLE"); e.Set || e.Why == "" || e.Alone == "" {
		t.Errorf("%+v", e)
	}
	if slices.ContainsFunc(all,
		func(e Explanation) bool { return e.Library == setting.NVSHMEM || e.Library == setting.UCX }) {
		t.Error("a library that the job does not use is explained")
	}
	plan, set := Make(in), []string(nil)
	for _, e := range all {
		if e.Set {
			set = append(set, e.Name)
		}
		if e.Why == "" || e.Alone == "" || e.Source == "" || e.Library == "" {
			t.Errorf("%s lacks its reason, or what the library does alone: %+v", e.Name, e)
		}
	}
	var want []string
	for _, v := range plan {
		if !v.Kept {
			want = append(want, v.Name)
		}
	}
	if diff := cmp.Diff(want, set); diff != "" {
		t.Errorf("what is explained as set is not what the plan sets (-want +got):\n%s", diff)
	}
}

func TestMpirunExplainsFactsOfANode(t *testing.T) {
	in := machine(lo, docker0, eth0).ib("mlx5_0").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25,
		"eth0").head("openmpi4")
	for _, v := range Make(in) {
		if v.Name == "NCCL_IB_HCA" {
			t.Error("the plan of an mpirun line has a fact of one node")
		}
	}
	for _, e := range Explain(in) {
		if e.Name == "NCCL_IB_HCA" &&
			(e.Set || !e.PerNode || !strings.HasPrefix(e.Why, "not set: mpirun would carry")) {
			t.Errorf("%+v", e)
		}
	}
	var heads []string
	for _, e := range Explain(in.with("OMPI_MCA_btl_tcp_if_include", "docker0", "NCCL_IB_HCA", "mlx5_0", "NCCL_NET",
		"IB").using("nvshmem")) {
		if e.PerNode && e.User != "" {
			t.Errorf("%s: the user's own value is not said: %+v", e.Name, e)
		}
		heads = append(heads, e.Group())
	}
	if diff := cmp.Diff([]string{"set", "needed on each node", "your own", "not set"},
		slices.Compact(heads)); diff != "" {
		t.Errorf("heads of the explanations (-want +got):\n%s", diff)
	}
}

func TestExplainDoesNotCallTheUnknownRight(t *testing.T) {
	in := machine(lo, eth0)
	in.Node.HostAddrs, in.Node.HostErr = nil, ""
	for _, e := range Explain(in) {
		if e.Name == "GLOO_SOCKET_IFNAME" &&
			(e.Set || strings.Contains(e.Why, "right") || !strings.Contains(e.Why, "at the start")) {
			t.Errorf("%+v", e)
		}
	}
}

func TestConstantsAreWhatNodesCompare(t *testing.T) {
	plan := Plan{{Name: "NCCL_SOCKET_IFNAME", Value: "=eth0", Scope: setting.Node},
		{Name: "NCCL_NET", Value: "Socket", Scope: setting.Job},
		{Name: "NCCL_IB_ADDR_FAMILY", Value: "AF_INET6", Scope: setting.Job, Kept: true, User: "AF_INET"}}
	decided := []setting.Decided{{Name: "NCCL_ALGO", Value: "Ring", From: "environment"},
		{Name: "NCCL_ALGO", Value: "Tree", From: "/etc/nccl.conf"},
		{Name: "NCCL_P2P_NET_CHUNKSIZE", Value: "1", From: "/etc/nccl.conf"},
		{Name: "NCCL_IB_HCA", Value: "mlx5", From: "environment"},
		{Name: "NCCL_IB_ADDR_FAMILY", Value: "AF_INET", From: "environment"},
		{Name: "NCCL_MAX_CTAS", Value: "8", From: "environment"},
		{Name: "NCCL_SHM_DISABLE", Value: "0", From: "environment"},
		{Name: "NCCL_SHM_DISABLE", Value: "1", From: "/etc/nccl.conf"},
		{Name: "NCCL_IB_DISABLE", Value: "false", From: "environment"},
		{Name: "NCCL_P2P_DISABLE", Value: "0x1", From: "environment"},
		{Name: "NCCL_DEBUG", Value: "INFO", From: "environment"},
		{Name: "TORCH_DISTRIBUTED_DEBUG", Value: "INFO", From: "environment"}}
	want := map[string]string{"NCCL_NET": "Socket", "NCCL_ALGO": "Ring", "NCCL_P2P_NET_CHUNKSIZE": "1",
		"NCCL_IB_ADDR_FAMILY": "AF_INET", "NCCL_MAX_CTAS": "8", "NCCL_P2P_DISABLE": "0x1"}
	if diff := cmp.Diff(want, Constants(plan, decided)); diff != "" {
		t.Errorf("Constants (-want +got):\n%s", diff)
	}
	for value, want := range map[string]string{"1": "1", "TRUE": "1", "0": "", "false": "", "": ""} {
		lazy := []setting.Decided{{Name: "TORCH_GLOO_LAZY_INIT", Value: value, From: "environment"}}
		if got := Constants(nil, lazy)["TORCH_GLOO_LAZY_INIT"]; got != want {
			t.Errorf("Gloo connects lazily with %q: %q, want %q", value, got, want)
		}
	}
	for value, want := range map[string]string{"0": "0", "random": "", "": ""} {
		seed := []setting.Decided{{Name: HashSeed, Value: value, From: "environment"}}
		if got := Constants(nil, seed)[HashSeed]; got != want {
			t.Errorf("the order of Python's sets with %q: %q, want %q", value, got, want)
		}
	}
	deep := []setting.Decided{{Name: "TORCH_DISTRIBUTED_DEBUG", Value: "detail", From: "environment"}}
	if got := Constants(nil, deep); got["TORCH_DISTRIBUTED_DEBUG"] != "detail" {
		t.Errorf("torch's comparing level is no constant: %v", got)
	}
}

func TestTheReasonForNoListOfHCAsSaysThatTheFabricIsAGuess(t *testing.T) {
	in := machine(lo, eth0).ib("mlx5_0", "mlx5_1", "mlx5_2")
	want := "every ACTIVE port is part of the training fabric (a guess: 3 ports for 2 GPUs, so some may have another " +
		"purpose)"
	for _, e := range Explain(in) {
		if e.Name == "NCCL_IB_HCA" && (e.Set || e.Why != want) {
			t.Errorf("set: %v, why %q, want %q", e.Set, e.Why, want)
		}
	}
}

func TestAGIDTableThatCouldNotBeReadIsTheReason(t *testing.T) {
	for _, e := range Explain(machine(lo, eth0).rdma("mlx5_0", "mlx5_core", "Ethernet", 400, "eth0")) {
		if want := "the GID tables of the training fabric could not be read"; e.Name == "NCCL_IB_GID_INDEX" && e.Why != want {
			t.Errorf("why %q, want %q", e.Why, want)
		}
	}
}

func TestEveryVariableHasItsLibrary(t *testing.T) {
	var names []string
	for _, r := range rules() {
		names = append(names, r.name)
	}
	for _, u := range unsets() {
		names = append(names, u.name)
	}
	for _, r := range lintRules() {
		names = append(names, r.names...)
	}
	for _, name := range names {
		if setting.Library(name) == "" {
			t.Errorf("%s has no library", name)
		}
	}
	for name, want := range map[string]string{"NCCL_NET": setting.NCCL, "NCCL_FASTRAK_X": "GPUDirect-TCPXO",
		"OFI_NCCL_X": "aws-ofi-nccl", "PATH": "", "NCCLX": "", "FI_PROVIDER": setting.Libfabric,
		"PRTE_MCA_x": setting.OpenMPI} {
		if got := setting.Library(name); got != want {
			t.Errorf("setting.Library(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestPathsAreThoseThatARuleReads(t *testing.T) {
	azure := machine(lo, eth0).cloud("azure").with("NCCL_TOPO_FILE", "/t.xml", "NCCL_DEBUG_FILE", "/logs/%h/n",
		"NCCL_DEBUG", "INFO")
	got := Paths(azure)
	for _, want := range []string{selfStatus, virtualTopology, "/opt/microsoft/ndv5/topo.xml", "/t.xml"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not asked for: %v", want, got)
		}
	}
	if slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "%") }) {
		t.Errorf("a directory that has no name yet is asked for: %v", got)
	}
	if got := Paths(machine(lo, eth0).noGPUs()); got != nil {
		t.Errorf("without GPUs: %v", got)
	}
}
