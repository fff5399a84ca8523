package fabric

import (
	"path"
	"strconv"
	"strings"
)

// mount is one line of mountinfo.
type mount struct {
	at, kind, source string
	options          []string // options of the mount and of the file system
}

// parseMounts reads /proc/self/mountinfo. Of two mounts at one place, the later one
// hides the earlier one.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		own, fs, ok := strings.Cut(strings.TrimSpace(line), " - ")
		a, b := strings.Fields(own), strings.Fields(fs)
		if !ok || len(a) < 6 || len(b) < 2 {
			continue
		}
		m := mount{at: unescape(a[4]), kind: b[0], source: unescape(b[1]), options: strings.Split(a[5], ",")}
		if len(b) > 2 {
			m.options = append(m.options, strings.Split(b[2], ",")...)
		}
		out = append(out, m)
	}
	return out
}

// parseFstab reads /etc/fstab: the intended mounts.
func parseFstab(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if f := strings.Fields(line); len(f) >= 4 {
			out = append(out, mount{source: unescape(f[0]), at: path.Clean(unescape(f[1])), kind: f[2],
				options: strings.Split(f[3], ",")})
		}
	}
	return out
}

// unescape decodes \040 and the like, which encode blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// holds returns the mount of a path without links.
func holds(all []mount, name string) (found mount) {
	for _, m := range all {
		inside := m.at == "/" || name == m.at || strings.HasPrefix(name, m.at+"/")
		if inside && len(m.at) >= len(found.at) {
			found = m
		}
	}
	return found
}

// option returns the value of "name=value", "" where it is missing.
func (m mount) option(name string) string {
	for _, o := range m.options {
		if k, v, ok := strings.Cut(o, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// remote reports whether a file system may wait for another machine, or for a process
// of this one: all kinds except those known not to.
func (m mount) remote() bool {
	switch m.kind {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "exfat", "iso9660", "udf", "squashfs", "erofs",
		"overlay", "aufs", "tmpfs", "ramfs", "rootfs", "devtmpfs", "devpts", "proc", "sysfs", "cgroup", "cgroup2",
		"mqueue", "hugetlbfs", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "configfs", "fusectl",
		"binfmt_misc", "rpc_pipefs", "nsfs", "efivarfs", "selinuxfs", "nfsd":
		return false
	case "autofs": // systemd's own, for binfmt_misc
		return !strings.HasPrefix(m.at, "/proc/")
	}
	return true
}
