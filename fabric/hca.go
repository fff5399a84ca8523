package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const classInfiniBand = "class/infiniband"

// readHCAs lists /sys/class/infiniband, by name. It reads only what decisions need and never counters/:
// on a restricted function, each such read fails in the firmware and fills the kernel log.
func (n *Node) readHCAs(ctx context.Context, roots Roots) {
	sys := roots.Sys
	class := dir{fsys: sys, name: classInfiniBand}
	names := class.names("")
	uverbs := uverbsNodes(sys, len(names) > 0)
	read := each(ctx, sys, classInfiniBand, names, func(d *dir, name string) HCA {
		h := readHCA(d, name, n.Interfaces, n.PCI)
		h.Uverbs = uverbs[name]
		h.Closed = closed(roots.Dev, h.Uverbs, len(uverbs) > 0)
		return h
	})
	for i, r := range read {
		h := r.value
		if h.Name == "" { // it did not answer
			h = HCA{Name: names[i], NUMA: unknownNUMA, Uverbs: uverbs[names[i]]}
		}
		n.HCAs = append(n.HCAs, h)
		n.note(r.bad)
	}
	n.note(class.bad)
}

func readHCA(d *dir, name string, ifaces []Interface, bus []PCI) HCA {
	h := HCA{Name: name, NUMA: unknownNUMA}
	if target, err := fs.ReadLink(d.fsys, d.name); err == nil {
		h.PCI = functionOf(target)
	}
	if info, err := fs.Stat(d.fsys, d.name); err != nil || !info.IsDir() {
		d.blame("", cmp.Or(err, fs.ErrInvalid)) // a link of the class may dangle
		return h
	}
	if h.PCI == "" { // the class holds directories, as in some recordings
		h.PCI = functionOf(cmp.Or(d.link("device"), ueventValue(d.line("device/uevent"), "PCI_SLOT_NAME")))
	}
	h.NodeType = d.number("node_type", 0)
	h.Firmware, h.Type, h.Board = d.line("fw_ver"), d.line("hca_type"), d.line("board_id")
	h.GUID, h.System = guid(d.line("node_guid")), guid(d.line("sys_image_guid"))
	parent := d.line("parent") // for Soft-RoCE, which uses a netdev and has no device
	h.place(d, bus, parent)
	for _, entry := range d.names("ports") {
		n, err := strconv.Atoi(entry)
		if err != nil || n < 1 {
			continue
		}
		h.Ports = append(h.Ports, readPort(d, n))
	}
	for i, p := range h.Ports {
		if p.Netdev, p.Elsewhere = netdev(d, h, p, ifaces); p.Netdev == "" && here(ifaces, parent) {
			p.Netdev, p.Elsewhere = parent, ""
		}
		if p.LinkLayer == "Ethernet" && p.Active() {
			p.QoS = readQoS(d.fsys, ofFunction(d, h, p, ifaces))
		}
		h.Ports[i] = p
	}
	slices.SortFunc(h.Ports, func(a, b Port) int { return cmp.Compare(a.Num, b.Num) })
	return h
}

// place sets what the PCI function of an HCA shows.
func (h *HCA) place(d *dir, bus []PCI, parent string) {
	i, ok := slices.BinarySearchFunc(bus, h.PCI, func(p PCI, addr string) int { return strings.Compare(p.Addr, addr) })
	if ok && h.PCI != "" {
		h.Driver, h.NUMA, h.VF = bus[i].Driver, bus[i].NUMA, bus[i].VF
	} else {
		h.Driver, h.NUMA = driver(d, "device"), d.number("device/numa_node", unknownNUMA)
		h.VF = isVF(d.line("device/vendor"), d.line("device/device")) || d.link("device/physfn") != ""
	}
	if h.Driver == "" && parent != "" {
		h.Driver = "rdma_rxe"
	}
	h.Driver = cmp.Or(h.Driver, driverByName(h.Name, h.Type))
	// hca_type is MT and the decimal number of the PCI device, also where the bus is hidden.
	if id, err := strconv.Atoi(strings.TrimPrefix(h.Type, "MT")); err == nil && isVF(VendorMellanox, strconv.Itoa(id)) {
		h.VF = true
	}
}

// kernelNameRE matches the kernel's own names of RDMA devices (drivers/infiniband/hw and sw).
var kernelNameRE = regexp.MustCompile(`^(mlx[45]_|bnxt_re|hfi1_|qib|efa_|usnic_|irdma|rxe|siw)\w*\d$`)

// driverByName returns the driver of a device without a function or parent: a software device, or one
// of a recording without the PCI bus. It uses the type, else the name if it is the kernel's own.
func driverByName(name, hcaType string) string {
	if id, ok := strings.CutPrefix(hcaType, "MT"); ok {
		if driver := mellanoxDriver(id); driver != "" {
			return driver
		}
	}
	m := kernelNameRE.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	word := strings.TrimSuffix(m[1], "_")
	drivers := map[string]string{"mlx5": "mlx5_core", "mlx4": "mlx4_core", "bnxt_re": "bnxt_en", "qib": "ib_qib",
		"usnic": "enic", "rxe": "rdma_rxe"}
	return cmp.Or(drivers[word], word)
}

