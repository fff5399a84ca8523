package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"

	"launch/fabric"
)

func (m *Machine) describe(text string) error {
	blocks, err := parseText(text)
	if err != nil {
		return err
	}
	w := &writer{m: m, memlock: "unlimited", index: 1}
	m.answers.Links = []fabric.Interface{}
	w.net(&block{words: []string{"net", "lo"}, keys: map[string]string{"kind": "loopback", "mtu": "65536",
		"addr": "127.0.0.1/8,::1/128"}}, "devices/virtual", "")
	for _, b := range blocks {
		if w.top(b); w.err != nil {
			return w.err
		}
	}
	w.limits()
	return w.err
}

// writer turns blocks into files and answers, until the first error.
type writer struct {
	m       *Machine
	err     error
	uverbs  int // number of the next device node
	groups  int // number of the next IOMMU group
	index   int // number of the next interface
	memlock string
}

func (w *writer) fail(b *block, format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("line %d: %s: %w", b.line, b.words[0], fmt.Errorf(format, a...))
	}
}

// check fails if there is an error.
func (w *writer) check(b *block, err error) {
	if err != nil {
		w.fail(b, "%w", err)
	}
}

// file writes a file as the kernel does, with a newline at its end.
func (w *writer) file(b *block, name, text string) { w.check(b, w.m.files.file(name, text+"\n")) }

func (w *writer) link(b *block, name, target string) { w.check(b, w.m.files.link(name, target)) }

// done reports keys that were not used.
func (w *writer) done(b *block) {
	for k := range b.keys {
		w.fail(b, "it has no %q", k)
	}
}

// The row that Detect reads, in the form of the kernel.
const limitsText = "Limit                     Soft Limit           Hard Limit           Units     \n" +
	"Max locked memory         %-20s %-20s bytes     \n"

// limits writes the files that every Linux has, unless the text has them.
func (w *writer) limits() {
	if w.m.answers.Shm == nil {
		w.m.answers.Shm = &[2]int64{ampleShm, ampleShm}
	}
	at := &block{words: []string{"defaults"}}
	for name, text := range map[string]string{
		"proc/sys/kernel/hostname":              "node-1",
		"proc/sys/kernel/random/boot_id":        "6f9f1f0e-0000-4000-8000-000000000001",
		"proc/sys/kernel/osrelease":             "5.15.0",
		"proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
		"proc/self/limits":                      fmt.Sprintf(limitsText, w.memlock, w.memlock),
	} {
		if _, err := w.m.files.Stat(name); err != nil {
			w.file(at, name, text)
		}
	}
}

// top writes a line of the first level.
func (w *writer) top(b *block) {
	defer w.done(b)
	rest := strings.Join(b.words[1:], " ")
	switch what := b.words[0]; {
	case what == "title":
	case what == "host":
		w.file(b, "proc/sys/kernel/hostname", rest)
	case what == "kernel":
		w.file(b, "proc/sys/kernel/osrelease", rest)
	case what == "dmi":
		for k, v := range b.keys {
			w.file(b, "sys/class/dmi/id/"+k, v)
			delete(b.keys, k)
		}
	case what == "nvidia":
		kind := "Kernel Module"
		if b.word(2) == "open" {
			kind = "Open Kernel Module for x86_64"
		}
		w.file(b, "proc/driver/nvidia/version", fmt.Sprintf("NVRM version: NVIDIA UNIX %s  %s  Release Build",
			kind, b.word(1)))
	case what == "module":
		w.file(b, "sys/module/"+b.word(1)+"/version", b.take("version", "1.0"))
	case what == "memlock":
		w.memlock = rest
	case what == "shm":
		w.shm(b)
	case what == "rdma":
		w.m.answers.RDMA = rest
	case what == "env":
		if w.m.answers.Environment == nil {
			w.m.answers.Environment = map[string]string{}
		}
		maps.Copy(w.m.answers.Environment, b.keys)
		clear(b.keys)
	case what == "route":
		src, err := netip.ParseAddr(b.word(2))
		w.check(b, err)
		w.m.answers.Route = &fabric.Route{Interface: b.word(1), Src: src}
	case isAnswer(what):
		w.check(b, json.Unmarshal([]byte(`{"`+what+`":`+rest+`}`), &w.m.answers))
	case what == "virtual":
		w.devices(b, "devices/virtual", "")
	case strings.HasPrefix(what, "pci"):
		w.functions(b, "devices/"+what, b.take("numa", "-1"))
	default:
		w.raw(b, "")
	}
}

