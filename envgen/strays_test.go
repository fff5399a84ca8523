package envgen

import (
	"slices"
	"strings"
	"testing"
)

// listed is the answer of libibverbs with devices that do not open.
func (in Input) listed(names ...string) Input {
	v := &in.Node.Verbs
	v.Present, v.Devices = true, slices.Grow(v.Devices[:0:0], len(names))[:len(names)]
	for i, n := range names {
		v.Devices[i].Name, v.Devices[i].Err = n, "Permission denied"
	}
	return in
}

// away adds a RoCE HCA whose interface is in another network namespace.
func (in Input) away(name, netdev string) Input {
	in = in.rdma(name, "mlx5_core", "Ethernet", 400, "")
	in.Node.HCAs[len(in.Node.HCAs)-1].Ports[0].Elsewhere = netdev
	return in
}

// The job's own libraries may list a card that libibverbs does not list here.
func TestNCCLIsKeptFromRDMAOnlyWhereNoLibraryCouldUseIt(t *testing.T) {
	base := machine(lo, eth0)
	for _, tt := range []struct {
		name string
		in   Input
		want string
	}{
		{"libibverbs lists others", base.ib("mlx5_0").listed("rxe9"), ""},
		{"this process cannot open it", base.ib("mlx5_0").listed("mlx5_0"), ""},
		{"RoCE of another network namespace", base.away("mlx5_0", "gpu0rdma0"), "Socket"},
		{"InfiniBand beside it", base.away("mlx5_0", "gpu0rdma0").ib("mlx5_1"), ""},
		{"Soft-RoCE beside a card that is not listed", base.rdma("rxe0", "rdma_rxe", "Ethernet", 2.5, "eth0").
			ib("mlx5_0").listed("other"), ""},
	} {
		got := ""
		for _, v := range Make(tt.in) {
			if v.Name == "NCCL_NET" {
				got = v.Value
			}
		}
		if got != tt.want {
			t.Errorf("%s: NCCL_NET is %q, want %q", tt.name, got, tt.want)
		}
	}
}

// NCCL ends where its module is fixed and no device opens.
func TestAFixedModuleNeedsADeviceThatOpens(t *testing.T) {
	base := machine(lo, eth0).with("NCCL_NET", "IB")
	closed := base.ib("mlx5_0")
	closed.Node.HCAs[0].Closed = "/dev/infiniband/uverbs0 is not here"
	opens := base.ib("mlx5_0").listed("mlx5_0")
	opens.Node.Verbs.Devices[0].Opens = true
	for _, tt := range []struct {
		name string
		in   Input
		want string
	}{
		{"it opens", opens, ""},
		{"libibverbs was not asked", base.ib("mlx5_0"), ""},
		{"it does not open", base.ib("mlx5_0").listed("mlx5_0"), "this process can open no ACTIVE RDMA device here"},
		{"its file is not here", closed, "this process can open no ACTIVE RDMA device here"},
		{"libibverbs lists others", base.ib("mlx5_0").listed("rxe9"), "libibverbs lists none of the RDMA devices"},
	} {
		got := ""
		for _, f := range Lint(tt.in) {
			if f.ID == "env.net" {
				got = f.What
			}
		}
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
