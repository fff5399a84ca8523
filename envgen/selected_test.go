package envgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectedPortsOfSettings(t *testing.T) {
	four := machine(lo, eth0).ib("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
	decoy := four.rdma("mlx5_4", "mlx5_core", "Ethernet", 25, "")
	cpus := four.noGPUs()
	for _, tt := range []struct {
		name, want string
		in         Input
	}{
		{"nothing is set", "", four},
		{"all rails by a prefix", "", four.with("NCCL_IB_HCA", "mlx5")},
		{"all rails, the others excluded", "", decoy.with("NCCL_IB_HCA", "^=mlx5_4")},
		{"half of the rails", "NCCL_IB_HCA 2 x 400 Gb/s InfiniBand", four.with("NCCL_IB_HCA", "=mlx5_0:1,mlx5_3:1")},
		{"all but one", "NCCL_IB_HCA 3 x 400 Gb/s InfiniBand", four.with("NCCL_IB_HCA", "^mlx5_2")},
		{"another port than the rails'", "NCCL_IB_HCA 1 x 25 Gb/s Ethernet", decoy.with("NCCL_IB_HCA", "=mlx5_4")},
		{"none, which Lint reports", "", four.with("NCCL_IB_HCA", "mlx5_17")},
		{"NCCL's without a GPU", "", cpus.with("NCCL_IB_HCA", "=mlx5_0")},
		{"UCX's", "UCX_NET_DEVICES 1 x 400 Gb/s InfiniBand", cpus.with("UCX_NET_DEVICES", "mlx5_0:1,eth0")},
		{"all but one of UCX's", "UCX_NET_DEVICES 3 x 400 Gb/s InfiniBand", cpus.with("UCX_NET_DEVICES", "^mlx5_0:1")},
		{"UCX over TCP", "", cpus.with("UCX_NET_DEVICES", "eth0")},
		{"a pattern of UCX's", "", cpus.with("UCX_NET_DEVICES", "mlx5_[0-1]:1")},
		{"all of UCX's", "", cpus.with("UCX_NET_DEVICES", "all")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for name, words := range Selected(tt.in) {
				got = strings.TrimSpace(got + " " + name + " " + fmt.Sprintf("%d x %s", len(words), words[0]))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortsThatSettingsAllowNCCL(t *testing.T) {
	four := machine(lo, eth0).ib("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
	for _, tt := range []struct {
		name string
		want []string
		in   Input
	}{
		{"nothing is set", nil, four},
		{"two by name", []string{"mlx5_0:1", "mlx5_3:1"}, four.with("NCCL_IB_HCA", "=mlx5_0:1,mlx5_3")},
		{"without a GPU", []string{"mlx5_1:1"}, four.noGPUs().with("NCCL_IB_HCA", "=mlx5_1")},
		{"all but one", []string{"mlx5_0:1", "mlx5_1:1", "mlx5_3:1"}, four.with("NCCL_IB_HCA", "^mlx5_2")},
		{"one that is not here", []string{}, four.with("NCCL_IB_HCA", "mlx5_17")},
		{"RDMA is off", []string{}, four.with("NCCL_IB_DISABLE", "1")},
		{"RDMA is on", nil, four.with("NCCL_IB_DISABLE", "0")},
		{"TCP", []string{}, four.with("NCCL_NET", "socket")},
		{"a cloud's own module", nil, four.with("NCCL_NET", "AWS Libfabric", "NCCL_IB_HCA", "=mlx5_0")},
	} {
		if diff := cmp.Diff(tt.want, Ports(tt.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
