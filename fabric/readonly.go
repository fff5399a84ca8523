package fabric

import (
	"path"
	"slices"
)

// Mount is a file system as some processes see it.
type Mount struct {
	Path, Kind, Source, Device string
	// Refuses is the option of the file system that shows that nothing can be written to it; "": it can.
	Refuses  string
	ReadOnly bool // at this place, whatever the file system takes
	Demands  bool // to become read-only after an error (errors=remount-ro)
}

// Mounts are what some processes see, by place: of several mounts at one place, the one on top.
type Mounts map[string]Mount

// refuses are these options. ext4 has the last two after an error since Linux 6.15, and no "ro" then.
var refuses = []string{"ro", "emergency_ro", "shutdown"}

// ParseMounts reads the mountinfo of a process.
func ParseMounts(text string) Mounts {
	out := Mounts{}
	for _, m := range parseMounts(text) {
		one := Mount{Path: m.at, Kind: m.kind, Source: m.source, Device: m.device,
			ReadOnly: slices.Contains(m.options[:len(m.options)-len(m.super)], "ro"),
			Demands:  slices.Contains(m.super, "errors=remount-ro")}
		if i := slices.IndexFunc(m.super, func(o string) bool { return slices.Contains(refuses, o) }); i >= 0 {
			one.Refuses = m.super[i]
		}
		out[m.at] = one
	}
	return out
}

// On returns the mount of an absolute path without links.
func (all Mounts) On(name string) (m Mount, ok bool) {
	for name = path.Clean(name); ; name = path.Dir(name) {
		if m, ok = all[name]; ok || name == "/" || name == "." {
			return m, ok
		}
	}
}
