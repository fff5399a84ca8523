package envgen

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
)

// keyed returns a machine with one InfiniBand rail for each table: its keys by index, "" where none is set.
func keyed(tables ...string) Input {
	names := []string{"mlx5_0", "mlx5_1", "mlx5_2"}[:len(tables)]
	in := machine(lo, eth0).ib(names...)
	for i, t := range tables {
		p := &in.Node.HCAs[i].Ports[0]
		p.PKeys = nil
		for index, key := range strings.Split(t, " ") {
			if key != "-" {
				p.PKeys = append(p.PKeys, fabric.PKey{Index: index, Key: key})
			}
		}
	}
	return in
}

func TestThePartitionOfTheRails(t *testing.T) {
	const two = "0x7fff 0x8001 0x8002"
	child := func(in Input, name string, addrs ...string) Input {
		in.Node.Interfaces = append(in.Node.Interfaces, iface(9, name, "ipoib", addrs...))
		return in
	}
	for _, tt := range []struct {
		name  string
		in    Input
		want  []string // of the plan
		finds []string
	}{
		{"entry 0 is a full membership", keyed("0xffff 0x8001", "0xffff 0x8001"), nil, nil},
		{"one full membership", keyed("0x7fff 0x8001", "0x7fff 0x8001"), []string{"NCCL_IB_PKEY=1"}, nil},
		{"entry 0 on one rail alone, and entry 1 on both", keyed("0xffff 0x8001", "0x7fff 0x8001"),
			[]string{"NCCL_IB_PKEY=1"}, nil},
		{"entry 0 on one rail, entry 1 on the other", keyed("0x8005 0x7fff", "0x7fff 0x8005"), nil,
			[]string{"warn env.partition"}},
		{"rails of several networks, each with a partition of its own", keyed("0x7fff 0x8001", "0x7fff 0x8005"),
			[]string{"NCCL_IB_PKEY=1"}, nil},
		{"one full membership in common, at another index on one rail", keyed("0x7fff 0x8001", "0x7fff 0x8005 0x8001"), nil,
			[]string{"warn env.partition"}},
		{"the common one, and another that one rail lacks", keyed("0x7fff 0x8001", "0x7fff 0x8001 0x8005"),
			[]string{"NCCL_IB_PKEY=1"}, nil},
		{"two, and IPoIB has an address in the second", child(keyed(two, two), "ib0.8002", "10.9.0.5/24"),
			[]string{"NCCL_SOCKET_IFNAME==eth0", "NCCL_IB_PKEY=2"}, nil},
		{"two, and IPoIB has no address there", child(keyed(two, two), "ib0.8002"), []string{"NCCL_IB_PKEY=1"}, nil},
		{"two, in another order on one rail", child(keyed(two, "0x7fff 0x8002 0x8001"), "ib0.8002", "10.9.0.5/24"),
			[]string{"NCCL_SOCKET_IFNAME==eth0"}, []string{"warn env.partition"}},
		{"one port is not a full member anywhere, so it is not used", keyed("0x7fff 0x8001", "0x7fff 0x0001"),
			[]string{"NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_PKEY=1"}, nil},
		{"full members at other indexes", keyed("0x7fff 0x8001", "0x7fff - 0x8001"), nil, []string{"warn env.partition"}},
		{"the same, and the user has chosen", keyed("0x7fff 0x8001", "0x7fff - 0x8001").with("NCCL_IB_PKEY", "1"),
			nil, []string{"warn env.pkey"}},
	} {
		if diff := cmp.Diff(tt.want, brief(Make(tt.in))); diff != "" {
			t.Errorf("%s: Make (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.finds, verdicts(tt.in)); diff != "" {
			t.Errorf("%s: Lint (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Two networks of a pod, whose tables have entries of other pods before its own: no index and no range fits both.
func TestNoSettingGivesAllRailsTheRightEntry(t *testing.T) {
	in := machine(lo, eth0).roce("mlx5_0", "net1", "10.60.1.7/24").roce("mlx5_1", "net2", "10.60.2.7/24").nccl("2.27.5")
	own := in.Node.HCAs[1].Ports[0].GIDs
	strange := own[len(own)-1]
	strange.Addr, strange.Netdev = netip.MustParseAddr("10.60.2.99"), ""
	in.Node.HCAs[1].Ports[0].GIDs = nil
	for i, g := range append([]fabric.GID{strange}, own...) {
		g.Index = i
		in.Node.HCAs[1].Ports[0].GIDs = append(in.Node.HCAs[1].Ports[0].GIDs, g)
	}
	found := Lint(in)
	if len(found) != 1 || found[0].ID != "env.gid" || !strings.Contains(found[0].Fix, "NCCL_IB_HCA==mlx5_0:1 ") {
		t.Errorf("%+v", found)
	}
	if found := verdicts(in.with("NCCL_IB_HCA", "=mlx5_0:1")); len(found) > 0 {
		t.Errorf("after what the fix says: %v", found)
	}
}
