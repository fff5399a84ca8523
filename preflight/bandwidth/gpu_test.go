package bandwidth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/preflight/bench"
)

// behindSwitches is a machine of two sockets with two PCIe switches each, two HCAs
// and two GPUs behind each, of a fourth nothing but the HCAs.
func behindSwitches() fabric.Node {
	var n fabric.Node
	n.GPUs.Present = true
	for s := range 4 {
		root := fmt.Sprintf("pci0000:%d0", s)
		path := func(port int) []string {
			return []string{root, fmt.Sprintf("0000:%d0:01.0", s), fmt.Sprintf("0000:%d1:00.0", s),
				fmt.Sprintf("0000:%d2:%02d.0", s, port)}
		}
		for i := range 2 {
			hca := fabric.HCA{Name: fmt.Sprintf("mlx5_%d", 2*s+i), PCI: fmt.Sprintf("0000:%d%d:00.0", s, 3+i)}
			n.HCAs = append(n.HCAs, hca)
			n.PCI = append(n.PCI, fabric.PCI{Addr: hca.PCI, NUMA: s / 2, Path: path(i)})
			if s < 3 {
				g := gpu.GPU{Index: 2*s + i, PCI: fmt.Sprintf("0000:%d%d:00.0", s, 7+i)}
				n.GPUs.Devices = append(n.GPUs.Devices, g)
				n.PCI = append(n.PCI, fabric.PCI{Addr: g.PCI, NUMA: s / 2, Path: path(4 + i)})
			}
		}
	}
	return n
}

func portsOf(n fabric.Node) (out []bench.Port) {
	for _, h := range n.HCAs {
		out = append(out, bench.Port{Name: h.Name, HCA: h.Name})
	}
	return append(out, bench.Port{Name: "eth0", Netdev: "eth0"})
}

func TestEachHCAHasTheGPUBesideIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		node func(n *fabric.Node)
		far  bool
		want []string // of mlx5_0, mlx5_4, mlx5_5, mlx5_6
	}{
		{"each its own", func(*fabric.Node) {}, false,
			[]string{"0000:07:00.0 PIX direct", "0000:27:00.0 PIX direct", "0000:28:00.0 PIX direct",
				"the nearest GPU to mlx5_6, 0000:27:00.0, is too far away: NODE"}},
		{"however far", func(*fabric.Node) {}, true, []string{"0000:07:00.0 PIX direct", "0000:27:00.0 PIX direct",
			"0000:28:00.0 PIX direct", "0000:27:00.0 NODE"}},
		{"with peermem", func(n *fabric.Node) { n.GPUDirect.Peermem = true }, false,
			[]string{"0000:07:00.0 PIX direct peermem", "0000:27:00.0 PIX direct peermem", "0000:28:00.0 PIX direct peermem",
				"is too far away"}},
		{"a guest", func(n *fabric.Node) { n.Cloud.Virtual = true }, false,
			[]string{"0000:07:00.0 PIX", "0000:27:00.0 PIX", "0000:28:00.0 PIX", "is too far away"}},
		{"one that is lost", func(n *fabric.Node) { n.GPUs.Devices[4].Err = "GPU is lost" }, false,
			[]string{"0000:07:00.0 PIX direct", "0000:28:00.0 PIX direct", "0000:28:00.0 PIX direct", "is too far away"}},
		{"no driver", func(n *fabric.Node) { n.GPUs = gpu.Facts{Absent: "no /dev/nvidiactl"} }, false,
			[]string{"no GPU: no /dev/nvidiactl", "no GPU", "no GPU", "no GPU"}},
		{"a driver that fails", func(n *fabric.Node) { n.GPUs = gpu.Facts{Err: "nvmlInit: version mismatch"} }, true,
			[]string{"no GPU: nvmlInit: version mismatch", "no GPU", "no GPU", "no GPU"}},
		{"a bus that is not known", func(n *fabric.Node) { n.PCI = nil }, false,
			[]string{"the distance of GPU 0000:07:00.0 from mlx5_0 is not known", "is not known", "is not known",
				"is not known"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := behindSwitches()
			tt.node(&n)
			ports := portsOf(n)
			NearestGPUs(n, ports, tt.far)
			for i, k := range []int{0, 4, 5, 6} {
				p := ports[k]
				got := p.NoGPU
				if g := p.GPU; g != nil {
					got = g.PCI + " " + g.Distance + map[bool]string{true: " direct"}[g.Direct] +
						map[bool]string{true: " peermem"}[g.Peermem]
				}
				if p.GPU != nil && got != tt.want[i] || !strings.Contains(got, tt.want[i]) {
					t.Errorf("%s: %q, want %q", p.Name, got, tt.want[i])
				}
			}
			if p := ports[len(ports)-1]; p.GPU != nil || p.NoGPU != "" {
				t.Errorf("an interface has %+v", p)
			}
		})
	}
}

