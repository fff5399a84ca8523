package fabric

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// System is the configuration of the operating system, beyond its devices. It is one answer of
// Roots, since most of its files are too long or too private to be recorded as they are.
type System struct {
	Resolver Resolver    `json:"resolver,omitzero"`
	Hosts    []HostsLine `json:"hosts,omitempty"` // lines of /etc/hosts with this node's name or one of Options.Names
	Cgroup   Cgroup      `json:"cgroup,omitzero"`
	Procs    uint64      `json:"procs,omitempty"`    // soft RLIMIT_NPROC of this user; math.MaxUint64 unlimited, 0 unknown
	Reserved [][2]int    `json:"reserved,omitempty"` // net.ipv4.ip_local_reserved_ports, both ends inclusive

	// Image is a digest of /etc/machine-id, which must stay on its machine; clones share it. "": none.
	Image string `json:"image,omitempty"`

	// Capabilities that lift a limit, in the first user namespace: the kernel uses capable().
	IPCLock   bool `json:"ipc_lock,omitempty"`   // CAP_IPC_LOCK: memory may be locked beyond the limit (ib_umem_get)
	FreeProcs bool `json:"free_procs,omitempty"` // RLIMIT_NPROC does not apply: root, CAP_SYS_RESOURCE or CAP_SYS_ADMIN
}

// Resolver is resolv.conf and nsswitch.conf as glibc reads them.
type Resolver struct {
	Servers  []netip.Addr `json:"servers,omitempty"`  // at most three (MAXNS), in their order
	Search   []string     `json:"search,omitempty"`   // without trailing dots
	Ndots    int          `json:"ndots"`              // a name with fewer dots is tried with the search list first
	Timeout  int          `json:"timeout"`            // seconds per server, the first time
	Attempts int          `json:"attempts"`           // rounds over all servers
	Rotate   bool         `json:"rotate,omitempty"`   // each query starts with another server
	Services []string     `json:"services,omitempty"` // services for hosts in nsswitch.conf, in order: files, dns, …
}

// HostsLine is one line of /etc/hosts.
type HostsLine struct {
	Addr  netip.Addr `json:"addr"`
	Names []string   `json:"names"`
}

// Cgroup is the lowest limits of this process' group and the visible groups above it; 0: unlimited.
type Cgroup struct {
	Memory   int64 `json:"memory,omitempty"`    // bytes
	Held     int64 `json:"held,omitempty"`      // of Memory: in files of /dev/shm and other memory that no swap can take
	Stalls   bool  `json:"stalls,omitempty"`    // at a limit of memory nothing is killed, and its processes wait
	Pids     int64 `json:"pids,omitempty"`      // processes and threads
	PidsUsed int64 `json:"pids_used,omitempty"` // current number in the group with that limit

	CPUs float64 `json:"cpus,omitempty"` // processor time in a second of time (quota)
}

// maxText limits the size of a text file: a hosts file of a thousand nodes is tens of kilobytes.
const maxText = 1 << 20

// readText reads a whole text file, "" if there is none.
func readText(fsys fs.FS, name string) string {
	f, err := fsys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return ""
	}
	return string(text)
}

// system reads a machine's System. names are looked for in /etc/hosts.
func system(proc, etc, sys fs.FS, names []string) System {
	s := System{
		Resolver: parseResolver(readText(etc, "resolv.conf"), strings.TrimSpace(readText(proc, "sys/kernel/hostname"))),
		Hosts:    parseHosts(readText(etc, "hosts"), names), Cgroup: cgroup(proc, sys),
		Reserved: parsePorts(readText(proc, "sys/net/ipv4/ip_local_reserved_ports")),
	}
	s.Procs, _ = softLimit(readText(proc, "self/limits"), "Max processes") // 0: unknown
	s.Image = imageMark(readText(etc, "machine-id"))
	s.Resolver.Services = parseServices(readText(etc, "nsswitch.conf"))
	if firstNamespace(readText(proc, "self/uid_map")) {
		uid, caps := parseStatus(readText(proc, "self/status"))
		s.IPCLock = caps&(1<<capIPCLock) != 0
		s.FreeProcs = uid == 0 || caps&(1<<capSysResource|1<<capSysAdmin) != 0
	}
	return s
}

// imageMark returns a digest of a machine id of 128 bits; "" for anything else.
func imageMark(text string) string {
	id := strings.TrimSpace(text)
	if b, err := hex.DecodeString(id); err != nil || len(b) != 16 {
		return ""
	}
	sum := sha256.Sum256([]byte("launch " + id))
	return hex.EncodeToString(sum[:4])
}

// From include/uapi/linux/capability.h.
const (
	capIPCLock     = 14
	capSysAdmin    = 21
	capSysResource = 24
)

// firstNamespace reports whether uid_map is the one of the first user namespace.
func firstNamespace(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == strconv.FormatUint(math.MaxUint32, 10)
}