// ampleShm is the size of /dev/shm on a machine with half a TiB: half its memory.
const ampleShm = 256 << 30

func (w *writer) shm(b *block) {
	n, err := strconv.ParseInt(b.word(1), 10, 64)
	if err != nil {
		w.fail(b, "%q is not a number of bytes", b.word(1))
	}
	w.m.answers.Shm = &[2]int64{n, n}
}

// raw writes a file, link, directory or error by its path below dir.
func (w *writer) raw(b *block, dir string) {
	name := path.Join(dir, b.word(1))
	switch b.words[0] {
	case "file":
		w.file(b, name, b.word(2))
	case "link":
		w.link(b, name, b.word(2))
	case "dir":
		w.check(b, w.m.files.dir(name))
	case "error":
		errno, err := errnoOf(b.word(2))
		if err == nil {
			err = w.m.files.fail(name, errno)
		}
		w.check(b, err)
	default:
		w.fail(b, "unknown keyword")
	}
}

var addrRE = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// functions writes the block of a root or bridge. dir is relative to /sys.
func (w *writer) functions(b *block, dir, numa string) {
	for _, f := range b.below {
		if addrRE.MatchString(f.words[0]) {
			w.function(f, path.Join(dir, f.words[0]), f.take("numa", numa))
			w.done(f)
		}
	}
	w.devices(b, dir, path.Base(dir))
}

// function writes one function: ADDR VENDOR:DEVICE CLASS [DRIVER], or ADDR bridge.
func (w *writer) function(b *block, dir, numa string) {
	addr, id, class, driver := b.words[0], b.word(1), b.word(2), b.word(3)
	if id == "bridge" || id == "" {
		id, class, driver = "1000:c030", "0604", "pcieport"
	}
	vendor, device, ok := strings.Cut(id, ":")
	if !ok || len(class) != 4 && len(class) != 6 {
		w.fail(b, "want VENDOR:DEVICE CLASS [DRIVER], or bridge")
	}
	class += strings.Repeat("0", max(0, 6-len(class)))
	at := "sys/" + dir
	uevent := fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SLOT_NAME=%s", strings.TrimLeft(class, "0"),
		strings.ToUpper(vendor), strings.ToUpper(device), addr)
	if driver != "" && driver != "-" {
		w.link(b, at+"/driver", relative(dir, "bus/pci/drivers/"+driver))
		uevent = "DRIVER=" + driver + "\n" + uevent
	}
	for name, text := range map[string]string{
		"class": "0x" + class, "vendor": "0x" + vendor, "device": "0x" + device, "numa_node": numa, "uevent": uevent,
	} {
		w.file(b, at+"/"+name, text)
	}
	for key, name := range map[string]string{
		"gen": "current_link_speed", "maxgen": "max_link_speed",
		"lanes": "current_link_width", "maxlanes": "max_link_width",
	} {
		if v := b.take(key, ""); v != "" {
			w.file(b, at+"/"+name, linkText(key, v))
		}
	}
	if state := b.take("acs", ""); state != "" {
		w.check(b, w.m.files.file(at+"/config", acsConfig(state)))
	}
	if pf := b.take("physfn", ""); pf != "" {
		w.link(b, at+"/physfn", "../"+pf)
	}
	if kind := b.take("iommu", ""); kind != "" {
		group := fmt.Sprintf("kernel/iommu_groups/%d", w.groups)
		w.groups++
		w.link(b, at+"/iommu_group", relative(dir, group))
		w.file(b, "sys/"+group+"/type", kind)
	}
	w.link(b, "sys/bus/pci/devices/"+addr, "../../../"+dir)
	w.functions(b, dir, numa)
}

// linkText returns a link's speed or width as sysfs has it.
func linkText(key, v string) string {
	speeds := map[string]string{"1": "2.5 GT/s PCIe", "2": "5.0 GT/s PCIe", "3": "8.0 GT/s PCIe", "4": "16.0 GT/s PCIe",
		"5": "32.0 GT/s PCIe", "6": "64.0 GT/s PCIe"}
	if s := speeds[v]; s != "" && strings.HasSuffix(key, "gen") {
		return s
	}
	return v
}
