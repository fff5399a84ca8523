package fabric

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cards returns the GPUs among the functions. Where the bus is hidden, it adds those
// that NVIDIA's driver lists in /proc/driver/nvidia/gpus. A container sees only its own
// GPUs there, and all GPUs on the bus.
func cards(proc fs.FS, bus []PCI) ([]Card, []Unknown) {
	var out []Card
	for _, p := range bus {
		if vendor := gpuVendor(p); vendor != "" {
			out = append(out, Card{PCI: p.Addr, Vendor: vendor, Minor: -1})
		}
	}
	driver := dir{fsys: proc, name: "driver/nvidia/gpus"}
	for _, addr := range driver.names("") {
		if !slices.ContainsFunc(out, func(c Card) bool { return c.PCI == addr }) {
			out = append(out, Card{PCI: addr, Vendor: "nvidia", Minor: -1})
		}
	}
	slices.SortFunc(out, func(a, b Card) int { return strings.Compare(a.PCI, b.PCI) })
	var unknown []Unknown
	for i, c := range out {
		if c.Vendor != "nvidia" {
			continue
		}
		d := dir{fsys: proc, name: path.Join(driver.name, c.PCI)}
		out[i].describe(d.line("information"))
		unknown = withBad(unknown, d.bad)
	}
	unknown = withBad(unknown, driver.bad)
	return out, unknown
}

// gpuVendor returns the vendor of a GPU; "" for any other function. Compute GPUs are
// "3D" (NVIDIA), "other display" or "processing accelerator" (AMD).
func gpuVendor(p PCI) string {
	display := strings.HasPrefix(p.Class, classDisplay)
	switch {
	case p.Vendor == vendorNVIDIA && display:
		return "nvidia"
	case p.Vendor == vendorAMD && (display || strings.HasPrefix(p.Class, classAccelerator)):
		return "amd"
	}
	return ""
}

// describe reads the rows "Model: …", "GPU UUID: …" and "Device Minor: …". If the
// driver could not start the GPU, the UUID consists of question marks.
func (c *Card) describe(information string) {
	for line := range strings.Lines(information) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Model":
			c.Model = value
		case "GPU UUID":
			if !strings.Contains(value, "?") {
				c.UUID = value
			}
		case "Device Minor":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				c.Minor = n
			}
		}
	}
}