// met is two nodes that met once, host to host at 20 GB/s, and so between GPUs.
func met(g bench.OnGPU, direct bool) []Rates {
	var out []Rates
	for rank := range 2 {
		at := bench.GPU{PCI: "0000:1b:00.0", Distance: "PXB", Direct: direct}
		out = append(out, Rates{Rank: rank, Name: fmt.Sprintf("host%d", rank),
			Ports: []bench.Port{{Name: "mlx5_0", HCA: "mlx5_0", GPU: &at}}})
	}
	host := bench.Flow{Speed: 20e9}
	out[0].Samples = []bench.Sample{{From: 0, To: 1, FromPort: "mlx5_0", ToPort: "mlx5_0", Kind: "verbs",
		Result: bench.Result{Out: host, Back: host, GPU: &g}}}
	return out
}

func TestRailsAreJudgedFromGPUToGPU(t *testing.T) {
	for _, tt := range []struct {
		name   string
		gpu    bench.OnGPU
		direct bool
		status finding.Status
		what   string
		rail   *RailGPU
	}{
		{"as fast", bench.OnGPU{Out: 19e9, Back: 19e9, Memory: "dmabuf", Peer: "dmabuf"}, true,
			finding.Pass, "rail mlx5_0 from GPU to GPU: 19.0 GB/s (dmabuf), 95 % of its speed from host to host", &RailGPU{19e9,
				0.95, "dmabuf"}},
		{"two ways to the memory", bench.OnGPU{Out: 19e9, Back: 19e9, Memory: "peermem", Peer: "dmabuf"}, true,
			finding.Pass, "(dmabuf and peermem)", &RailGPU{19e9, 0.95, "dmabuf and peermem"}},
		{"a detour one way", bench.OnGPU{Out: 19e9, Back: 4e9, Memory: "dmabuf", Peer: "dmabuf"}, true,
			finding.Warn, "host1 to host0", &RailGPU{19e9, 0.95, "dmabuf"}},
		{"slow, but not behind one switch", bench.OnGPU{Out: 4e9, Back: 4e9, Memory: "dmabuf", Peer: "dmabuf"}, false,
			finding.Pass, "20 %", &RailGPU{4e9, 0.2, "dmabuf"}},
		{"not measured", bench.OnGPU{Cause: "no-gpudirect", Skipped: "nvidia_peermem is not loaded"}, true,
			finding.Skip, "not measured from GPU to GPU: nvidia_peermem is not loaded (mlx5_0 of host0)", nil},
		{"not measured for the other end's reason", bench.OnGPU{Cause: bench.CauseNoGPU, Skipped: "no GPU: none",
			There: true}, true,
			finding.Skip, "no GPU: none (mlx5_0 of host1)", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := Compare(met(tt.gpu, tt.direct), nil)
			if len(b.Findings) != 1 || b.Findings[0].ID != "bench.gpu" {
				t.Fatalf("findings %+v", b.Findings)
			}
			if f := b.Findings[0]; f.Status != tt.status || !strings.Contains(f.What, tt.what) {
				t.Errorf("%s %q, want %s %q", f.Status, f.What, tt.status, tt.what)
			}
			if diff := cmp.Diff(tt.rail, b.Rails[0].GPU); diff != "" {
				t.Errorf("rail (-want +got):\n%s", diff)
			}
			if len(b.Named) > 0 {
				t.Errorf("named %v: GPUs are no reason to be unfit", b.Named)
			}
		})
	}
}

// Many nodes without a GPU are one line.
func TestWhyGPUsWereNotMeasuredIsSaidOnce(t *testing.T) {
	var posts []Rates
	for rank := range 64 {
		posts = append(posts, Rates{Rank: rank, Name: fmt.Sprintf("host%d", rank),
			Ports: []bench.Port{{Name: "mlx5_0", HCA: "mlx5_0"}}})
	}
	host := bench.Flow{Speed: 20e9}
	for rank := 0; rank < 64; rank += 2 {
		why := bench.OnGPU{Cause: bench.CauseNoGPU, Skipped: "no GPU: no driver"}
		posts[rank].Samples = []bench.Sample{{From: rank, To: rank + 1, FromPort: "mlx5_0", ToPort: "mlx5_0", Kind: "verbs",
			Result: bench.Result{Out: host, Back: host, GPU: &why}}}
	}
	b := Compare(posts, nil)
	if len(b.Findings) != 1 || b.Findings[0].What != "not measured from GPU to GPU: no GPU: no driver (mlx5_0 of "+
		"host0, mlx5_0 of host2, mlx5_0 of host4, mlx5_0 of host6 and 28 more)" {
		t.Errorf("findings %+v", b.Findings)
	}
}
