package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
)

// Fabric writes the devices of a node, as data: the training fabric and the GPUs first, then the facts about the node.
func (u *UI) Fabric(n fabric.Node, f rail.Fabric) {
	if u.json {
		roles := f.NICs
		f.NICs = nil // roles has them
		u.Emit(true, "fabric", struct {
			fabric.Node
			Fabric rail.Fabric `json:"fabric"`
			Roles  []rail.NIC  `json:"roles"`
		}{n, f, roles})
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "host %s%s\n", cmp.Or(n.Hostname, "unknown"), prefixed("  ", n.Product))
	if n.HostErr != "" {
		fmt.Fprintf(&b, "the host name does not resolve: %s\n", n.HostErr)
	} else if len(n.HostAddrs) > 0 {
		fmt.Fprintf(&b, "the host name resolves to %s\n", strings.Join(n.HostAddrs, ", "))
	}
	b.WriteString("\n" + u.rails(f) + u.distances(n, f) + u.otherHCAs(f) + "\n" + u.interfaces(n, f))
	b.WriteString("\n" + gpus(n, f) + u.around(n) + loaded(n.Software) + limits(n.Limits))
	for _, x := range n.Unknown {
		fmt.Fprintf(&b, "unknown: %s: %s\n", x.What, x.Why)
	}
	u.Print(b.String())
}

// pageWidth is the width of a table where the output is not a terminal.
const pageWidth = 80

// rails returns the training fabric: its kind, and a line for each rail.
func (u *UI) rails(f rail.Fabric) string {
	var b strings.Builder
	b.WriteString(u.paragraph(fmt.Sprintf("fabric %s: %s", kindWord(f), f.Why)))
	if len(f.Rails) == 0 {
		return b.String()
	}
	gpus := map[string]rail.GPU{}
	for _, g := range f.GPUs {
		gpus[g.PCI] = g
	}
	t := plainTable("RAIL", "RATE", "LINK", "GID", "NETDEV", "NEAREST GPU")
	for _, r := range f.Rails {
		gid := "-"
		if r.GID >= 0 {
			gid = strconv.Itoa(r.GID)
		} else if r.GIDUnread {
			gid = "unknown"
		} else if r.HCA != "" && r.Link == "Ethernet" && f.Kind != rail.EFA {
			gid = "none"
		}
		t.AppendRow(table.Row{f.Name(r), speed(r.Rate), linkWord(r.Link, "", f.Kind), gid, r.Netdev, nearest(r, gpus)})
	}
	return b.String() + "\n" + t.Render() + "\n"
}

// paragraph returns text wrapped to the page, the following lines indented.
func (u *UI) paragraph(text string) string {
	return strings.Join(wrap(text, cmp.Or(u.outWidth, pageWidth)-2), "\n  ") + "\n"
}

// nearest returns the GPUs that have no nearer rail, and their distance: "0-3 SYS".
func nearest(r rail.Rail, gpus map[string]rail.GPU) string {
	var words []string
	for i := 0; i < len(r.GPUs); {
		first := gpus[r.GPUs[i]]
		last := first
		for i++; i < len(r.GPUs); i++ {
			next := gpus[r.GPUs[i]]
			if next.Distance != first.Distance || next.Index != last.Index+1 {
				break
			}
			last = next
		}
		word := strconv.Itoa(first.Index)
		if last.Index > first.Index {
			word += "-" + strconv.Itoa(last.Index)
		}
		words = append(words, word+" "+string(first.Distance))
	}
	return strings.Join(words, ", ")
}

// distances returns the distance of each rail to each GPU, if the table fits.
func (u *UI) distances(n fabric.Node, f rail.Fabric) string {
	const column = 6
	if len(f.GPUs) < 2 || len(f.Rails) < 2 || 14+column*len(f.GPUs) > cmp.Or(u.outWidth, pageWidth) {
		return ""
	}
	head := []any{"RAIL"}
	for _, g := range f.GPUs {
		head = append(head, fmt.Sprintf("GPU%d", g.Index))
	}
	t := plainTable(head...)
	known := false
	for _, r := range f.Rails {
		row := table.Row{f.Name(r)}
		for _, g := range f.GPUs {
			d := n.Distance(g.PCI, r.PCI)
			known = known || d != ""
			row = append(row, string(d))
		}
		t.AppendRow(row)
	}
	if !known {
		return ""
	}
	return "\n" + t.Render() + "\n"
}

