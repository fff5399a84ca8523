package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/child"
)

// mount is one line of mountinfo.
type mount struct {
	at, kind, source, device string
	options                  []string // of the mount, and then of the file system
	super                    []string // of the file system
}

// parseMounts reads /proc/self/mountinfo, where a later mount at one place hides an earlier one.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		own, fs, ok := strings.Cut(strings.TrimSpace(line), " - ")
		a, b := strings.Fields(own), strings.Fields(fs)
		if !ok || len(a) < 6 || len(b) < 2 {
			continue
		}
		m := mount{at: unescape(a[4]), kind: b[0], source: unescape(b[1]), device: a[2],
			options: strings.Split(a[5], ",")}
		if len(b) > 2 {
			m.super = strings.Split(b[2], ",")
			m.options = append(m.options, m.super...)
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
	return escapeRE.ReplaceAllStringFunc(s, func(escape string) string {
		n, _ := strconv.ParseUint(escape[1:], 8, 8) // matches are in range
		return string([]byte{byte(n)})
	})
}

var escapeRE = regexp.MustCompile(`\\[0-3][0-7][0-7]`)

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

// remote reports whether a file system may wait for another machine or process: unless known not to.
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

// Disk is the file system of a path.
type Disk struct {
	Path     string `json:"path"`  // the path, as given
	Mount    string `json:"mount"` // mount point
	Kind     string `json:"kind"`  // "nfs4", "ext4"
	Source   string `json:"source"`
	Free     int64  `json:"free"` // bytes free for this user, and in all
	Size     int64  `json:"size"`
	Inodes   int64  `json:"inodes"` // free inodes; InodeMax is 0 where the file system has no fixed number
	InodeMax int64  `json:"inode_max"`
	ReadOnly bool   `json:"read_only"`
	NoWrite  bool   `json:"no_write"`           // this user may not write there
	Proto    string `json:"proto"`              // of an NFS mount: tcp, rdma, udp
	Meant    string `json:"meant"`              // the proto that was asked for
	MeantBy  string `json:"meant_by,omitempty"` // what asks for it: "/etc/fstab", "its port 20049"
	Err      string `json:"err,omitempty"`      // why there is no answer: "no such file or directory"
	Late     string `json:"late,omitempty"`     // time spent waiting in vain
}

// Time limits: for all file systems together, then for each alone, to find the one that hangs.
const (
	disksBudget = 2 * time.Second
	diskBudget  = time.Second
)

const diskChild = "disk"

// RememberDisks returns an AskDisks that asks for the same paths once.
func RememberDisks() func(ctx context.Context, paths []string) []Disk {
	var mu sync.Mutex
	var asked []string
	var answer []Disk
	return func(ctx context.Context, paths []string) []Disk {
		mu.Lock() // held while asking: other callers wait for the answer
		defer mu.Unlock()
		if answer == nil || !slices.Equal(asked, paths) {
			asked, answer = slices.Clone(paths), AskDisks(ctx, paths)
		}
		return answer
	}
}

// AskDisks returns the file systems of paths. A child asks those that may wait for a server, since
// a system call on an NFS mount whose server is gone never returns. It takes 3 s at most.
func AskDisks(ctx context.Context, paths []string) []Disk {
	mounts := parseMounts(readText(os.DirFS("/proc"), "self/mountinfo"))
	if !slices.ContainsFunc(mounts, mount.remote) {
		return disks(paths)
	}
	var out []Disk
	err := child.Ask(ctx, diskChild, paths, &out, disksBudget)
	if err == nil && len(out) == len(paths) {
		return out
	}
	out = make([]Disk, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		wg.Go(func() { out[i] = askDisk(ctx, p, mounts, diskBudget) })
	}
	wg.Wait()
	return out
}

// askDisk lets a child ask one file system, and says where that takes longer than a limit (Late).
func askDisk(ctx context.Context, path string, mounts []mount, limit time.Duration) Disk {
	var one []Disk
	err := child.Ask(ctx, diskChild, []string{path}, &one, limit)
	if err == nil && len(one) == 1 {
		return one[0]
	}
	m := holds(mounts, filepath.Clean(path)) // links are not followed: that could hang
	d := Disk{Path: path, Mount: m.at, Kind: m.kind, Source: m.source}
	if _, late := errors.AsType[*child.TimeoutError](err); late {
		d.Late = (disksBudget + diskBudget).String()
	} else {
		d.Err = unanswered("the file system", err)
	}
	return d
}

// diskAnswer is the child of AskDisks.
func diskAnswer(_ context.Context, in io.Reader, out io.Writer) error {
	var paths []string
	if err := json.NewDecoder(in).Decode(&paths); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(disks(paths))
}

func disks(paths []string) []Disk {
	mounts := parseMounts(readText(os.DirFS("/proc"), "self/mountinfo"))
	fstab := parseFstab(readText(os.DirFS("/etc"), "fstab"))
	out := make([]Disk, len(paths))
	for i, p := range paths {
		out[i] = disk(p, mounts, fstab)
	}
	return out
}

func disk(path string, mounts, fstab []mount) Disk {
	d := Disk{Path: path}
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		d.Err = err.Error()
		return d
	}
	d.Free, d.Size = int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize
	d.Inodes, d.InodeMax = int64(st.Ffree), int64(st.Files)
	d.ReadOnly = st.Flags&unix.ST_RDONLY != 0
	d.NoWrite = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) != nil
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return d
	}
	m := holds(mounts, real)
	d.Mount, d.Kind, d.Source = m.at, m.kind, m.source
	if strings.HasPrefix(m.kind, "nfs") {
		d.Proto = m.option("proto")
		d.Meant, d.MeantBy = meant(fstab, m)
	}
	return d
}

// rdmaPort is the port of NFS over RDMA (RFC 8267).
const rdmaPort = "20049"

// meant returns the transport that was asked for, and by what: fstab, or for a mount by hand its port.
func meant(fstab []mount, m mount) (proto, by string) {
	for _, f := range fstab {
		if f.at == m.at && strings.HasPrefix(f.kind, "nfs") {
			if slices.Contains(f.options, "rdma") { // short for proto=rdma
				return "rdma", "/etc/fstab"
			}
			return f.option("proto"), "/etc/fstab"
		}
	}
	if m.option("port") == rdmaPort {
		return "rdma", "its port " + rdmaPort
	}
	return "", ""
}
