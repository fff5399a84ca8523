// Package checktest makes inputs for tests of checks, and runs single checks.
package checktest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
)

// Verdict runs one check of a table and returns its first finding.
func Verdict(t *testing.T, table []preflight.Check, id string, in preflight.Input) finding.Finding {
	t.Helper()
	got := Verdicts(t, table, id, in)
	if len(got) == 0 {
		t.Fatalf("%s: no finding", id)
	}
	f := got[0]
	if (f.Status == finding.Fail || f.Status == finding.Warn) && (f.What == "" || f.Breaks == "" || f.Fix == "") {
		t.Errorf("%s does not say what, so what and what to do: %+v", id, f)
	}
	return f
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

// Board returns a healthy GPU of an NVSwitch machine, as NVML reports it.
func Board(i int, pci string) gpu.GPU {
	return gpu.GPU{
		Index: i, Name: "NVIDIA H100 80GB HBM3", PCI: pci, Minor: i,
		UUID:   fmt.Sprintf("GPU-00000000-0000-4000-8000-0000000000%02x", i+0xa0),
		Memory: 85520809984, MemoryUsed: 1 << 29, MemoryNUMA: -1, Gen: 1, MaxGen: 5, Lanes: 16, MaxLanes: 16,
		ComputeMode: "default", Throttle: []string{"idle"}, MIG: "off",
		ECC:    &gpu.ECC{Mode: "on", Pending: "on", Corrected: 2, CorrectedEver: 3, UncorrectedEver: 1},
		Rows:   &gpu.Rows{Corrected: 1},
		NVLink: &gpu.NVLink{Up: 18, Total: 18, Remotes: []gpu.Remote{{Type: "switch", PCI: "0000:07:00.0", Links: 18}}},
		Fabric: &gpu.Fabric{State: "completed", Status: "SUCCESS", Health: "healthy"},
	}
}

// HGX returns a node of four with eight healthy GPUs and a process for each.
func HGX(edit ...func(*preflight.Input)) preflight.Input {
	in := Env(NProc(Four(), "8"))
	in.Node.BootID = "01234567-89ab-cdef-0123-456789abcdef"
	in.Node.GPUs = gpu.Facts{Present: true, Driver: "570.86.15", CUDA: "12.8"}
	for i := range 8 {
		in.Node.GPUs.Devices = append(in.Node.GPUs.Devices, Board(i, fmt.Sprintf("0000:%02x:00.0", 0x1b+i*0x10)))
	}
	in.Node.Software.CUDA, in.Node.Software.Torch.Version, in.Node.Software.Torch.Path = "12.8", "2.9.0+cu128",
		"/env/torch/version.py"
	for _, e := range edit {
		e(&in)
	}
	return in
}

// OfGPU returns an edit of one GPU.
func OfGPU(i int, edit func(*gpu.GPU)) func(*preflight.Input) {
	return func(in *preflight.Input) { edit(&in.Node.GPUs.Devices[i]) }
}

// EveryGPU returns an edit of all GPUs.
func EveryGPU(edit func(*gpu.GPU)) func(*preflight.Input) {
	return func(in *preflight.Input) {
		for i := range in.Node.GPUs.Devices {
			edit(&in.Node.GPUs.Devices[i])
		}
	}
}

// ProcessesOf returns an edit of the number of processes.
func ProcessesOf(n string) func(*preflight.Input) {
	return func(in *preflight.Input) { *in = NProc(*in, n) }
}

// Railed returns a GPU node with n rails of one kind at 400 Gb/s.
func Railed(n int, link string, edit ...func(*preflight.Input)) preflight.Input {
	in := HGX()
	for i := range n {
		name, pci := fmt.Sprintf("mlx5_%d", i), fmt.Sprintf("0000:%02x:00.0", 0x18+i*0x10)
		p := fabric.Port{Num: 1, State: 4, PhysState: 5, LinkLayer: link, Rate: 400, Lanes: 4}
		h := fabric.HCA{Name: name, PCI: pci, Driver: "mlx5_core", NodeType: 1, Type: "MT4129", Board: "MT_0000000838",
			Firmware: "28.39.1002",
			GUID:     fmt.Sprintf("a088:c203:0000:10%02x", i), System: fmt.Sprintf("a088:c203:0000:10%02x", i), NUMA: 0}
		if link == "Ethernet" {
			p.Netdev = fmt.Sprintf("eth%d", i+10)
			addr := netip.AddrFrom4([4]byte{10, 224, byte(i), 6})
			p.GIDs = []fabric.GID{{Index: 1, Addr: netip.MustParseAddr("fe80::1"), Type: rail.RoCEv2, Netdev: p.Netdev},
				{Index: 3, Addr: addr, Type: rail.RoCEv2, Netdev: p.Netdev}}
			in.Node.Interfaces = append(in.Node.Interfaces,
				fabric.Interface{Index: 10 + i, Name: p.Netdev, Kind: "physical", Up: true, Running: true, MTU: 9000,
					PCI: pci, Addrs: []netip.Prefix{netip.PrefixFrom(addr, 31)}})
		} else {
			p.LID, p.SMLID = 10+i, 1
			p.GIDs = []fabric.GID{{Addr: netip.MustParseAddr(fmt.Sprintf("fe80::a088:c203:0:10%02x", i))}}
		}
		h.Ports = []fabric.Port{p}
		in.Node.HCAs = append(in.Node.HCAs, h)
		in.Node.PCI = append(in.Node.PCI, fabric.PCI{Addr: pci, Class: "0x020700", Vendor: "0x15b3", Driver: "mlx5_core",
			Gen: 5, MaxGen: 5, Lanes: 16, MaxLanes: 16, Path: []string{"pci0000:15", "0000:15:01.0"}})
	}
	for _, e := range edit {
		e(&in)
	}
	return in
}

// OfHCA returns an edit of one HCA and its port.
func OfHCA(i int, edit func(h *fabric.HCA, p *fabric.Port)) func(*preflight.Input) {
	return func(in *preflight.Input) { edit(&in.Node.HCAs[i], &in.Node.HCAs[i].Ports[0]) }
}

// Recorded returns a recorded machine as a node of a job on all its GPUs; those not recorded with NVML are healthy.
func Recorded(t *testing.T, name string) preflight.Input {
	in := Env(NProc(Four(), "gpu"))
	in.Node = machinetest.Node(t, name)
	if len(in.Node.GPUs.Devices) > 0 {
		return in
	}
	for _, c := range in.Node.Cards {
		if c.Vendor == "nvidia" && in.Node.GPUs.Absent == "" {
			g := Board(len(in.Node.GPUs.Devices), c.PCI)
			g.Name, g.NVLink, g.Fabric = c.Model, nil, nil
			in.Node.GPUs.Present = true
			in.Node.GPUs.Devices = append(in.Node.GPUs.Devices, g)
		}
	}
	if len(in.Node.GPUs.Devices) == 0 {
		in.Node.Software.UCX.Version = "1.16.0" // which uses RDMA without GPUs
	}
	return in
}