// otherHCAs returns the HCAs that are not rails, and why.
func (u *UI) otherHCAs(f rail.Fabric) string {
	others := slices.DeleteFunc(slices.Clone(f.NICs), func(nic rail.NIC) bool {
		return !nic.HCA || nic.Role == rail.Compute
	})
	if len(others) == 0 {
		return ""
	}
	name, role := len("OTHER HCA"), len("ROLE")
	for _, nic := range others {
		name, role = max(name, len(nic.Name)), max(role, len(roleWord(nic)))
	}
	t := plainTable("OTHER HCA", "ROLE", "WHY")
	for _, nic := range others {
		why := wrap(visible(nic.Why), cmp.Or(u.outWidth, pageWidth)-name-role-4)
		t.AppendRow(table.Row{nic.Name, roleWord(nic), strings.Join(why, "\n")})
	}
	return "\n" + t.Render() + "\n"
}

// kindWord returns the kind of a fabric for people.
func kindWord(f rail.Fabric) string {
	if !f.Sure && f.Kind != rail.Unknown {
		return string(f.Kind) + " (a guess)"
	}
	return string(f.Kind)
}

// roleWord returns a role for people; a question mark marks a guess.
func roleWord(nic rail.NIC) string {
	word := string(nic.Role)
	if nic.Missing {
		word = "missing"
	}
	if !nic.Sure {
		word += "?"
	}
	return word
}

func (u *UI) interfaces(n fabric.Node, f rail.Fabric) string {
	role := map[string]rail.NIC{}
	for _, nic := range f.NICs {
		if !nic.HCA {
			role[nic.Name] = nic
		}
	}
	between := " "
	if u.outWidth > 0 {
		between = "\n" // a terminal would break an address
	}
	t := plainTable("INTERFACE", "KIND", "STATE", "MTU", "ROLE", "ADDRESS")
	for _, i := range n.Interfaces {
		var addrs []string
		for _, a := range i.Addrs {
			if len(i.Addrs) == 1 || !a.Addr().Is6() || !a.Addr().IsLinkLocalUnicast() {
				addrs = append(addrs, a.String())
			}
		}
		state := "down"
		if i.Up && i.Running {
			state = "up"
		} else if i.Up {
			state = "no carrier"
		}
		t.AppendRow(table.Row{i.Name, i.Kind, state, i.MTU, role[i.Name].Role, strings.Join(addrs, between)})
	}
	return t.Render() + "\n"
}

// speed returns a rate with its unit.
func speed(gbps float64) string {
	if gbps == 0 {
		return "?"
	}
	return strconv.FormatFloat(gbps, 'f', -1, 64) + " Gb/s"
}

// loaded returns the software that a start would load; "" where nothing is known.
func loaded(s software.Facts) string {
	var parts []string
	for _, p := range []struct{ name, version string }{
		{"Python", s.Python.Version}, {"torch", s.Torch.Version}, {"CUDA", s.CUDA}, {"ROCm", s.HIP},
		{"NCCL", s.NCCL.Version}, {"network plugin", s.Plugin.Version}, {"UCX", s.UCX.Version},
		{"libfabric", s.Libfabric.Version},
	} {
		if p.version != "" {
			parts = append(parts, p.name+" "+p.version)
		}
	}
	switch {
	case s.Err != "":
		return "software: " + s.Err + "\n"
	case len(parts) == 0:
		return ""
	}
	return fmt.Sprintf("software (%s): %s\n", cmp.Or(s.Python.Path, "the command"), strings.Join(parts, ", "))
}

func limits(l fabric.Limits) string {
	mem := "unlimited"
	if l.Memlock < 1<<60 {
		mem = finding.Size(l.Memlock)
	}
	files := "unknown"
	if l.NofileKnown {
		files = strconv.FormatUint(l.Nofile, 10)
	}
	shm := "not mounted"
	if l.Shm >= 0 {
		shm = finding.Size(uint64(l.Shm)) + " free of " + finding.Size(uint64(l.ShmSize))
	}
	return fmt.Sprintf("limits: memlock %s, open files %s, /dev/shm %s\n", mem, files, shm)
}
