package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// XID is a fault that NVIDIA's driver wrote to the kernel log: all faults of one kind on one device.
// NVML reports faults only while they happen (nvmlEventSetWait), so earlier ones are only in the log.
type XID struct {
	PCI    string `json:"pci"`              // of the GPU or, for an SXid, the NVSwitch
	Switch bool   `json:"switch,omitempty"` // an SXid
	Code   int    `json:"code"`             // see "XID Errors" in NVIDIA's GPU Deployment and Management
	Count  int    `json:"count"`
	Age    int    `json:"age"` // seconds since the last one
	Text   string `json:"text,omitempty"`
}

const (
	kernelLog = "/dev/kmsg"

	// maxRecord is more than CONSOLE_EXT_LOG_MAX of include/linux/console.h, 8192.
	maxRecord = 16 << 10
	// logBudget limits the time of reading. A log of the usual size takes a fraction of it.
	logBudget = 500 * time.Millisecond
	// maxText is long enough for the description of a fault, without a dump of registers.
	maxText = 120
)

// KernelLog adds the XIDs of the kernel log, as far as it goes back. In most containers, and without
// CAP_SYSLOG (kernel.dmesg_restrict), they are unknown. It takes half a second at most.
func (f *Facts) KernelLog() {
	fd, err := syscall.Open(kernelLog, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == nil {
		defer syscall.Close(fd)
		var up syscall.Sysinfo_t
		if err = syscall.Sysinfo(&up); err == nil {
			f.XIDs, err = readLog(func(b []byte) (int, error) { return syscall.Read(fd, b) },
				time.Duration(up.Uptime)*time.Second)
		}
	}
	if err != nil {
		f.addUnknown("xids", fmt.Sprintf("open or read %s: %v", kernelLog, err))
	}
}

// readLog reads all records (Documentation/ABI/testing/dev-kmsg). now is the time since boot.
func readLog(read func([]byte) (int, error), now time.Duration) ([]XID, error) {
	var out []XID
	b := make([]byte, maxRecord)
	for end := time.Now().Add(logBudget); time.Now().Before(end); {
		n, err := read(b)
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
			// EPIPE: a record was overwritten. The next call reads the one after it.
		case errors.Is(err, syscall.EAGAIN), err == nil && n == 0:
			return out, nil
		case err != nil:
			return out, err
		default:
			if at, message, ok := parseRecord(string(b[:n])); ok {
				if x, ok := parseXID(message); ok {
					x.Age = int(max(0, now-at) / time.Second)
					out = count(out, x)
				}
			}
		}
	}
	return out, nil
}

// count adds one to the XIDs of its kind. Records are in the order of time.
func count(seen []XID, x XID) []XID {
	x.Count = 1
	i := slices.IndexFunc(seen, func(o XID) bool { return o.PCI == x.PCI && o.Switch == x.Switch && o.Code == x.Code })
	if i >= 0 {
		x.Count += seen[i].Count
		seen = slices.Delete(seen, i, i+1)
	}
	return slices.Insert(seen, 0, x)
}

// parseRecord splits "priority,sequence,microseconds,flags[,…];message" of the kernel (facility 0).
func parseRecord(record string) (at time.Duration, message string, ok bool) {
	head, message, found := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < 4 {
		return 0, "", false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil || priority>>3 != 0 {
		return 0, "", false
	}
	usec, err := strconv.ParseUint(fields[2], 10, 53)
	if err != nil {
		return 0, "", false
	}
	message, _, _ = strings.Cut(message, "\n") // the rest is a dictionary
	return time.Duration(usec) * time.Microsecond, message, true
}

var (
	// xidRE matches the driver's message about a GPU ("NVRM: Xid (PCI:0000:9b:00): 119,
	// …") or an NVSwitch ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, …").
	xidRE = regexp.MustCompile(`^(?:NVRM|nvidia-nvswitch\d+): (S?)Xid ` +
		`\((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(\.[0-7])?\): (\d{1,6})(?:, (.*))?$`)
	// whoRE matches the process that was running then: it is private, and not the cause.
	whoRE = regexp.MustCompile(`^(?:pid='?[^,]*, )?(?:name='?[^,]*, )?`)
)

// parseXID reads one message. ok is false for any other message.
func parseXID(message string) (x XID, ok bool) {
	m := xidRE.FindStringSubmatch(message)
	if m == nil {
		return XID{}, false
	}
	code, err := strconv.Atoi(m[4])
	if err != nil {
		return XID{}, false
	}
	function := cmp.Or(m[3], ".0")
	text := strings.TrimSpace(whoRE.ReplaceAllString(m[5], ""))
	if strings.HasPrefix(text, "pid=") || strings.HasPrefix(text, "name=") { // nothing but these
		text = ""
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return XID{PCI: sysfsPCI(m[2] + function), Switch: m[1] != "", Code: code, Text: text}, true
}
