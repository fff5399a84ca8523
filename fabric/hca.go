package fabric

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
)

// hcas lists /sys/class/infiniband, by name. It reads only what a decision
// needs and never counters/: on a restricted function each such read fails in
// the firmware and fills the kernel log.
func hcas(sys fs.FS, ifaces []Interface) ([]HCA, []Unknown) {
	class := dir{fsys: sys, name: "class/infiniband"}
	uverbs := uverbsNodes(sys)
	var out []HCA
	var unknown []Unknown
	for _, name := range class.names("") {
		d := dir{fsys: sys, name: path.Join("class/infiniband", name)}
		if info, err := fs.Stat(sys, d.name); err != nil || !info.IsDir() {
			d.blame("", cmp.Or(err, fs.ErrInvalid)) // a link of the class can dangle
		} else {
			h := readHCA(&d, name, ifaces)
			h.Uverbs = uverbs[name]
			out = append(out, h)
		}
		if d.bad != nil {
			unknown = append(unknown, *d.bad)
		}
	}
	if class.bad != nil {
		unknown = append(unknown, *class.bad)
	}
	return out, unknown
}

func readHCA(d *dir, name string, ifaces []Interface) HCA {
	h := HCA{
		Name:     name,
		Driver:   driver(d),
		NodeType: d.number("node_type", 0),
		Firmware: d.line("fw_ver"),
		NUMA:     d.number("device/numa_node", -1),
	}
	parent := d.line("parent") // Soft-RoCE stands on a netdev and has no device
	if h.Driver == "" && parent != "" {
		h.Driver = "rdma_rxe"
	}
	for _, entry := range d.names("ports") {
		n, err := strconv.Atoi(entry)
		if err != nil || n < 1 {
			continue
		}
		h.Ports = append(h.Ports, readPort(d, n, ifaces, parent))
	}
	slices.SortFunc(h.Ports, func(a, b Port) int { return cmp.Compare(a.Num, b.Num) })
	return h
}

func readPort(d *dir, n int, ifaces []Interface, parent string) Port {
	at := path.Join("ports", strconv.Itoa(n))
	p := Port{
		Num:       n,
		State:     d.number(path.Join(at, "state"), 0),
		PhysState: d.number(path.Join(at, "phys_state"), 0),
		LinkLayer: d.line(path.Join(at, "link_layer")),
	}
	if s := d.line(path.Join(at, "rate")); s != "" {
		rate, err := leadingRate(s)
		if err != nil {
			d.blame(path.Join(at, "rate"), err)
		}
		p.Rate = rate
	}
	p.Netdev, p.Elsewhere = netdev(d, p, ifaces)
	if p.Netdev == "" && here(ifaces, parent) {
		p.Netdev, p.Elsewhere = parent, ""
	}
	return p
}

// netdev is the interface of a port in this network namespace, or else the one
// it has elsewhere. The GID table names the device that holds the address (a
// bond, a VLAN), so it comes first, and it may also name devices of other
// namespaces. Else it is the netdev of the same PCI function, told apart by
// dev_port where there are two.
func netdev(d *dir, p Port, ifaces []Interface) (name, elsewhere string) {
	if p.LinkLayer != "InfiniBand" { // InfiniBand GIDs have no netdev, and a full table is 128 failing reads
		ndevs := path.Join("ports", strconv.Itoa(p.Num), "gid_attrs/ndevs")
		for _, entry := range byNumber(d.names(ndevs)) {
			name := d.line(path.Join(ndevs, entry))
			if here(ifaces, name) {
				return name, ""
			}
			elsewhere = cmp.Or(elsewhere, name)
		}
	}
	nets := slices.DeleteFunc(d.names("device/net"), func(name string) bool { return !here(ifaces, name) })
	if len(nets) == 1 {
		return nets[0], ""
	}
	for _, name := range nets {
		if d.number(path.Join("device/net", name, "dev_port"), -1) == p.Num-1 {
			return name, ""
		}
	}
	return "", elsewhere
}

func here(ifaces []Interface, name string) bool {
	return name != "" && slices.ContainsFunc(ifaces, func(f Interface) bool { return f.Name == name })
}

func byNumber(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // no leading zeros
	})
	return names
}

// uverbsNodes maps the name of an HCA to its device node: their numbers differ
// in general.
func uverbsNodes(sys fs.FS) map[string]string {
	class := dir{fsys: sys, name: "class/infiniband_verbs"}
	nodes := map[string]string{}
	for _, name := range class.names("") {
		if dev := class.line(path.Join(name, "ibdev")); dev != "" {
			nodes[dev] = "/dev/infiniband/" + name
		}
	}
	return nodes
}
