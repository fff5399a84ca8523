package rdma

import (
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/software"
	"launch/preflight"
	"launch/preflight/checktest"
)

// A plugin for EFA compares the version of libfabric, by which each release has a file of its own.
func TestThePluginRefusesAnOldLibfabric(t *testing.T) {
	for _, tt := range []struct{ plugin, libfabric, want string }{
		{"aws-ofi-nccl 1.8.1-aws", "libfabric.so.1.20.0 1f2e3d4c",
			"warn the plugin aws-ofi-nccl 1.8.1-aws refuses EFA with libfabric 1.17: it needs 1.18 or later"},
		{"aws-ofi-nccl 1.12.1-aws", "libfabric.so.1.17.2 1f2e3d4c", "warn with libfabric 1.14: it needs 1.18"},
		{"aws-ofi-nccl 1.12.1-aws", "libfabric.so.1.21.0 1f2e3d4c", "ok aws-ofi-nccl 1.12.1-aws"},
		{"aws-ofi-nccl 1.13.0-aws", "libfabric.so.1.24.0 1f2e3d4c", "warn with libfabric 1.21: it needs 1.22"},
		{"aws-ofi-nccl 1.16.0", "libfabric.so.1.25.0 1f2e3d4c", "ok aws-ofi-nccl 1.16.0"},
		{"aws-ofi-nccl 1.16.0", "libfabric.so.1.28.1 1f2e3d4c", "ok aws-ofi-nccl 1.16.0"},
		{"aws-ofi-nccl 1.7.4-aws", "libfabric.so.1.20.0 1f2e3d4c", "ok aws-ofi-nccl 1.7.4-aws"}, // which asks for 1.11
		{"aws-ofi-nccl 1.16.0", "libfabric.so.1 1f2e3d4c", "ok aws-ofi-nccl 1.16.0"},
		{"aws-ofi-nccl 1.16.0", "", "ok aws-ofi-nccl 1.16.0"},
		{"libnccl-net.so 1f2e3d4c", "libfabric.so.1.20.0 1f2e3d4c", "ok libnccl-net.so"},
	} {
		in := checktest.Railed(1, "Ethernet", checktest.OfHCA(0, func(h *fabric.HCA, p *fabric.Port) {
			h.Driver, h.NodeType, h.Type, p.LinkLayer = "efa", 7, "0xefa2", "Unspecified"
		}), func(in *preflight.Input) {
			in.Node.Software.NCCL = software.Item{Version: "2.27.5", Path: "/n"}
			in.Node.Software.Plugin = software.Item{Version: tt.plugin, Path: "/opt/amazon/ofi-nccl/lib/libnccl-net.so"}
			in.Node.Software.Libfabric = software.Item{Version: tt.libfabric, Path: "/usr/lib/libfabric.so.1"}
		})
		f := checktest.Verdict(t, Checks(), "rdma.plugin", in)
		checktest.Wants(t, f, strings.Replace(tt.want, "warn with", "warn refuses EFA with", 1))
	}
}
