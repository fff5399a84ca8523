package rail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/machine"
)

func (m *maker) size() int {
	return max(1, map[string]int{"pair": 2, "quad": 4, "vm": 1 << 10}[m.layout])
}

func (m *maker) numa(group int) int {
	groups := max(1, (len(m.gpus)+m.size()-1)/m.size())
	return 2 * group / max(2, groups)
}

func (m *maker) gpuAt(i int) {
	g := i / m.size()
	c := cards[m.gpus[0]]
	s := m.place(fmt.Sprint("gpu ", i), fmt.Sprint(g), m.numa(g))
	line := fmt.Sprintf("@.0 %s %s %s gen=5 maxgen=5 lanes=16 maxlanes=16", c[0], c[1], c[2])
	m.slots[s].lines = append(m.slots[s].lines, line)
	if c[2] == "nvidia" {
		m.slots[s].lines = append(m.slots[s].lines, fmt.Sprintf(" gpu %q uuid=GPU-%d minor=%d", c[3], i, i))
	}
}

// hca adds an RDMA device: hca NAMES LINK RATE CARD and keys.
func (m *maker) hca(name, link, rate, card string, k map[string]string) {
	c := cards[card]
	at := k["slot"]
	if at == "" {
		at = "hca " + name
	}
	path, numa := "", 0
	if near, ok := k["near"]; ok {
		g, _ := strconv.Atoi(near)
		path, numa = near, m.numa(g)
	} else if k["numa"] != "" {
		numa, _ = strconv.Atoi(k["numa"])
	}
	if pf := k["pf"]; pf != "" {
		at = m.pci[pf]
	}
	s := m.place(at, path, numa)
	m.pci[name] = at
	fn := 0
	for _, l := range m.slots[s].lines {
		if l[0] == '@' {
			fn++
		}
	}
	if m.owner[s] == "" {
		m.owner[s] = fmt.Sprintf("b83f:d203:0000:%04x", 0x1000+16*m.count)
	}
	m.count++
	flags := strings.Split(k["is"], "+")
	is := func(f string) bool { return slices.Contains(flags, f) }
	pcie := "gen=5 maxgen=5 lanes=16 maxlanes=16"
	if k["pcie"] != "" {
		var gen, lanes string
		gen, lanes, _ = strings.Cut(k["pcie"], "x")
		pcie = fmt.Sprintf("gen=%s maxgen=%s lanes=%s maxlanes=%s", gen, gen, lanes, lanes)
	}
	line := fmt.Sprintf("@.%d %s %s %s %s", fn, c[0], c[1], c[2], pcie)
	if is("bare") || is("guest") { // no driver makes a device of it
		driver := map[bool]string{true: "vfio-pci"}[is("guest")]
		m.slots[s].lines = append(m.slots[s].lines, fmt.Sprintf("@.%d %s %s %s %s", fn, c[0], c[1], driver, pcie))
		return
	}
	if pf := k["pf"]; pf != "" {
		line += " physfn=@." + map[bool]string{true: k["fn"], false: "0"}[k["fn"] != ""]
	}
	add := func(format string, a ...any) { m.slots[s].lines = append(m.slots[s].lines, fmt.Sprintf(format, a...)) }
	add("%s", line)
	head := fmt.Sprintf(" hca %s guid=%s", name, fmt.Sprintf("b83f:d203:%04x:0001", m.count))
	if c[3] != "" {
		head += " type=" + c[3] + " board=" + card
	}
	switch {
	case k["system"] != "": // a card with several PCIe links, or one GUID for each port
		head += " system=b83f:d203:0000:" + k["system"]
	case !is("nosystem"):
		head += " system=" + m.owner[s]
	}
	if is("closed") {
		head += " uverbs=none"
	}
	if k["node"] != "" {
		head += " node=" + k["node"]
	}
	add("%s", head)
	state := "ACTIVE LinkUp"
	if is("down") {
		state = "DOWN Disabled"
	}
	for _, port := range strings.Split(map[bool]string{true: k["ports"], false: "1"}[k["ports"] != ""], "+") {
		if link == "ib" {
			sm := k["sm"]
			if sm == "" {
				sm = "1"
			}
			if many := strings.Split(sm, "+"); len(many) > 1 {
				n, _ := strconv.Atoi(port)
				sm = many[n-1]
			}
			keys := "0xffff"
			if k["pkeys"] != "" {
				keys = k["pkeys"]
			}
			add("  port %s %s %s InfiniBand lid=0x%x sm=0x%s pkeys=%s", port, state, rate, 16+m.count, sm, keys)
			prefix := k["prefix"]
			if prefix == "" {
				prefix = "fe80:0:0:0"
			}
			add("   gid 0 %s:b83f:d203:%x:1 v1", prefix, m.count)
		} else {
			m.ethernet(add, port, state, rate, k, is)
		}
	}
	if net := k["net"]; net != "" && !is("away") && !is("bond") {
		kind, updown := "", ""
		if link == "ib" {
			kind = " kind=ipoib"
		}
		if is("down") {
			updown = " nocarrier"
		}
		speed, _ := strconv.ParseFloat(rate, 64)
		add(" net %s%s%s mtu=4200 speed=%d%s", net, updown, kind, int(speed*1000), addrKey(k["addr"]))
		m.addrs[net] = k["addr"]
	}
	if is("bond") {
		speed, _ := strconv.ParseFloat(rate, 64)
		for i := range 2 {
			add(" net %sp%d mtu=9000 speed=%d master=%s port=%d", k["net"], i, int(speed*500), k["net"], i)
		}
		m.plain = append(m.plain, fmt.Sprintf(" net %s kind=bond mtu=9000 speed=%d%s", k["net"], int(speed*1000),
			addrKey(k["addr"])))
		m.addrs[k["net"]] = k["addr"]
	}
}

