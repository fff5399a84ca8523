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

// Counters count since the port was started, and old ones stop at their largest value: compare two
// readings. Each reading of an HCA's is a command to the firmware; a refused one writes to the kernel
// log (Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net-statistics).

// LinkErrors are the counters of one port that show a bad link.
type LinkErrors struct {
	Downed  uint64 // link_downed: the link was lost
	Symbols uint64 // symbol_error
	Packets uint64 // port_rcv_errors: packets that arrived damaged
}

// Traffic is the number of bytes that a port has sent and received, for all its users.
type Traffic struct{ Sent, Received uint64 }

// PortCounters are all counters of one port.
type PortCounters struct {
	HCA      string        `json:"hca"`
	Port     int           `json:"port"` // 1-based
	Counters []PortCounter `json:"counters,omitempty"`
	Unread   int           `json:"unread,omitempty"` // unreadable counters: a virtual function does not have all
}

// PortCounter is one counter of an HCA's port.
type PortCounter struct {
	Name  string `json:"name"`  // name in sysfs, "symbol_error"
	Value uint64 `json:"value"` // data in bytes
}

// Data counters count words of 4 bytes (IBTA volume 1, 16.1.3.5).
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

// countersOf returns the folder of a port's standard counters; the driver's own are next to it.
func countersOf(hca string, port int) string {
	return path.Join(classInfiniBand, hca, "ports", strconv.Itoa(port), "counters")
}

// inTurn reads several counters and stops at the first that cannot be read.
func inTurn(sys fs.FS, dir, owner string, names []string, to []*uint64) (err error) {
	for i, name := range names {
		if *to[i], err = counter(sys, dir, name, owner); err != nil {
			return err
		}
	}
	return nil
}

// ReadLinkErrors reads the LinkErrors of a port.
func ReadLinkErrors(sys fs.FS, hca string, port int) (e LinkErrors, err error) {
	err = inTurn(sys, countersOf(hca, port), hca, []string{"link_downed", "symbol_error", "port_rcv_errors"},
		[]*uint64{&e.Downed, &e.Symbols, &e.Packets})
	return e, err
}

// ReadTraffic reads the bytes of a port: the HCA's own, which include RDMA, else its interface's.
func ReadTraffic(sys fs.FS, netdev, hca string, port int) (t Traffic, err error) {
	dir, names := path.Join("class/net", netdev, "statistics"), []string{"tx_bytes", "rx_bytes"}
	if hca != "" {
		dir, names = countersOf(hca, port), []string{sentData, receivedData}
	}
	err = inTurn(sys, dir, hca+netdev, names, []*uint64{&t.Sent, &t.Received})
	return t, err
}

// ReadPortCounters reads all counters of the HCAs: the standard ones, and the driver's own numbers
// (hw_counters). It is for monitoring, and blocks on a device that does not answer.
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

// read adds the counters of a directory. lifespan is not a counter but the age of the values in ms.
func (c *PortCounters) read(sys fs.FS, dir string) {
	if sys == nil {
		return
	}
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return // an HCA without counters, as EFA's port with an old driver
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "lifespan" {
			continue
		}
		n, err := counter(sys, dir, e.Name(), c.HCA)
		if _, other := errors.AsType[*strconv.NumError](err); other {
			continue // not a number
		}
		if err != nil {
			c.Unread++
			continue
		}
		c.Counters = append(c.Counters, PortCounter{e.Name(), n})
	}
}
