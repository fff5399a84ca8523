package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuFabric checks GPUs behind NVSwitches: the fabric manager gives each its place (nvml.h,
// nvmlGpuFabricInfo_t), and CUDA does not start before (CUDA_ERROR_SYSTEM_NOT_READY, 802). Without
// a visible switch the state alone does not count: a GPU that was passed to a VM has one, too.
func gpuFabric(_ context.Context, in preflight.Input) finding.Finding {
	u, _ := preflight.GPUsOf(in)
	const manager = "systemctl status nvidia-fabricmanager; sudo systemctl restart nvidia-fabricmanager   " +
		"# its version must be the driver's"
	var waiting, ill []string
	wait, bad := finding.Warnf(""), finding.Warnf("")
	any := false
	if f, bad := darkLinks(in, u); bad {
		return f.Do(manager)
	}
	for _, d := range u.Devices {
		f := d.Fabric
		switch {
		case f == nil:
			continue
		case f.State == "not_started" || f.State == "in_progress":
			waiting = append(waiting, called(d))
			wait = wait.See("NVML", "%s: fabric state %s", called(d), f.State)
		case f.State == "completed" && (f.Status != "" && f.Status != "SUCCESS" || f.Health == "unhealthy" ||
			f.Health == "limited_capacity" || len(f.Problems) > 0):
			ill = append(ill, called(d))
			bad = bad.See("NVML", "%s: fabric status %s, health %s %s",
				called(d), f.Status, f.Health, strings.Join(f.Problems, ", "))
		}
		any = true
	}
	switch {
	case len(waiting) > 0:
		wait.What = "the fabric manager has not set up " + finding.Some(waiting)
		if u.Certain && hasSwitch(in) {
			wait.Status = finding.Fail
		}
		return wait.Breaking("CUDA does not start on them (error 802, system not yet initialized)").Do(manager)
	case len(ill) > 0:
		bad.What = "the NVLink fabric is faulty for " + finding.Some(ill)
		return bad.Breaking("NVLink is slower, or does not work between some GPUs").
			Do("nvidia-smi -q | grep -A8 Fabric\n" + manager)
	case in.Exists != nil && lacksIMEX(in, u):
		return finding.Warnf("the GPUs belong to an NVLink domain of several machines, and this node has no IMEX channel").
			See("/dev/nvidia-caps-imex-channels", "no channel").
			Breaking("GPUs of different machines cannot share memory over NVLink; NCCL stops, or uses the network").
			Do("nvidia-modprobe -c 0; systemctl start nvidia-imex\n" +
				"in Kubernetes: a ComputeDomain; or without it: NCCL_MNNVL_ENABLE=0 on all nodes")
	case any, slices.ContainsFunc(in.Node.PCI, fabric.PCI.IsNVSwitch):
		return pass(u)
	}
	return finding.Skipf("no NVSwitch here")
}

// darkLinks checks GPUs before Hopper, whose fabric has no state in NVML: CUDA says that it does not start, or no
// NVLink is up although this node has NVSwitches. In MIG mode a GPU has no NVLink.
func darkLinks(in preflight.Input, u preflight.UsedGPUs) (finding.Finding, bool) {
	if in.Node.GPUs.Init == gpu.NotReady {
		return finding.FailOr(u.Certain, "the fabric manager has not set up the NVSwitches: CUDA does not start").
			See("cuInit", "error %d, system not yet initialized", gpu.NotReady).
			Breaking("every process that uses CUDA stops with error 802"), true
	}
	linked, up := 0, 0
	for _, d := range u.Devices {
		if d.NVLink != nil && d.NVLink.Total > 0 && d.MIG != "on" && d.Err == "" {
			linked++
			up += d.NVLink.Up
		}
	}
	switches := slices.DeleteFunc(slices.Clone(in.Node.PCI), func(p fabric.PCI) bool { return !p.IsNVSwitch() })
	if !in.Node.GPUs.Unplaced() || len(switches) == 0 || linked < 2 || up > 0 {
		return finding.Finding{}, false
	}
	return finding.Warnf("no NVLink is up on any GPU, although this node has NVSwitches (%d)",
		len(switches)).
		See("NVML", "0 NVLinks up on %d GPUs", linked).See("PCI bus", "%s: class %s", switches[0].Addr, switches[0].Class).
		Breaking("CUDA may not start (error 802), or NCCL uses PCIe at a fraction of the speed"), true
}

// hasSwitch reports whether this node has an NVSwitch: on the bus, or at the end of a link.
func hasSwitch(in preflight.Input) bool {
	return slices.ContainsFunc(in.Node.PCI, fabric.PCI.IsNVSwitch) ||
		slices.ContainsFunc(in.Node.GPUs.Devices, onSwitch)
}

func onSwitch(d gpu.GPU) bool {
	return d.NVLink != nil && slices.ContainsFunc(d.NVLink.Remotes, func(r gpu.Remote) bool { return r.Type == "switch" })
}

// imexChannels is the default number of channels (NVreg_ImexChannelCount).
const imexChannels = 2048

func lacksIMEX(in preflight.Input, u preflight.UsedGPUs) bool {
	if !in.Job.Several() || !slices.ContainsFunc(u.Devices,
		func(d gpu.GPU) bool { return d.Fabric != nil && d.Fabric.Cluster != "" }) {
		return false
	}
	if off, _ := in.Getenv("NCCL_MNNVL_ENABLE"); off == "0" {
		return false
	}
	for i := range imexChannels {
		if in.Exists(fmt.Sprintf("/dev/nvidia-caps-imex-channels/channel%d", i)) {
			return false
		}
	}
	return true
}

// gpuNVLink compares each GPU with the others of its model: the board and its bridges
// decide how many links there are, and a board without a bridge has none.
func gpuNVLink(_ context.Context, in preflight.Input) []finding.Finding {
	u, _ := preflight.GPUsOf(in)
	var out []finding.Finding
	linked := false
	for _, d := range u.Devices {
		if d.NVLink == nil {
			continue
		}
		linked = linked || d.NVLink.Up > 0
		most, switched := d.NVLink.Up, false
		for _, o := range in.Node.GPUs.Devices {
			if o.NVLink != nil && o.Name == d.Name {
				most, switched = max(most, o.NVLink.Up), switched || onSwitch(o)
			}
		}
		if d.NVLink.Up == most || !switched && d.NVLink.Up == 0 || d.MIG == "on" {
			continue
		}
		out = append(out, finding.Warnf("%s has %d NVLinks up, others of its kind have %d", called(d), d.NVLink.Up, most).
			See("NVML", "%s: down %v of %d; errors: %d CRC, %d recoveries",
				called(d), d.NVLink.Down, d.NVLink.Total, d.NVLink.CRC, d.NVLink.Recoveries).
			Breaking("collectives of this node are slower, and NCCL may stop where the links of its GPUs differ").
			Do("nvidia-smi nvlink -s -i %s\nsudo nvidia-smi -r   # between jobs, resets all GPUs; then have the board inspected",
				number(d)))
	}
	if len(out) == 0 && !linked {
		return finding.Skips("no NVLink is up on any GPU")
	}
	return orPass(out, u)
}

// oddPairs reports pairs of GPUs that may not use each other's memory while other pairs of the same models at the
// same distance may. What holds for all pairs is due to the design of the machine or the model.
func oddPairs(in preflight.Input, u preflight.UsedGPUs) (finding.Finding, bool) {
	type kind struct{ distance, a, b string }
	devices := map[int]gpu.GPU{}
	for _, d := range u.Devices {
		if d.MIG != "on" {
			devices[d.Index] = d
		}
	}
	good, bad := map[kind]bool{}, map[kind][]gpu.Pair{}
	for _, p := range in.Node.GPUs.Pairs {
		a, seenA := devices[p.A]
		b, seenB := devices[p.B]
		if !seenA || !seenB || p.Read == "" || p.Write == "" {
			continue
		}
		k := kind{p.Distance, min(a.Name, b.Name), max(a.Name, b.Name)}
		if p.Read == "ok" && p.Write == "ok" {
			good[k] = true
		} else {
			bad[k] = append(bad[k], p)
		}
	}
	var odd []gpu.Pair
	for k, pairs := range bad {
		if good[k] {
			odd = append(odd, pairs...)
		}
	}
	if len(odd) == 0 {
		return finding.Finding{}, false
	}
	slices.SortFunc(odd, func(x, y gpu.Pair) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	f := finding.Warnf("")
	var names []string
	for _, p := range odd {
		names = append(names, fmt.Sprintf("%d and %d", p.A, p.B))
		if len(f.Seen) < finding.MaxSeen {
			f = f.See("NVML", "GPU %d and %d (%s): read %s, write %s", p.A, p.B, p.Distance, p.Read, p.Write)
		}
	}
	f.What = "GPUs that may not use each other's memory, while comparable pairs may: " + finding.Some(names)
	return f.Breaking("NCCL goes through the host's memory between them, and all ranks wait for these").
		Do("nvidia-smi topo -p2p rw\nsudo nvidia-smi -r   # between jobs, resets the GPUs; then reboot"), true
}

// gpuP2P looks at pairs of GPUs, and at GPUs and rails behind one switch. It skips
// guests, since a VM needs the redirection, and bridges that it cannot read.
func gpuP2P(_ context.Context, in preflight.Input) finding.Finding {
	u, _ := preflight.GPUsOf(in)
	if f, bad := oddPairs(in, u); bad {
		return f
	}
	if in.Node.Cloud.Virtual {
		return finding.Skipf("a virtual machine: its bridges are not the real ones")
	}
	known := false
	f := finding.Warnf("")
	var pairs []string
	for _, r := range rail.Of(in.Node, in.Addr).Rails {
		for _, d := range u.Devices {
			if in.Node.Distance(d.PCI, r.PCI).Rank() > fabric.PXB.Rank() {
				continue
			}
			a, _ := in.Node.Function(r.PCI)
			b, _ := in.Node.Function(d.PCI)
			if a.ACS == "" || b.ACS == "" {
				continue
			}
			known = true
			if a.ACS == "on" || b.ACS == "on" {
				pairs = append(pairs, r.HCA+" and "+called(d))
				f = f.See("PCI bridges above "+r.PCI+" and "+d.PCI, "redirection is %s and %s", a.ACS, b.ACS)
			}
		}
	}
	switch {
	case len(pairs) > 0:
		f.What = "devices behind one PCIe switch communicate through the root: " + finding.Some(pairs)
		return f.Breaking("GPUDirect is slow, and NCCL may hang (NCCL documentation, PCI Access Control Services)").
			Do("setpci -s BRIDGE ECAP_ACS+0x6.w=0000   # disables ACS on these bridges; after each boot, or in the BIOS")
	case known:
		return finding.Passf("no redirection between GPUs and rails")
	}
	return finding.Skipf("no GPU and rail behind one switch, or its bridges could not be read (that needs root)")
}
