package gpu

import (
	"context"
	"strconv"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuListed warns of GPUs that did not start. A job that names its GPUs does not need the others, and neither does one
// with a number of processes for which there are enough.
func gpuListed(_ context.Context, in preflight.Input) finding.Finding {
	lost := in.Node.Unlisted()
	n := len(in.Node.GPUs.Devices)
	want, err := strconv.Atoi(in.Job.NProc.V)
	if preflight.VisibleGPUs(in).Set || len(lost) == 0 || err == nil && want <= n {
		return finding.Passf("%s", finding.Count(n, "GPU"))
	}
	names := finding.Map(lost, func(c fabric.Card) string { return c.PCI })
	f := finding.Warnf("%s %s%s on the bus with NVIDIA's driver, and NVML does not list %s: no process can use %[4]s",
		map[bool]string{true: "GPU", false: "GPUs"}[len(lost) == 1], finding.Some(names), isOrAre(len(lost)),
		map[bool]string{true: "it", false: "them"}[len(lost) == 1])
	for _, c := range lost[:min(len(lost), finding.MaxSeen)] {
		f = f.See("/proc/driver/nvidia/gpus/"+c.PCI, "%s", c.Model)
		for _, x := range recent(in, c.PCI) {
			f = f.See("kernel log", "%s", xidLine(x))
		}
	}
	return f.See("NVML", "%s", finding.Count(n, "GPU")).
		Breaking("the job has fewer GPUs than this node, or fewer than the other nodes").
		Do("dmesg | grep -e NVRM -e Xid   # shows why, such as RmInitAdapter failed\n"+
			"reboot this node; if %s is still missing, have it reseated or replaced\n"+
			"if it is off on purpose: --skip gpu.listed", names[0])
}