// mellanoxDriver returns the driver of a Mellanox device by its decimal number (the tables in
// drivers/net/ethernet/mellanox/mlx5/core/main.c and mlx4/main.c). ConnectX to ConnectX-3 use mlx4.
func mellanoxDriver(decimal string) string {
	id, err := strconv.Atoi(decimal)
	switch {
	case err != nil:
		return ""
	case id >= 0x1011 && id < 0x1100, id >= 0xa2d2 && id < 0xa300: // from Connect-IB on; BlueField
		return "mlx5_core"
	case id >= 0x1002 && id < 0x1011, id >= 0x6340 && id < 0x6800:
		return "mlx4_core"
	}
	return ""
}

// guid returns s, or "" for a GUID that is zero: EFA and some RoCE ports have no GUID.
func guid(s string) string {
	if strings.Trim(s, "0:") == "" {
		return ""
	}
	return s
}

// uverbsNodes maps the name of an HCA to its device node; their numbers may differ.
func uverbsNodes(sys fs.FS, ask bool) map[string]string {
	nodes := map[string]string{}
	if !ask {
		return nodes
	}
	class := dir{fsys: sys, name: "class/infiniband_verbs"}
	for _, name := range class.names("") {
		if dev := class.line(path.Join(name, "ibdev")); dev != "" {
			nodes[dev] = "/dev/infiniband/" + name
		}
	}
	return nodes
}

// closed returns why this process cannot open a device node, "" if it can or if nothing shows it. To open
// it asks nothing of the card (ib_uverbs_open in drivers/infiniband/core/uverbs_main.c); a container's
// device cgroup refuses it, or the container has no such file.
func closed(dev fs.FS, node string, others bool) string {
	if node == "" {
		if others {
			return "it has no device node, unlike the others"
		}
		return ""
	}
	nodes := dir{fsys: dev, name: "infiniband"}
	uverbs := func(name string) bool { return strings.HasPrefix(name, "uverbs") }
	if !slices.ContainsFunc(nodes.names(""), uverbs) {
		return "" // without any, /dev is another machine's, or libibverbs says more
	}
	f, err := dev.Open("infiniband/" + path.Base(node))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return node + " is not here"
	case errors.Is(err, fs.ErrPermission):
		return node + ": permission denied"
	case err == nil:
		f.Close()
	}
	return ""
}

// pkeyGap unset entries end the table of partition keys, which subnet managers fill from its start.
const pkeyGap = 4

func readPort(d *dir, n int) Port {
	at := path.Join("ports", strconv.Itoa(n))
	p := Port{
		Num: n, State: d.number(path.Join(at, "state"), 0),
		PhysState: d.number(path.Join(at, "phys_state"), 0), LinkLayer: d.line(path.Join(at, "link_layer")),
		LID: d.number(path.Join(at, "lid"), 0), SMLID: d.number(path.Join(at, "sm_lid"), 0),
	}
	if s := d.line(path.Join(at, "rate")); s != "" {
		rate, err := leadingRate(s)
		if err != nil {
			d.blame(path.Join(at, "rate"), err)
		}
		p.Rate, p.Lanes = rate, rateLanes(s)
	}
	p.PKeys = pkeys(d, path.Join(at, "pkeys"))
	p.GIDs, p.GIDSlots = gids(d, at)
	return p
}

// pkeys returns the partition keys that are set. Bit 15 is the membership.
func pkeys(d *dir, table string) []PKey {
	var out []PKey
	unset := 0
	for index, s := range d.entries(table) {
		if k, err := strconv.ParseUint(s, 0, 16); err == nil && k&0x7fff != 0 {
			out, unset = append(out, PKey{Index: index, Key: s}), 0
		} else if unset++; unset == pkeyGap {
			break
		}
	}
	return out
}

// gids reads a port's GID table. The kernel keeps it in memory, so its up to 256 entries cost
// little. Type and netdev are not read for an unset entry: they are errors (EINVAL).
func gids(d *dir, port string) (out []GID, slots int) {
	table := path.Join(port, "gids")
	for index, s := range d.entries(table) {
		if s == "" {
			continue
		}
		slots++
		entry := strconv.Itoa(index)
		addr, set, err := parseGID(s)
		if err != nil {
			d.blame(path.Join(table, entry), err)
		}
		if set {
			out = append(out, GID{
				Index: index, Addr: addr, Type: d.line(path.Join(port, "gid_attrs/types", entry)),
				Netdev: d.line(path.Join(port, "gid_attrs/ndevs", entry)),
			})
		}
	}
	return out, slots
}

// parseGID reads a GID. An unset entry is all zeros but for the prefix of link-local addresses.
func parseGID(s string) (addr netip.Addr, set bool, err error) {
	addr, err = netip.ParseAddr(s)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return netip.Addr{}, false, fmt.Errorf("%q is not a GID", s)
	}
	b := addr.As16()
	if [8]byte(b[8:]) == [8]byte{} && (b[0] == 0 || b[0] == 0xfe) {
		return netip.Addr{}, false, nil
	}
	return addr.Unmap(), true, nil
}

// entries returns the files of a table by their number, each with its line.
func (d *dir) entries(table string) iter.Seq2[int, string] {
	var numbers []int
	for _, name := range d.names(table) {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return func(yield func(int, string) bool) {
		for _, n := range numbers {
			if !yield(n, d.line(path.Join(table, strconv.Itoa(n)))) {
				return
			}
		}
	}
}
