package ui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/rendezvous"
)

// Fabric writes what a node has, as data.
func (u *UI) Fabric(n fabric.Node, roles []rail.NIC) {
	if u.json {
		u.Emit(true, "fabric", struct {
			fabric.Node
			Roles []rail.NIC `json:"roles"`
		}{n, roles})
		return
	}
	role := map[string]rail.NIC{}
	for _, r := range roles {
		role[r.Name] = r
	}
	var b strings.Builder
	fmt.Fprintf(&b, "host %s%s\n", n.Hostname, prefixed("  ", n.Product))
	if n.HostErr != "" {
		fmt.Fprintf(&b, "its name does not resolve here: %s\n", n.HostErr)
	} else if len(n.HostAddrs) > 0 {
		fmt.Fprintf(&b, "its name resolves to %s\n", strings.Join(n.HostAddrs, ", "))
	}
	between := " "
	if u.outWidth > 0 {
		between = "\n" // a terminal would break one in the middle
	}
	t := plainTable("INTERFACE", "KIND", "STATE", "MTU", "ROLE", "ADDRESS")
	for _, i := range n.Interfaces {
		var addrs []string
		for _, a := range i.Addrs {
			addrs = append(addrs, a.String())
		}
		state := "down"
		if i.Up && i.Running {
			state = "up"
		} else if i.Up {
			state = "no carrier"
		}
		t.AppendRow(table.Row{i.Name, i.Kind, state, i.MTU, role[i.Name].Role, strings.Join(addrs, between)})
	}
	b.WriteString("\n" + t.Render() + "\n")
	if len(n.HCAs) > 0 {
		t = plainTable("HCA", "PORT", "STATE", "LINK", "GB/S", "NETDEV", "ROLE", "DRIVER")
		for _, h := range n.HCAs {
			for _, p := range h.Ports {
				state := "not active"
				if p.Active() {
					state = "active"
				}
				t.AppendRow(table.Row{h.Name, p.Num, state, p.LinkLayer, strconv.FormatFloat(p.Rate, 'f', -1, 64), p.Netdev, role[h.Name].Role, h.Driver})
			}
		}
		b.WriteString("\n" + t.Render() + "\n")
	}
	b.WriteString("\n" + gpus(n) + loaded(n.Software) + limits(n.Limits))
	for _, x := range n.Unknown {
		fmt.Fprintf(&b, "unknown: %s: %s\n", x.What, x.Why)
	}
	u.Print(b.String())
}

func gpus(n fabric.Node) string {
	g := n.GPUs
	switch {
	case g.Err != "":
		return "the NVIDIA GPUs could not be asked: " + g.Err + "\n"
	case !g.Present:
		return "no NVIDIA GPU here: " + g.Absent + "\n"
	}
	t := plainTable("GPU", "NAME", "PCI", "MEMORY", "UUID")
	for _, d := range g.Devices {
		t.AppendRow(table.Row{d.Index, d.Name, d.PCI, size(int64(d.Memory)), d.UUID})
	}
	return fmt.Sprintf("%s\ndriver %s, CUDA %s\n", t.Render(), g.Driver, g.CUDA)
}

// loaded is what a start would load, "" where nothing is known of it.
func loaded(s software.Facts) string {
	var parts []string
	for _, p := range []struct{ name, version string }{
		{"Python", s.Python.Version}, {"torch", s.Torch.Version}, {"CUDA", s.CUDA}, {"ROCm", s.HIP}, {"NCCL", s.NCCL.Version},
		{"network plugin", s.Plugin.Version}, {"UCX", s.UCX.Version}, {"libfabric", s.Libfabric.Version},
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
		mem = size(int64(l.Memlock))
	}
	files := "unknown (this build does not see what it inherited)"
	if l.NofileKnown {
		files = strconv.FormatUint(l.Nofile, 10)
	}
	shm := "not mounted"
	if l.Shm >= 0 {
		shm = size(l.Shm) + " free of " + size(l.ShmSize)
	}
	return fmt.Sprintf("limits: memlock %s, open files %s, /dev/shm %s\n", mem, files, shm)
}

// Job is one job of a store, for launch status.
type Job struct {
	ID      string              `json:"id"`
	Epoch   rendezvous.Epoch    `json:"epoch"`
	Places  []rendezvous.Place  `json:"places,omitempty"`
	Members []rendezvous.Member `json:"members"`
	Verdict finding.Report      `json:"verdict"`
}

// Job writes one job's state, as data.
func (u *UI) Job(j Job) {
	if u.json {
		u.Emit(true, "job", j)
		return
	}
	here := map[string]rendezvous.Member{}
	for _, m := range j.Members {
		here[m.ID] = m
	}
	t := plainTable("RANK", "NODE", "ADDRESS", "PHASE", "SINCE", "PID")
	since := func(m rendezvous.Member) string { return m.Since.Local().Format("15:04:05") }
	for _, p := range j.Places {
		m, ok := here[p.ID]
		if !ok {
			t.AppendRow(table.Row{p.Rank, visible(p.Name), "", "gone"})
			continue
		}
		delete(here, p.ID)
		t.AppendRow(table.Row{p.Rank, visible(m.Host), m.Addr, phase(m), since(m), m.PID})
	}
	for _, m := range j.Members {
		if _, waits := here[m.ID]; waits {
			rank := "-"
			if m.Index >= 0 && len(j.Places) == 0 { // else all ranks are given
				rank = strconv.Itoa(m.Index)
			}
			t.AppendRow(table.Row{rank, visible(m.Host), m.Addr, phase(m), since(m), m.PID})
		}
	}
	state := visible(string(j.Epoch.State))
	if state == "" {
		state = "no epoch yet"
	}
	nodes := strconv.Itoa(j.Epoch.Size)
	switch {
	case j.Epoch.Size == 0:
		nodes = "?"
	case j.Epoch.State == rendezvous.Open:
		nodes = rendezvous.Count(j.Epoch.Size, j.Epoch.Min)
	}
	if j.Epoch.Restart > 0 {
		state += fmt.Sprintf(" (restart %d of %d)", j.Epoch.Restart, j.Epoch.Restarts)
	}
	u.Print(fmt.Sprintf("job %s  epoch %d %s, %s nodes expected, %d here\n%s\n", visible(j.ID), j.Epoch.N, state, nodes, len(j.Members), t.Render()))
	u.findings(u.out, j.Verdict)
}

// phase is how far a node is, with the status of a command that has ended.
func phase(m rendezvous.Member) string {
	if m.Phase == rendezvous.PhaseEnded {
		return fmt.Sprintf("%s %d", m.Phase, m.Status)
	}
	return visible(m.Phase)
}

// plainTable is columns and nothing else.
func plainTable(head ...any) table.Writer {
	t := table.NewWriter()
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	t.SetStyle(s)
	t.AppendHeader(table.Row(head))
	t.SuppressTrailingSpaces()
	return t
}

func prefixed(by, s string) string {
	if s == "" {
		return ""
	}
	return by + s
}

// size is bytes for people, in powers of 1024.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f := float64(n)
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return strconv.FormatFloat(f, 'f', -1, 64)[:min(len(strconv.FormatFloat(f, 'f', -1, 64)), 4)] + " " + units[i]
}
