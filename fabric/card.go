package fabric

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cards are the GPUs among the functions, with what NVIDIA's driver says of each
// in /proc/driver/nvidia/gpus. A container sees there only what it was given,
// and all of them on the bus.
func cards(proc fs.FS, bus []PCI) ([]Card, []Unknown) {
	var out []Card
	var unknown []Unknown
	for _, p := range bus {
		c := Card{PCI: p.Addr, Vendor: gpuVendor(p), Minor: -1}
		if c.Vendor == "" {
			continue
		}
		if c.Vendor == "nvidia" {
			d := dir{fsys: proc, name: path.Join("driver/nvidia/gpus", p.Addr)}
			c.describe(d.line("information"))
			if d.bad != nil {
				unknown = append(unknown, *d.bad)
			}
		}
		out = append(out, c)
	}
	return out, unknown
}

// gpuVendor is whose GPU a function is; "" if it is none. Compute GPUs are
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

// describe reads the rows "Model: …", "GPU UUID: …" and "Device Minor: …". A
// GPU that the driver could not start has a UUID of question marks.
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
