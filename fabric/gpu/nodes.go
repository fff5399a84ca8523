package gpu

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Closed is a device node that every process with CUDA opens, and this one cannot. NVML may answer all the same: it
// asks through /dev/nvidiactl.
type Closed struct {
	Node string `json:"node"`          // nvidia0, below /dev; nvidia-uvm is needed for all GPUs
	GPU  int    `json:"gpu,omitempty"` // its Index; -1 for a node of all GPUs
	Why  string `json:"why"`
}

// uvmNode is the node of unified memory, without which cuInit fails.
const uvmNode = "nvidia-uvm"

// graphicsMajor is the major number of /dev/nvidiaN in the kernel's admin-guide/devices.txt; that of nvidia-uvm
// is in /proc/devices.
const graphicsMajor = 195

// closed looks at the nodes of the devices and at nvidia-uvm. A node that is missing proves nothing: the driver's
// nvidia-modprobe makes it for the first process.
func closed(proc, dev fs.FS, devices []GPU) (out []Closed) {
	for _, d := range devices {
		if d.Minor >= 0 {
			name := "nvidia" + strconv.Itoa(d.Minor)
			if why := unusable(dev, name, graphicsMajor); why != "" {
				out = append(out, Closed{name, d.Index, why})
			}
		}
	}
	if major := majorOf(proc, uvmNode); major > 0 && len(devices) > 0 {
		if why := unusable(dev, uvmNode, major); why != "" {
			out = append(out, Closed{uvmNode, -1, why})
		}
	}
	return out
}

// unusable returns why a process of this user cannot open a node for reading and writing; "": it can, by its
// inode. The node itself is not opened: a GPU that does not answer would hold this process.
func unusable(dev fs.FS, name string, major uint32) string {
	info, err := fs.Stat(dev, name)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	switch have := unix.Major(st.Rdev); {
	case info.Mode()&fs.ModeCharDevice == 0:
		return "it is no device"
	case have != major:
		return fmt.Sprintf("it is another device (major number %d, not %d)", have, major)
	}
	groups, _ := os.Getgroups()
	need := info.Mode().Perm()
	switch {
	case os.Geteuid() == 0:
		need = 0o6
	case os.Geteuid() == int(st.Uid):
		need >>= 6
	case os.Getegid() == int(st.Gid) || slices.Contains(groups, int(st.Gid)):
		need >>= 3
	}
	if need&0o6 != 0o6 {
		return fmt.Sprintf("this user may not open it (mode %04o)", info.Mode().Perm())
	}
	return ""
}

// Withheld returns the addresses of the GPUs in the driver's files that are not among some devices, and whose node this
// process may not use, or does not have.
func Withheld(proc fs.FS, devices []GPU, usable func(node string) bool) (out []string) {
	for _, addr := range addresses(proc) {
		listed := slices.ContainsFunc(devices, func(d GPU) bool { return d.PCI == addr })
		text, _ := fs.ReadFile(proc, gpuDir+"/"+addr+"/information")
		m := minorRE.FindSubmatch(text)
		if !listed && (m == nil || !usable("nvidia"+string(m[1]))) {
			out = append(out, addr)
		}
	}
	return out
}

var minorRE = regexp.MustCompile(`(?m)^Device Minor:\s*(\d+)`)

// majorOf returns the major number of a driver in /proc/devices; 0: it is not there.
func majorOf(proc fs.FS, driver string) uint32 {
	text, _ := fs.ReadFile(proc, "devices")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == driver {
			n, _ := strconv.ParseUint(f[0], 10, 32)
			return uint32(n)
		}
	}
	return 0
}
