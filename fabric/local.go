package fabric

import (
	"os"
	"slices"
	"strings"
)

// LocalDisks returns the file systems of this machine's own that programs write to, one for each mount with another
// place or size. It asks no network and no FUSE file system. A disk that fails may still take long.
func LocalDisks() []Disk {
	var out []Disk
	mounts := parseMounts(readText(os.DirFS("/proc"), "self/mountinfo"))
	for _, p := range places(mounts) {
		d := disk(p, mounts, nil)
		if d.Err != "" || d.ReadOnly || d.NoWrite || d.Size == 0 {
			continue
		}
		same := func(o Disk) bool {
			return o.Kind == d.Kind && o.Source == d.Source && o.Size == d.Size && o.Free == d.Free
		}
		if !slices.ContainsFunc(out, same) { // bind mounts show one file system several times
			out = append(out, d)
		}
	}
	return out
}

// places returns where local file systems are mounted that programs write to, the shortest first.
func places(mounts []mount) (out []string) {
	for _, m := range mounts {
		switch m.kind {
		case "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "exfat", "overlay", "tmpfs":
			if !slices.Contains(m.options, "ro") && !slices.Contains(out, m.at) {
				out = append(out, m.at)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return out
}
