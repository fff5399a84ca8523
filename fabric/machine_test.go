package fabric

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"launch/internal/child"
)

func TestMain(m *testing.M) {
	if code, ok := child.Dispatch(Children()); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// machine is a small language for machines: the contents of a real /sys, /proc and
// /dev, links included.
type machine struct {
	sys, proc, dev fstest.MapFS
	addrs          map[string][]string // by interface
}

func newMachine(hostname string) machine {
	m := machine{sys: fstest.MapFS{}, proc: fstest.MapFS{}, dev: fstest.MapFS{}, addrs: map[string][]string{}}
	files(m.proc, "", map[string]string{
		"sys/kernel/hostname":              hostname,
		"sys/kernel/random/boot_id":        "6f9f1f0e-0000-4000-8000-000000000001",
		"sys/net/ipv4/ip_local_port_range": "32768\t60999",
		"self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max open files            1024                 524288               files     \n" +
			"Max locked memory         8388608              unlimited            bytes     \n",
	})
	m.netif("lo", "virtual/net", 1, map[string]string{"flags": "0x9", "type": "772", "mtu": "65536",
		"operstate": "unknown"}, "127.0.0.1/8", "::1/128")
	return m
}

// netif adds an interface whose real directory is devices/where/name.
func (m machine) netif(name, where string, index int, content map[string]string, addrs ...string) {
	at := path.Join("devices", where, name)
	all := map[string]string{
		"ifindex": strconv.Itoa(index), "iflink": strconv.Itoa(index), "type": "1", "flags": "0x1003",
		"operstate": "up", "mtu": "1500", "uevent": fmt.Sprintf("INTERFACE=%s\nIFINDEX=%d", name, index),
	}
	maps.Copy(all, content)
	files(m.sys, at, all)
	symlink(m.sys, "class/net/"+name, "../../"+at)
	m.addrs[name] = addrs
}

// pci adds a PCI function with a driver and NUMA node and returns its
// directory under devices.
func (m machine) pci(bdf, driver string, numa int) string {
	at := "pci0000:00/" + bdf
	files(m.sys, "devices/"+at, map[string]string{"numa_node": strconv.Itoa(numa), "uevent": "DRIVER=" + driver})
	symlink(m.sys, "devices/"+at+"/driver", "../../../bus/pci/drivers/"+driver) // dangles, as in recorded machines
	return at
}

// nic adds an Ethernet interface on a PCI function.
func (m machine) nic(pci, name string, index int, content map[string]string, addrs ...string) {
	m.netif(name, pci+"/net", index, content, addrs...)
	symlink(m.sys, "devices/"+pci+"/net/"+name+"/device", "../../../"+path.Base(pci))
}

// hca adds an RDMA device with one port on a PCI function.
func (m machine) hca(pci, name string, uverbs int, port map[string]string) {
	at := "devices/" + pci + "/infiniband/" + name
	files(m.sys, at, map[string]string{"node_type": "1: CA", "fw_ver": "28.39.1002"})
	files(m.sys, at+"/ports/1", port)
	symlink(m.sys, at+"/device", "../../../"+path.Base(pci))
	symlink(m.sys, "class/infiniband/"+name, "../../"+at)
	files(m.sys, fmt.Sprintf("class/infiniband_verbs/uverbs%d", uverbs), map[string]string{"ibdev": name})
}

// roots returns the machine as the input of Detect. sys may wrap m.sys.
func (m machine) roots(sys fs.FS) Roots {
	return Roots{
		Sys: sys, Proc: m.proc, Dev: m.dev,
		Links: func() ([]Interface, error) {
			list := new(Node).sysInterfaces(m.sys)
			for i := range list {
				list[i].Speed, list[i].Driver, list[i].NUMA = 0, "", -1 // only sysfs has these
				for _, a := range m.addrs[list[i].Name] {
					list[i].Addrs = append(list[i].Addrs, netip.MustParsePrefix(a))
				}
			}
			return list, nil
		},
		Shm: func() (int64, int64) { return 60 << 20, 64 << 20 },
	}
}

func files(m fstest.MapFS, at string, content map[string]string) {
	for name, s := range content {
		m[path.Join(at, name)] = &fstest.MapFile{Data: []byte(s + "\n"), Mode: 0o444}
	}
}

func symlink(m fstest.MapFS, name, target string) {
	m[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// failing is a /sys in which some files fail to read.
type failing struct {
	fstest.MapFS
	errs map[string]error // by the end of the path
}

func (f failing) Open(name string) (fs.File, error) {
	for suffix, err := range f.errs {
		if strings.HasSuffix(name, suffix) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return f.MapFS.Open(name)
}
