// Package gpu asks NVML what GPUs this node has. The driver can wedge, so it
// is only ever asked in a child process (see internal/child); this package
// holds the question, the answer and nothing that outlives either.
package gpu

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// Facts is what NVML, or its absence, tells. Exactly one of Present, Absent
// and Err holds; none of them where nobody asked.
type Facts struct {
	Present bool   `json:"present"`          // NVML answered
	Absent  string `json:"absent,omitempty"` // no NVIDIA driver here, and how that was seen
	Err     string `json:"err,omitempty"`    // a driver is here, but it could not be asked
	Driver  string `json:"driver,omitempty"` // "570.86.15"; known without NVML where /proc has it
	CUDA    string `json:"cuda,omitempty"`   // the newest CUDA that the driver serves, "12.8"
	Devices []GPU  `json:"devices,omitempty"`
}

// GPU is one device, in NVML's order.
type GPU struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	UUID   string `json:"uuid"`
	PCI    string `json:"pci"`           // as sysfs writes it, 0000:1b:00.0
	Memory uint64 `json:"memory"`        // bytes
	Err    string `json:"err,omitempty"` // the first thing that this device did not tell: one lost GPU does not hide the others
}

// The places that tell of a driver, under /proc and /dev.
const (
	versionFile = "driver/nvidia/version"
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

// Settle joins what the child answered with what Look saw. A container sees
// the host's /proc, so a driver there and neither device node nor library here
// is a node without GPUs for this job, not a broken one.
func Settle(seen, answer Facts, dev fs.FS) Facts {
	if answer.Driver == "" {
		answer.Driver = seen.Driver
	}
	unreachable := strings.Contains(answer.Err, noLibrary) || strings.Contains(answer.Err, noDriver)
	if unreachable && !exists(dev, controlNode) && !exists(dev, wslNode) {
		return Facts{
			Driver: answer.Driver,
			Absent: "the kernel has the driver (/proc/" + versionFile + "), but this container was given no GPU: no /dev/" + controlNode,
		}
	}
	return answer
}

// How NVML names the two ways of not being there.
const (
	noLibrary = "ERROR_LIBRARY_NOT_FOUND"
	noDriver  = "ERROR_DRIVER_NOT_LOADED"
)

// Child is the question as a child process answers it: nothing is read, the
// Facts are written as JSON.
func Child(_ context.Context, _ io.Reader, out io.Writer) error {
	return json.NewEncoder(out).Encode(ask())
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
