package gpu

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The places that tell of a driver, under /proc and /dev.
const (
	versionFile = "driver/nvidia/version"
	gpuDir      = "driver/nvidia/gpus"
	controlNode = "nvidiactl" // needed by every NVML and CUDA process
	wslNode     = "dxg"       // WSL has its own way to the driver, and no nvidiactl
)

// Look tells, from files that no driver can block, whether there is anybody
// to ask. When ask is false, the Facts are the answer. A missing nvidiactl
// alone proves nothing: on bare metal the first user of NVML creates it.
func Look(proc, dev fs.FS) (f Facts, ask bool) {
	version, err := fs.ReadFile(proc, versionFile)
	f.Driver = parseVersion(string(version))
	if err == nil || exists(dev, controlNode) || exists(dev, wslNode) {
		return f, true
	}
	return Facts{Absent: "no /proc/" + versionFile + " and no /dev/" + controlNode}, false
}

// Count is how many GPUs the driver has, by its files; 0 where these are not
// shown.
func Count(proc fs.FS) int { return len(addresses(proc)) }

// addresses are the GPUs that the driver has, by its files.
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

// Settle joins what the child answered with what Look saw and what files tell.
// A container sees the host's /proc, so a driver there and neither device node
// nor library here is a node without GPUs for this job, not a broken one.
func Settle(proc, dev fs.FS, seen, answer Facts) Facts {
	if answer.Driver == "" {
		answer.Driver = seen.Driver
	}
	unreachable := answer.Code == nameOf(libraryNotFound) || answer.Code == nameOf(driverNotLoaded)
	if unreachable && !exists(dev, controlNode) && !exists(dev, wslNode) {
		return Facts{
			Driver: answer.Driver,
			Absent: "the kernel has the driver (/proc/" + versionFile + "), but this container was given no GPU: no /dev/" + controlNode,
		}
	}
	answer.place(addresses(proc))
	return answer
}

// place finds the address of a GPU that did not tell its own, where all others
// did: whoever has to pull the board needs it.
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

// versionRE finds the driver's number in the first line of
// /proc/driver/nvidia/version, between the name of the module (which differs
// between the closed and the open one, and by platform) and the build date.
var versionRE = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d{3,}(?:\.\d+)+)\s`)

func parseVersion(s string) string {
	m := versionRE.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	return m[1]
}

// sysfsPCI turns NVML's bus id (eight digits of domain, upper case) into the
// name of the device in sysfs. A domain above 0xffff keeps its digits.
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
func cudaVersion(n int) string {
	return strconv.Itoa(n/1000) + "." + strconv.Itoa(n%1000/10)
}