func addrKey(addr string) string {
	if addr == "" {
		return ""
	}
	return " addr=" + addr
}

// ethernet adds a RoCE port with its GIDs, as the kernel makes them from the addresses.
func (m *maker) ethernet(add func(string, ...any), port, state, rate string, k map[string]string,
	is func(string) bool) {
	slots := map[bool]string{false: " slots=8"}[is("unread")]
	add("  port %s %s %s Ethernet pkeys=0xffff%s", port, state, rate, slots)
	if is("down") || is("nogid") || is("unread") {
		return
	}
	addrs := []string{fmt.Sprintf("fe80::ba3f:d2ff:fe%02x:%x/64", m.count, m.count)}
	from := 0
	if is("late") { // the host's own entries are before it, and not readable here
		addrs, from = nil, 4
	}
	for _, list := range []string{k["addr"], k["gidaddr"]} {
		addrs = append(addrs, strings.FieldsFunc(list, func(r rune) bool { return r == ',' })...)
	}
	versions := []string{"v1", "v2"}
	if is("v1only") {
		versions = versions[:1]
	}
	if is("v2only") {
		versions = versions[1:]
	}
	for _, a := range addrs {
		a, _, _ = strings.Cut(a, "/")
		if strings.Contains(a, ".") {
			a = "::ffff:" + a
		}
		for _, v := range versions {
			add("   gid %d %s %s %s", from, a, v, k["net"])
			from++
		}
	}
}

func (m *maker) net(name string, k map[string]string) {
	speed := map[bool]string{true: k["speed"], false: "10000"}[k["speed"] != ""]
	line := fmt.Sprintf(" net %s mtu=1500 speed=%s%s", name, speed, addrKey(k["addr"]))
	switch {
	case name == "lo":
		line = " net lo" + addrKey(k["addr"])
	case k["is"] == "down":
		line = fmt.Sprintf(" net %s nocarrier mtu=1500", name)
	}
	if k["kind"] != "" {
		line += " kind=" + k["kind"]
	}
	m.addrs[name] = k["addr"]
	if k["card"] == "" {
		m.plain = append(m.plain, line)
		return
	}
	c := cards[k["card"]]
	path := k["near"]
	s := m.place("net "+name, path, 0)
	m.slots[s].lines = append(m.slots[s].lines, fmt.Sprintf("@.0 %s %s %s", c[0], c[1], c[2]), line)
}

// done writes the buses: each group of GPUs is below one switch, in layout "flat" each below the root.
func (m *maker) done() made {
	out := []string{"machine/1", "host node-1", "nvidia 570.124.06 open"}
	for _, h := range m.head {
		if before, dev, ok := strings.Cut(h, " @"); ok {
			addr, _, _ := strings.Cut(m.addrs[dev], "/")
			h = before + " " + addr
		}
		out = append(out, h)
	}
	byRoot := map[string][]slot{}
	var order []string
	for i, s := range m.slots {
		root := "g" + s.path
		if s.path == "" {
			root = fmt.Sprint("s", i)
		}
		if byRoot[root] == nil {
			order = append(order, root)
		}
		byRoot[root] = append(byRoot[root], s)
	}
	for n, root := range order {
		list := byRoot[root]
		out = append(out, fmt.Sprintf("pci%04x:00 numa=%d", n+1, list[0].numa))
		indent, bus := "  ", 1
		bridge := func(dev string) {
			out = append(out, fmt.Sprintf("%s%04x:%s.0 bridge", indent, n+1, dev))
			indent += "  "
		}
		if root[0] == 'g' && m.layout != "flat" && m.layout != "vm" {
			bridge("00:01")
			bridge("01:00")
			bus = 2
		}
		base := indent
		for i, s := range list {
			indent = base
			if m.layout != "vm" {
				bridge(fmt.Sprintf("%02x:%02x", bus, i+8))
			}
			addr := fmt.Sprintf("%04x:%02x:00", n+1, bus+8+i)
			for _, l := range s.lines {
				out = append(out, indent+strings.ReplaceAll(atFunction(l, addr), "\n", ""))
			}
		}
	}
	if len(m.plain) > 0 {
		out = append(out, "virtual")
		for _, p := range m.plain {
			out = append(out, " "+p)
		}
	}
	m.text = strings.Join(out, "\n") + "\n"
	return m.made
}

// atFunction puts the address of a slot for each @.
func atFunction(line, addr string) string {
	if strings.HasPrefix(line, "@") {
		return strings.ReplaceAll(line, "@", addr)
	}
	return " " + line
}

func (m made) node(t *testing.T) fabric.Node {
	t.Helper()
	parsed, err := machine.Read([]byte(m.text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", m.name, err, m.text)
	}
	return parsed.Detect(t.Context())
}
