package machine

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
)

// devices writes the interfaces and HCAs of a function; those with function "" are virtual.
func (w *writer) devices(b *block, dir, function string) {
	for _, d := range b.below {
		switch {
		case addrRE.MatchString(d.words[0]):
			continue
		case d.words[0] == "hca":
			w.hca(d, dir, function)
		case d.words[0] == "net":
			w.net(d, dir, function)
		case d.words[0] == "gpu":
			w.gpu(d, function)
		default:
			w.raw(d, "sys/"+dir)
		}
		w.done(d)
	}
}

// hca writes: hca NAME [type=] [fw=] [board=] [node=] [guid=] [system=] [uverbs=] [parent=].
func (w *writer) hca(b *block, dir, function string) {
	name := b.word(1)
	at := path.Join(dir, "infiniband", name)
	for key, file := range map[string]string{
		"type": "hca_type", "fw": "fw_ver", "board": "board_id",
		"guid": "node_guid", "system": "sys_image_guid", "parent": "parent",
	} {
		if v, ok := b.keys[key]; ok {
			delete(b.keys, key)
			w.file(b, "sys/"+at+"/"+file, v)
		}
	}
	types := map[string]string{"1": "1: CA", "4": "4: RNIC", "5": "5: usNIC", "6": "6: usNIC UDP", "7": "7: unspecified"}
	node := b.take("node", "1")
	if types[node] != "" {
		node = types[node]
	}
	w.file(b, "sys/"+at+"/node_type", node)
	if function != "" {
		w.link(b, "sys/"+at+"/device", "../../../"+function)
	}
	w.link(b, "sys/class/infiniband/"+name, "../../"+at)
	if number := b.take("uverbs", strconv.Itoa(w.uverbs)); number != "none" {
		verbs := path.Join(dir, "infiniband_verbs", "uverbs"+number)
		w.file(b, "sys/"+verbs+"/ibdev", name)
		w.link(b, "sys/class/infiniband_verbs/uverbs"+number, "../../"+verbs)
		w.uverbs++
	}
	for _, p := range b.below {
		if p.words[0] == "port" {
			w.port(p, at)
		} else {
			w.raw(p, "sys/"+at)
		}
		w.done(p)
	}
}

// port writes: port N STATE PHYS RATE LINK [lid=] [sm=] [pkeys=A,B] [slots=N].
func (w *writer) port(b *block, hca string) {
	at := "sys/" + path.Join(hca, "ports", b.word(1))
	states := map[string]string{"NOP": "0: NOP", "DOWN": "1: DOWN", "INIT": "2: INIT", "ARMED": "3: ARMED",
		"ACTIVE": "4: ACTIVE"}
	phys := map[string]string{"Sleep": "1: Sleep", "Polling": "2: Polling", "Disabled": "3: Disabled",
		"Training": "4: PortConfigurationTraining", "LinkUp": "5: LinkUp", "LinkErrorRecovery": "6: LinkErrorRecovery",
		"PhyTest": "7: Phy Test"} // phys_state_to_str in drivers/infiniband/core/sysfs.c
	for file, text := range map[string]string{
		"state": states[b.word(2)], "phys_state": phys[b.word(3)], "link_layer": b.word(5),
		"lid": b.take("lid", ""), "sm_lid": b.take("sm", ""),
	} {
		if text != "" {
			w.file(b, at+"/"+file, text)
		}
	}
	if rate := b.word(4); rate != "" && rate != "-" {
		w.file(b, at+"/rate", rate+" Gb/sec (4X)")
	}
	if pkeys := b.take("pkeys", ""); pkeys != "" {
		for i, k := range strings.Split(pkeys, ",") {
			w.file(b, fmt.Sprintf("%s/pkeys/%d", at, i), k)
		}
	}
	named := map[int]bool{}
	for _, g := range b.below {
		if g.words[0] != "gid" {
			w.raw(g, at)
			continue
		}
		named[w.gid(g, at)] = true
		w.done(g)
	}
	slots, err := strconv.Atoi(b.take("slots", "0"))
	if err != nil || slots > 1024 {
		w.fail(b, "slots is not a number up to 1024")
		return
	}
	for i := range slots {
		if named[i] {
			continue
		}
		w.file(b, fmt.Sprintf("%s/gids/%d", at, i), gidText(netip.IPv6Unspecified()))
		for _, attr := range []string{"types", "ndevs"} {
			w.check(b, w.m.files.fail(fmt.Sprintf("%s/gid_attrs/%s/%d", at, attr, i), errnos["EINVAL"]))
		}
	}
}

// gid writes: gid INDEX ADDRESS [v1|v2] [NETDEV].
func (w *writer) gid(b *block, port string) int {
	index, err := strconv.Atoi(b.word(1))
	w.check(b, err)
	addr, err := netip.ParseAddr(b.word(2))
	if err != nil {
		w.fail(b, "%w", err)
		return index
	}
	w.file(b, fmt.Sprintf("%s/gids/%d", port, index), gidText(addr))
	if t := map[string]string{"v1": "IB/RoCE v1", "v2": "RoCE v2"}[b.word(3)]; t != "" {
		w.file(b, fmt.Sprintf("%s/gid_attrs/types/%d", port, index), t)
	}
	if netdev := b.word(4); netdev != "" {
		w.file(b, fmt.Sprintf("%s/gid_attrs/ndevs/%d", port, index), netdev)
	}
	return index
}