// parseStatus reads the real user and the effective capabilities; -1 and 0 where they are missing.
func parseStatus(status string) (uid int, caps uint64) {
	uid = -1
	for line := range strings.Lines(status) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "Uid:":
			if n, err := strconv.ParseUint(f[1], 10, 32); err == nil {
				uid = int(n)
			}
		case "CapEff:":
			caps, _ = strconv.ParseUint(f[1], 16, 64) // 0 if it is not a number: no capability
		}
	}
	return uid, caps
}

// parsePorts reads "8080,29400-29500".
func parsePorts(text string) [][2]int {
	var out [][2]int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, errA := strconv.ParseUint(lo, 10, 16)
		b, errB := strconv.ParseUint(hi, 10, 16)
		if errA == nil && errB == nil && a <= b {
			out = append(out, [2]int{int(a), int(b)})
		}
	}
	return out
}

// container identifies the container runtime. Kubernetes is first: it has its runtime's marks too.
func container(r Roots, n *Node) Container {
	env := func(string) string { return "" }
	if r.Env != nil {
		env = r.Env
	}
	proc := dir{fsys: r.Proc}
	cgroup := proc.line("self/cgroup")
	there := func(name string) bool {
		_, err := fs.Stat(r.Root, name)
		return err == nil
	}
	var c Container
	switch {
	case env("KUBERNETES_SERVICE_HOST") != "", strings.Contains(cgroup, "kubepods"),
		there("var/run/secrets/kubernetes.io/serviceaccount"):
		c.Kind = "kubernetes"
	case env("APPTAINER_CONTAINER") != "", env("SINGULARITY_CONTAINER") != "", there(".singularity.d"):
		c.Kind = "apptainer"
	case there("run/.containerenv"), env("container") == "podman", strings.Contains(cgroup, "libpod"):
		c.Kind = "podman"
	case there(".dockerenv"), env("container") == "docker", strings.Contains(cgroup, "/docker"):
		c.Kind = "docker"
	case strings.Contains(cgroup, "/lxc"), env("container") == "lxc":
		c.Kind = "lxc"
	case env("container") != "": // systemd-nspawn and others set it
		c.Kind = env("container")
	}
	c.RDMA = rdmaMode(r, n)
	n.note(proc.bad)
	return c
}

// rdmaMode returns the mode that "rdma system show" prints. It asks only if there is an RDMA device,
// since the socket alone makes the kernel look for a module. Without an answer by netlink, the module's
// parameter has the same value (ib_devices_shared_netns in drivers/infiniband/core/device.c).
func rdmaMode(r Roots, n *Node) string {
	if r.RDMA != nil && len(n.HCAs) > 0 {
		if mode, err := r.RDMA(); err == nil && (mode == "shared" || mode == "exclusive") {
			return mode
		}
	}
	sys := dir{fsys: r.Sys}
	defer func() { n.note(sys.bad) }()
	switch sys.line("module/ib_core/parameters/netns_mode") {
	case "Y":
		return "shared"
	case "N":
		return "exclusive"
	}
	return ""
}

// cloud identifies the provider by the marks of cloud-init's ds-identify and of providers' documents; a
// Hyper-V VM is Azure only by its asset tag. Where DMI is hidden, the network cards identify some.
func cloud(dmi *dir, bus []PCI) Cloud {
	vendor, product := dmi.line("sys_vendor"), dmi.line("product_name")
	tag, chassis := dmi.line("chassis_asset_tag"), dmi.line("chassis_vendor")
	var c Cloud
	switch {
	case vendor == "Amazon EC2":
		c = Cloud{Provider: "aws", SKU: product}
	case strings.HasPrefix(product, "Google Compute Engine"):
		c.Provider = "gcp"
	case tag == "7783-7084-3265-9085-8269-3286-77":
		c.Provider = "azure"
	case tag == "OracleCloud.com":
		c.Provider = "oci"
	case vendor == "Alibaba Cloud":
		c.Provider = "alibaba"
	case tag == "ibmcloud", strings.HasPrefix(chassis, "IBM:Cloud Compute Server"),
		strings.HasPrefix(vendor, "IBM:Cloud Compute Server"):
		c.Provider = "ibm"
	}
	for _, p := range bus {
		if c.Provider == "" {
			c.Provider = map[string]string{VendorAmazon: "aws", vendorGoogle: "gcp"}[p.Vendor]
		}
	}
	c.Virtual = virtual(c, vendor, product)
	return c
}

// virtual recognizes a hypervisor by the names in its firmware (the table of systemd's
// detect-virt). The CPU's own flag would be surer, but on many kernels reading /proc/cpuinfo stops
// every CPU for milliseconds. Metal instances of EC2 have the same vendor as its VMs.
func virtual(c Cloud, vendor, product string) bool {
	switch {
	case c.Provider == "aws" && c.SKU != "":
		return !strings.Contains(c.SKU, ".metal")
	case c.Provider == "azure", c.Provider == "gcp":
		return true
	}
	for _, mark := range []string{"QEMU", "KVM", "KubeVirt", "OpenStack", "VMware", "VirtualBox", "innotek", "Xen",
		"Bochs", "Parallels", "BHYVE", "Alibaba Cloud ECS"} {
		if strings.Contains(vendor, mark) || strings.Contains(product, mark) {
			return true
		}
	}
	return product == "Virtual Machine" // Hyper-V
}
