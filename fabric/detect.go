package fabric

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"launch/fabric/gpu"
	"launch/fabric/software"
	"launch/fabric/verbs"
)

// resolveBudget limits the lookup of this node's own host name; glibc waits 5 s for each server.
const resolveBudget = 2 * time.Second

// Options are the inputs of Detect. The zero value asks nothing that can take time.
type Options struct {
	Names   []string                              // host names of the job, to look for in /etc/hosts
	Resolve bool                                  // resolve this node's own host name (2 s at most)
	GPU     func(ctx context.Context) gpu.Facts   // AskGPU on a live machine; nil: not queried
	Verbs   func(ctx context.Context) verbs.Facts // AskVerbs on a live machine; nil: not queried

	// Software is software.Detect for the job's command; nil: not queried.
	Software func(ctx context.Context) software.Facts

	// The soft limit of open files that this process inherited, before the Go runtime raised it.
	Nofile      uint64
	NofileKnown bool
}

// Live returns the roots of this machine.
func Live() Roots {
	r := Roots{
		// DirFS, not os.Root: the kernel resolves the links of /sys in one call, os.Root in many.
		Sys: os.DirFS("/sys"), Proc: os.DirFS("/proc"), Etc: os.DirFS("/etc"), Dev: os.DirFS("/dev"),
		Root: os.DirFS("/"), Links: links, Shm: shm, Denied: denied, Route: defaultRoute,
		Usable: usable, RDMA: netlink.RdmaSystemGetNetnsMode, Env: os.Getenv, Hostname: kernelName,
	}
	r.System = func(names []string) System { return system(r.Proc, r.Etc, r.Sys, names) }
	return r
}

// usable asks the kernel, which also asks the device control group (inode_permission), and does not open the device.
func usable(node string) bool { return unix.Access("/dev/"+node, unix.R_OK|unix.W_OK) == nil }

// kernelName asks the kernel for this node's name, where /proc does not show it (uname(2)).
func kernelName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Nodename[:])
}

// Detect reads the facts of one node. What could not be read is an Unknown, one per device or file.
func Detect(ctx context.Context, roots Roots, opt Options) Node {
	roots = roots.filled()
	var n Node
	asIs := func(s string) (string, error) { return s, nil }
	if n.Hostname = required(&n, roots.Proc, "sys/kernel/hostname", asIs, ""); n.Hostname == "" && roots.Hostname != nil {
		n.Hostname = roots.Hostname()
	}
	n.BootID = required(&n, roots.Proc, "sys/kernel/random/boot_id", asIs, "")
	n.Ephemeral = required(&n, roots.Proc, "sys/net/ipv4/ip_local_port_range", parsePortRange, [2]int{})
	for name, to := range map[string]*int{"count": &n.Tracked[0], "max": &n.Tracked[1],
		"tcp_timeout_established": &n.Forgets} { // a kernel that tracks no connections has no such files
		*to = trackedOf(roots.Proc, name)
	}
	n.Retries, _ = strconv.Atoi(strings.TrimSpace(readText(roots.Proc, "sys/net/ipv4/tcp_retries2")))
	n.Limits = Limits{Nofile: opt.Nofile, NofileKnown: opt.NofileKnown, Shm: -1}
	limits := readText(roots.Proc, "self/limits")
	n.Limits.NofileHard = hardLimit(limits, "Max open files")
	n.Limits.CPUTime, n.Limits.FileSize = finite(limits, "Max cpu time"), finite(limits, "Max file size")
	n.Limits.Data, n.Limits.Addresses = finite(limits, "Max data size"), finite(limits, "Max address space")
	n.Limits.Memlock = required(&n, roots.Proc, "self/limits", parseMemlock, math.MaxUint64)
	if roots.Shm != nil {
		n.Limits.Shm, n.Limits.ShmSize = roots.Shm()
	}
	n.Limits.ShmDenied = roots.Denied != nil && n.Limits.Shm >= 0 && roots.Denied("/dev/shm")
	if roots.System != nil {
		n.System = roots.System(append(slices.Clone(opt.Names), n.Hostname))
	}

	n.readInterfaces(roots)
	all := confIn(roots.Proc, "rp_filter", "all")
	for i := range n.Interfaces {
		n.Interfaces[i].Strict = max(all, confIn(roots.Proc, "rp_filter", n.Interfaces[i].Name)) == 1
	}
	n.readPCI(ctx, roots.Sys)
	n.readHCAs(ctx, roots)
	n.readCards(roots.Sys, roots.Proc)
	n.around(roots)
	if opt.Resolve {
		n.HostAddrs, n.HostErr = resolve(ctx, n.Hostname)
	}
	if opt.GPU != nil {
		n.GPUs = opt.GPU(ctx)
	}
	if opt.Verbs != nil {
		n.Verbs = opt.Verbs(ctx)
	}
	if opt.Software != nil {
		n.Software = opt.Software(ctx)
	}
	return n
}

// around reads the surroundings: the cloud, the container, the kernel's features.
func (n *Node) around(roots Roots) {
	dmi := dir{fsys: roots.Sys, name: "class/dmi/id"}
	proc := dir{fsys: roots.Proc}
	n.Product = product(dmi.line("sys_vendor"), dmi.line("product_name"))
	n.Cloud = cloud(&dmi, n.PCI)
	n.Kernel = proc.line("sys/kernel/osrelease")
	n.Container = container(roots, n)
	n.GPUDirect = gpuDirect(roots, n.Kernel)
	n.note(dmi.bad)
	n.note(proc.bad)
	if roots.Route != nil {
		if r, err := roots.Route(); err == nil {
			n.Route = r
		}
	}
}

// product returns the maker and the name of a machine. Some names repeat the maker.
func product(vendor, name string) string {
	if strings.HasPrefix(strings.ToLower(name), strings.ToLower(vendor)) {
		return name
	}
	return strings.TrimSpace(vendor + " " + name)
}

// errMissing is the error for a file that every Linux has.
var errMissing = errors.New("not there, or empty")

func (n *Node) note(u *Unknown) {
	if u != nil {
		n.Unknown = append(n.Unknown, *u)
	}
}

// required returns the value of a file that every Linux has, or missing after adding an Unknown.
func required[T any](n *Node, proc fs.FS, file string, parse func(string) (T, error), missing T) T {
	d := dir{fsys: proc}
	text := d.line(file)
	v, err := parse(text)
	if text == "" {
		err = errMissing
	}
	if err != nil {
		d.blame(file, err)
		v = missing
	}
	n.note(d.bad)
	return v
}

// resolve returns the addresses of a host name, as getaddrinfo orders them. Gloo takes the first.
func resolve(ctx context.Context, host string) ([]string, string) {
	if host == "" {
		return nil, "this node has no host name"
	}
	ctx, cancel := context.WithTimeout(ctx, resolveBudget)
	defer cancel()
	addrs, err := (&net.Resolver{PreferGo: false}).LookupHost(ctx, host)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "no answer within " + resolveBudget.String()
		}
		if e, ok := errors.AsType[*net.DNSError](err); ok {
			return nil, e.Err
		}
		return nil, err.Error()
	}
	return addrs, ""
}