// gidText writes eight groups of four digits, as the kernel does.
func gidText(a netip.Addr) string {
	b := a.As16()
	groups := make([]string, 8)
	for i := range groups {
		groups[i] = fmt.Sprintf("%02x%02x", b[2*i], b[2*i+1])
	}
	return strings.Join(groups, ":")
}

// Types and flags of an interface (linux/if_arp.h, linux/if.h).
const (
	typeEthernet, typeInfiniBand, typeLoopback = "1", "32", "772"
	flagsUp, flagsDown, flagsLoopback          = "0x1003", "0x1002", "0x9"
)

// net writes: net NAME [up|down|nocarrier] [kind=] [mtu=] [speed=] [addr=A,B]
// [master=] [port=] [type=] [ruled=none|A,B]. Files below it are in its directory, or in place of those that it writes.
// For lo, which every machine has: net lo addr=A,B, its further addresses.
func (w *writer) net(b *block, dir, function string) {
	name, state := b.word(1), b.word(2)
	at := path.Join(dir, "net", name)
	if name == "lo" && len(w.m.answers.Links) > 0 { // every machine has it
		lo := &w.m.answers.Links[0]
		lo.Addrs = append(lo.Addrs, w.addrs(b)...)
		return
	}
	kind := b.take("kind", "")
	f := fabric.Interface{Index: w.index, Name: name, Kind: kind, Master: b.take("master", ""), NUMA: -1,
		Up: state != "down", Running: state == "up" || state == ""}
	w.index++
	flags, typ, oper := flagsUp, typeEthernet, "up"
	switch {
	case kind == "loopback":
		flags, typ, oper = flagsLoopback, typeLoopback, "unknown"
	case kind == "ipoib":
		typ = typeInfiniBand
	}
	if f.Kind == "ipoib" || f.Kind == "physical" {
		f.Kind = "" // as rtnetlink has it
	}
	if !f.Up {
		flags = flagsDown
	}
	if !f.Running {
		oper = "down"
	}
	mtu := b.take("mtu", "1500")
	f.MTU, _ = strconv.Atoi(mtu)
	for file, text := range map[string]string{
		"ifindex": strconv.Itoa(f.Index), "iflink": strconv.Itoa(f.Index), "flags": flags, "type": b.take("type", typ),
		"operstate": oper, "mtu": mtu, "dev_port": b.take("port", "0"), "speed": b.take("speed", "-1"),
		"uevent": uevent(name, kind),
	} {
		if !slices.ContainsFunc(b.below, func(r *block) bool { return r.word(1) == file }) {
			w.file(b, "sys/"+at+"/"+file, text)
		}
	}
	if function != "" {
		w.link(b, "sys/"+at+"/device", "../../../"+function)
	}
	if kind == "bond" {
		w.file(b, "sys/"+at+"/bonding/mode", b.take("mode", "802.3ad 4"))
	}
	if f.Master != "" {
		w.link(b, "sys/"+at+"/master", relative(at, "devices/virtual/net/"+f.Master))
	}
	w.link(b, "sys/class/net/"+name, "../../"+at)
	for _, r := range b.below {
		w.raw(r, "sys/"+at)
		w.done(r)
	}
	f.Addrs = w.addrs(b)
	f.Ruled = w.ruled(b)
	w.m.answers.Links = append(w.m.answers.Links, f)
}

// addrs returns the addresses of an interface.
func (w *writer) addrs(b *block) (out []netip.Prefix) {
	for _, a := range strings.FieldsFunc(b.take("addr", ""), func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(a)
		w.check(b, err)
		out = append(out, p)
	}
	return out
}

// ruled returns the addresses with a rule by source: none, or a list; nil without the key: not known.
func (w *writer) ruled(b *block) []netip.Addr {
	list := b.take("ruled", "")
	if list == "" {
		return nil
	}
	out := []netip.Addr{}
	for a := range strings.SplitSeq(list, ",") {
		if a != "none" {
			addr, err := netip.ParseAddr(a)
			w.check(b, err)
			out = append(out, addr)
		}
	}
	return out
}

func uevent(name, kind string) string {
	if kind == "vlan" || kind == "vxlan" || kind == "bridge" || kind == "bond" || kind == "macvlan" {
		return "DEVTYPE=" + kind + "\nINTERFACE=" + name
	}
	return "INTERFACE=" + name
}

// gpu writes the NVIDIA driver's own files, which need no NVML: gpu MODEL [uuid=] [minor=].
func (w *writer) gpu(b *block, function string) {
	w.file(b, "proc/driver/nvidia/gpus/"+function+"/information", fmt.Sprintf(
		"Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\n"+
			"Device Minor: \t %s\nGPU Excluded:\t No",
		b.word(1), b.take("uuid", "GPU-????????-????-????-????-????????????"), function, b.take("minor", "0")))
}
