package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// gpus returns the GPUs, with remarks on each that is not healthy and idle.
func gpus(n fabric.Node, f rail.Fabric) string {
	g := n.GPUs
	switch {
	case g.Present:
		var b strings.Builder
		t := plainTable("GPU", "NAME", "PCI", "MEMORY", "UUID")
		for _, d := range g.Devices {
			t.AppendRow(table.Row{d.Index, d.Name, d.PCI, finding.Size(d.Memory), d.UUID})
		}
		fmt.Fprintf(&b, "%s\ndriver %s, CUDA %s\n", t.Render(), g.Driver, g.CUDA)
		for _, d := range g.Devices {
			for _, r := range remarks(d) {
				fmt.Fprintf(&b, "GPU %d: %s\n", d.Index, r)
			}
		}
		return b.String()
	case g.Err != "":
		return "NVML does not answer: " + g.Err + "\n"
	case len(f.GPUs) > 0:
		return fmt.Sprintf("%s on the PCI bus; the driver was not queried\n", finding.Plural(len(f.GPUs), "GPU", "GPUs"))
	case g.Absent != "":
		return "no NVIDIA GPU: " + g.Absent + "\n"
	}
	return "no GPU\n"
}

// remarks returns what a healthy and idle GPU does not have.
func remarks(d gpu.GPU) (out []string) {
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	if d.Err != "" {
		return []string{d.Err}
	}
	if d.MIG == "on" {
		add("MIG is on, with %s", finding.Plural(len(d.MIGDevices), "slice", "slices"))
	}
	held := slices.DeleteFunc(slices.Clone(d.Throttle), func(why string) bool { // healthy GPUs have the others, too
		return !slices.Contains([]string{"hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"}, why)
	})
	if len(held) > 0 {
		add("clocks are throttled: %s", strings.Join(held, ", "))
	}
	if e := d.ECC; e != nil && e.Uncorrected > 0 {
		errors := finding.Plural(int(e.Uncorrected), "uncorrectable memory error", "uncorrectable memory errors")
		add("%s since the driver was loaded", errors)
	}
	switch r := d.Rows; {
	case r == nil:
	case r.Failed:
		add("no spare row is left for a faulty memory row")
	case r.Pending:
		add("the next reset replaces a faulty memory row")
	}
	if l := d.NVLink; l != nil && l.Up > 0 && l.Up < l.Total {
		add("%d of %d NVLinks are up", l.Up, l.Total)
	}
	if f := d.Fabric; f != nil && (f.State != "completed" || f.Status != "" && f.Status != "SUCCESS") {
		add("the state of its NVLink fabric is %s", strings.TrimSpace(strings.ReplaceAll(f.State, "_", " ")+" "+f.Status))
	}
	if len(d.Processes) > 0 {
		var users []string
		for _, p := range d.Processes {
			users = append(users, strings.TrimSpace(fmt.Sprintf("%d %s", p.PID, visible(p.Name))))
		}
		add("in use by pid %s", Names(users, len(users)))
	}
	return out
}
