package fabric

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// PortCounter is one number that an HCA counts at a port.
type PortCounter struct {
	Name  string `json:"name"`  // as sysfs has it, "symbol_error"
	Value uint64 `json:"value"` // since the port was started; the old ones stop at their largest value
}

// PortCounters is what one port has counted.
type PortCounters struct {
	HCA      string        `json:"hca"`
	Port     int           `json:"port"` // 1-based
	Counters []PortCounter `json:"counters,omitempty"`
	Unread   int           `json:"unread,omitempty"` // how many would not tell: a virtual function does not have all
}

// octetWords are the counters of data in units of four octets, one for each lane
// (Documentation/ABI/stable/sysfs-class-infiniband); here all are in octets.
var octetWords = []string{"port_xmit_data", "port_rcv_data"}

// ReadPortCounters reads all that the HCAs count: the standard counters, and of
// the driver's own (hw_counters) those that are numbers. Each of them may be a
// command to the firmware, so this is for who watches a node, and neither Detect
// nor a start does it. A device that does not answer holds its caller up.
func ReadPortCounters(sys fs.FS, hcas []HCA) []PortCounters {
	var out []PortCounters
	for _, h := range hcas {
		for _, p := range h.Ports {
			c := PortCounters{HCA: h.Name, Port: p.Num}
			at := path.Join(classInfiniBand, h.Name, "ports", strconv.Itoa(p.Num))
			c.read(sys, path.Join(at, "counters"))
			c.read(sys, path.Join(at, "hw_counters"))
			slices.SortStableFunc(c.Counters, func(a, b PortCounter) int { return cmp.Compare(a.Name, b.Name) })
			c.Counters = slices.CompactFunc(c.Counters, func(a, b PortCounter) bool { return a.Name == b.Name })
			out = append(out, c)
		}
	}
	return out
}

// read adds the counters of a directory. lifespan is how old, in milliseconds, a
// number may be; it counts nothing.
func (c *PortCounters) read(sys fs.FS, dir string) {
	if sys == nil {
		return
	}
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return // an HCA without counters, as EFA's port before its driver had them
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "lifespan" {
			continue
		}
		text, err := ReadFile(sys, path.Join(dir, e.Name()))
		if err != nil {
			c.Unread++
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			continue // no number
		}
		if slices.Contains(octetWords, e.Name()) {
			n *= 4
		}
		c.Counters = append(c.Counters, PortCounter{e.Name(), n})
	}
}
