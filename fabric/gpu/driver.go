package gpu

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Paths of a driver's files, under /proc and /dev.
const (
	versionFile = "driver/nvidia/version"
	gpuDir      = "driver/nvidia/gpus"
	controlNode = "nvidiactl" // needed by every NVML and CUDA process
	wslNode     = "dxg"       // WSL has its own way to the driver, and no nvidiactl
)

// Look finds out, from files that no driver can block, whether NVML can be asked; if not, the Facts say
// why. A missing nvidiactl proves nothing: on bare metal the first user of NVML creates it.
func Look(proc, dev fs.FS) (f Facts, ask bool) {
	version, err := fs.ReadFile(proc, versionFile)
	f.Driver = parseVersion(string(version))
	if err == nil || exists(dev, controlNode) || exists(dev, wslNode) {
		return f, true
	}
	return Facts{Absent: "no /proc/" + versionFile + " and no /dev/" + controlNode}, false
}

// Count returns the number of GPUs in the driver's files; 0 where these are hidden.
func Count(proc fs.FS) int { return len(addresses(proc)) }

// addresses returns the PCI addresses of the GPUs in the driver's files.
func addresses(proc fs.FS) []string {
	entries, err := fs.ReadDir(proc, gpuDir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, sysfsPCI(e.Name()))
	}
	return out
}

// Settle merges the child's answer with what Look saw and with the driver's files. A container sees the
// host's /proc: a driver there, without a device node here, means no GPUs for this job.
func Settle(proc, dev fs.FS, seen, answer Facts) Facts {
	if answer.Driver == "" {
		answer.Driver = seen.Driver
	}
	unreachable := answer.Code == nameOf(libraryNotFound) || answer.Code == nameOf(driverNotLoaded)
	if unreachable && !exists(dev, controlNode) && !exists(dev, wslNode) {
		return Facts{
			Driver: answer.Driver,
			Absent: "the kernel has the driver (/proc/" + versionFile + "), but this container has no GPU: no /dev/" +
				controlNode,
		}
	}
	answer.place(addresses(proc))
	answer.Closed = closed(proc, dev, answer.Devices)
	return answer
}

// place finds the address of the only GPU that did not report its own.
func (f *Facts) place(addrs []string) {
	silent := -1
	for i, d := range f.Devices {
		at := slices.Index(addrs, d.PCI)
		switch {
		case d.PCI == "" && silent < 0:
			silent = i
		case at < 0: // a second one, or a device that the files do not show
			return
		default:
			addrs = slices.Delete(slices.Clone(addrs), at, at+1)
		}
	}
	if silent >= 0 && len(addrs) == 1 {
		f.Devices[silent].PCI = addrs[0]
	}
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// versionRE finds the driver's version between the name of the module, which differs by platform and
// between the closed and the open module, and the build date.
var versionRE = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d{3,}(?:\.\d+)+)\s`)

func parseVersion(s string) string {
	m := versionRE.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	return m[1]
}

// sysfsPCI turns NVML's bus id (eight digits of domain, upper case) into the name in sysfs.
func sysfsPCI(busID string) string {
	domain, rest, ok := strings.Cut(strings.ToLower(busID), ":")
	if n, err := strconv.ParseUint(domain, 16, 32); ok && err == nil {
		domain = strconv.FormatUint(n, 16)
		domain = strings.Repeat("0", max(0, 4-len(domain))) + domain
		return domain + ":" + rest
	}
	return busID
}

// cudaVersion writes NVML's number (12080) as NVIDIA writes it ("12.8").
func cudaVersion(n int) string { return strconv.Itoa(n/1000) + "." + strconv.Itoa(n%1000/10) }
