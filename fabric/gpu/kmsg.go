package gpu

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// XID is a fault that NVIDIA's driver wrote to the kernel log, all of one kind
// on one device. NVML tells of them only while they happen (nvmlEventSetWait),
// so the log is the only place for those before.
type XID struct {
	PCI    string `json:"pci"`              // of the GPU or, of an SXid, the NVSwitch
	Switch bool   `json:"switch,omitempty"` // an SXid
	Code   int    `json:"code"`             // "XID Errors" of NVIDIA's GPU Deployment and Management documentation lists them
	Count  int    `json:"count"`
	Age    int    `json:"age"` // seconds since the last one
	Text   string `json:"text,omitempty"`
}

const (
	kernelLog = "/dev/kmsg"

	// maxRecord is above what the kernel returns of one record: with less room
	// it refuses (CONSOLE_EXT_LOG_MAX of include/linux/console.h is 8192).
	maxRecord = 16 << 10
	// logBudget bounds the reading. A log of the usual size (log_buf_len below
	// 16 MiB) takes a fraction.
	logBudget = 500 * time.Millisecond
	// maxText keeps what says what happened, and not a dump of registers.
	maxText = 120
)

// KernelLog adds the XIDs of the kernel log, from this boot as far as the log
// goes back. Most containers have no such file, and most kernels want
// CAP_SYSLOG (kernel.dmesg_restrict): then they are unknown. It takes half a
// second at most and asks no driver, so it may be called though the driver
// hangs.
func (f *Facts) KernelLog() {
	fd, err := syscall.Open(kernelLog, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == nil {
		defer syscall.Close(fd)
		var up syscall.Sysinfo_t
		if err = syscall.Sysinfo(&up); err == nil {
			f.XIDs, err = readLog(func(b []byte) (int, error) { return syscall.Read(fd, b) }, time.Duration(up.Uptime)*time.Second)
		}
	}
	if err != nil {
		f.untold("xids", fmt.Sprintf("open or read %s: %v", kernelLog, err))
	}
}

// readLog reads one record by each call, until the log has no more for now, by
// the rules of Documentation/ABI/testing/dev-kmsg. now is the time since boot.
func readLog(read func([]byte) (int, error), now time.Duration) ([]XID, error) {
	var out []XID
	b := make([]byte, maxRecord)
	for end := time.Now().Add(logBudget); time.Now().Before(end); {
		n, err := read(b)
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR): // a record was overwritten: the next call goes on behind it
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

// count adds one to those of its kind. Records come in the order of time.
func count(seen []XID, x XID) []XID {
	x.Count = 1
	i := slices.IndexFunc(seen, func(o XID) bool { return o.PCI == x.PCI && o.Switch == x.Switch && o.Code == x.Code })
	if i >= 0 {
		x.Count += seen[i].Count
		seen = slices.Delete(seen, i, i+1)
	}
	return slices.Insert(seen, 0, x)
}

// parseRecord takes "priority,sequence,microseconds,flags[,…];message" apart.
// What a program wrote to the log has a facility other than the kernel's (0)
// and is refused: it could be anything.
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
	// xidRE finds what the driver writes of a GPU ("NVRM: Xid (PCI:0000:9b:00):
	// 119, …") and of an NVSwitch ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0):
	// 20034, …").
	xidRE = regexp.MustCompile(`^(?:NVRM|nvidia-nvswitch\d+): (S?)Xid ` +
		`\((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(\.[0-7])?\): (\d{1,6})(?:, (.*))?$`)
	// whoRE is the process that was running then: not the cause, and somebody's.
	whoRE = regexp.MustCompile(`^(?:pid='?[^,]*, )?(?:name='?[^,]*, )?`)
)

// parseXID reads one message. ok is false for any other.
func parseXID(message string) (x XID, ok bool) {
	m := xidRE.FindStringSubmatch(message)
	if m == nil {
		return XID{}, false
	}
	code, err := strconv.Atoi(m[4])
	if err != nil {
		return XID{}, false
	}
	function := m[3]
	if function == "" {
		function = ".0"
	}
	text := strings.TrimSpace(whoRE.ReplaceAllString(m[5], ""))
	if strings.HasPrefix(text, "pid=") || strings.HasPrefix(text, "name=") { // nothing but these
		text = ""
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return XID{PCI: sysfsPCI(m[2] + function), Switch: m[1] != "", Code: code, Text: text}, true
}
