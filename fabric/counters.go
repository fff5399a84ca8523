package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Counters are since the port was started, and the old ones stop at their largest
// value, so only two readings tell something. Of an HCA each reading is a command to
// the firmware, and one that is refused is a line in the kernel log. Detect reads
// none (Documentation/ABI/stable/sysfs-class-infiniband,
// …/testing/sysfs-class-net-statistics).

// LinkErrors are the counters of one port by which a bad link shows, as they are
// now.
type LinkErrors struct {
	Downed  uint64 // link_downed: the link was lost
	Symbols uint64 // symbol_error
	Packets uint64 // port_rcv_errors: packets that arrived damaged
}

// Traffic is how many bytes a port has sent and received, with those of all its
// users.
type Traffic struct{ Sent, Received uint64 }

// PortCounters is all that one port has counted.
type PortCounters struct {
	HCA      string        `json:"hca"`
	Port     int           `json:"port"` // 1-based
	Counters []PortCounter `json:"counters,omitempty"`
	Unread   int           `json:"unread,omitempty"` // how many would not tell: a virtual function does not have all
}

// PortCounter is one number that an HCA counts at a port.
type PortCounter struct {
	Name  string `json:"name"`  // as sysfs has it, "symbol_error"
	Value uint64 `json:"value"` // of data: bytes
}

// The counters of data are in words of 4 bytes (IBTA volume 1, 16.1.3.5).
const (
	sentData     = "port_xmit_data"
	receivedData = "port_rcv_data"
)

// counter reads one counter of a port or an interface, data in bytes.
func counter(sys fs.FS, dir, name, owner string) (uint64, error) {
	text, err := ReadFile(sys, path.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", name, owner, err)
	}
	if name == sentData || name == receivedData {
		n *= 4
	}
	return n, nil
}

// countersOf is where a port's standard counters are; beside it are the driver's.
func countersOf(hca string, port int) string {
	return path.Join(classInfiniBand, hca, "ports", strconv.Itoa(port), "counters")
}

// inTurn reads several counters. The first that cannot be read is the last that is
// asked.
func inTurn(sys fs.FS, dir, owner string, names []string, to []*uint64) (err error) {
	for i, name := range names {
		if *to[i], err = counter(sys, dir, name, owner); err != nil {
			return err
		}
	}
	return nil
}

// ReadLinkErrors reads three counters of a port.
func ReadLinkErrors(sys fs.FS, hca string, port int) (e LinkErrors, err error) {
	err = inTurn(sys, countersOf(hca, port), hca, []string{"link_downed", "symbol_error", "port_rcv_errors"}, []*uint64{&e.Downed, &e.Symbols, &e.Packets})
	if err != nil {
		return LinkErrors{}, err
	}
	return e, nil
}

// ReadTraffic reads two counters of a port: of an HCA its own, which see RDMA, else
// those of its interface, which do not.
func ReadTraffic(sys fs.FS, netdev, hca string, port int) (t Traffic, err error) {
	dir, names := path.Join("class/net", netdev, "statistics"), []string{"tx_bytes", "rx_bytes"}
	if hca != "" {
		dir, names = countersOf(hca, port), []string{sentData, receivedData}
	}
	if err = inTurn(sys, dir, hca+netdev, names, []*uint64{&t.Sent, &t.Received}); err != nil {
		return Traffic{}, err
	}
	return t, nil
}

// ReadPortCounters reads all that the HCAs count: the standard counters, and of
// the driver's own (hw_counters) those that are numbers. It is for who watches a
// node, and no start does it. A device that does not answer holds its caller up.
func ReadPortCounters(sys fs.FS, hcas []HCA) []PortCounters {
	var out []PortCounters
	for _, h := range hcas {
		for _, p := range h.Ports {
			c := PortCounters{HCA: h.Name, Port: p.Num}
			standard := countersOf(h.Name, p.Num)
			c.read(sys, standard)
			c.read(sys, path.Join(path.Dir(standard), "hw_counters"))
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
		n, err := counter(sys, dir, e.Name(), c.HCA)
		if _, other := errors.AsType[*strconv.NumError](err); other {
			continue // no number
		}
		if err != nil {
			c.Unread++
			continue
		}
		c.Counters = append(c.Counters, PortCounter{e.Name(), n})
	}
}
