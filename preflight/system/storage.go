package system

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

const (
	// minInodes are the files of one start: logs of the ranks, sockets, caches
	// of what is compiled.
	minInodes = 1000
)

func storageChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "storage.answers", Limit: preflight.Storage,
		Title: "the file systems that the job uses answer",
		Doc:   "A process that touches a file of a server that is gone sleeps in the kernel until it is back, and cannot even be killed on some.",
		Run:   storageAnswers,
	}, {
		ID: "storage.space", Needs: []string{"storage.answers"}, Limit: preflight.Storage,
		Title: "there is room for temporary files and logs",
		Doc:   "torchrun makes a folder for its logs, Python and the compilers behind it write temporary files; without room they end in their first minutes, on this node only.",
		Run:   storageSpace,
	}, {
		ID: "storage.nfs", Needs: []string{"storage.answers"}, Limit: preflight.Storage,
		Title: "NFS runs over the transport that it is meant to",
		Doc:   "A mount that falls back from RDMA to TCP works, at a fraction of the speed, and all ranks wait for the node that reads its data the slowest.",
		Run:   preflight.One(storageNFS),
	}}
}

// use is a folder that the job uses, and what for.
type use struct{ path, what string }

// temp is where temporary files go, as Python has it.
func temp(in preflight.Input) use {
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		if v, ok := in.Getenv(name); ok && v != "" {
			return use{v, name}
		}
	}
	return use{"/tmp", "temporary files"}
}

// uses are the folders that are looked at, each once.
func uses(in preflight.Input) []use {
	all := []use{{in.Dir, "the working directory"}, temp(in)}
	if l := in.Job.Line; l.Script > 0 && l.Script < len(l.Argv) {
		dir := filepath.Dir(l.Argv[l.Script])
		if filepath.IsAbs(dir) || !preflight.Moves(l) {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(in.Dir, dir)
			}
			all = append(all, use{dir, "the script"})
		}
	}
	if home, ok := in.Getenv("HOME"); ok && filepath.IsAbs(home) {
		all = append(all, use{home, "the home folder"})
	}
	var out []use
	for _, u := range all {
		if u.path != "" && !slices.ContainsFunc(out, func(o use) bool { return o.path == u.path }) {
			out = append(out, u)
		}
	}
	return out
}

// disks asks for all of them; nil: nothing is looked at now.
func disks(in preflight.Input, ctx context.Context) ([]use, []fabric.Disk) {
	if in.Disks == nil {
		return nil, nil
	}
	uses := uses(in)
	got := in.Disks(ctx, func() (paths []string) {
		for _, u := range uses {
			paths = append(paths, u.path)
		}
		return paths
	}())
	if len(got) != len(uses) {
		return nil, nil
	}
	return uses, got
}

func storageAnswers(ctx context.Context, in preflight.Input) []finding.Finding {
	uses, disks := disks(in, ctx)
	if uses == nil {
		return []finding.Finding{finding.Skipf("no file system is looked at now")}
	}
	var out []finding.Finding
	var late []string // mounts that were named
	for i, d := range disks {
		if d.Late == "" || slices.Contains(late, d.Mount) {
			continue
		}
		late = append(late, d.Mount)
		f := finding.Warnf("%s, %s, does not answer: %s", d.Path, uses[i].what, mounted(d)).
			See("statfs "+d.Path, "no answer within %s", d.Late).
			Breaking("processes that touch it hang in the kernel until its server is back")
		out = append(out, f.Do("bring its server back, or unmount it: umount -f -l %s", d.Mount))
	}
	if len(out) > 0 {
		return out
	}
	var kinds []string
	for _, d := range disks {
		if d.Kind != "" && !slices.Contains(kinds, d.Kind) {
			kinds = append(kinds, d.Kind)
		}
	}
	return []finding.Finding{finding.Passf("%d folders answer (%s)", len(disks), strings.Join(kinds, ", "))}
}

// mounted says what a path lies on.
func mounted(d fabric.Disk) string {
	if d.Mount == "" {
		return "it is not known what is mounted there"
	}
	return d.Kind + " of " + d.Source + " at " + d.Mount
}

// storageSpace looks where every job writes: temporary files, and the working
// directory where this user may write there.
func storageSpace(ctx context.Context, in preflight.Input) []finding.Finding {
	uses, disks := disks(in, ctx)
	if uses == nil {
		return []finding.Finding{finding.Skipf("no file system is looked at now")}
	}
	temp := temp(in)
	var out []finding.Finding
	if in.Dir == "" {
		out = append(out, finding.Warnf("the working directory is not there any more").See("getcwd", "no such directory").
			Breaking("programs that ask for it, or name a file in it, end with \"No such file or directory\"").
			Do("cd to a directory that is there, and start again: cd \"$PWD\" if it was made anew"))
	}
	var full []string // mounts that were named
	for i, d := range disks {
		isTemp := uses[i].path == temp.path
		if d.Late != "" || !isTemp && (uses[i].what != "the working directory" || d.Err != "" || d.NoWrite || d.ReadOnly) || d.Mount != "" && slices.Contains(full, d.Mount) {
			continue
		}
		if f, bad := cramped(in, uses[i], d); bad {
			full = append(full, d.Mount)
			out = append(out, f)
		}
	}
	if len(out) > 0 {
		return out
	}
	for i, d := range disks {
		if uses[i].path == temp.path && d.Late == "" {
			return []finding.Finding{finding.Passf("%s free in %s", preflight.Size(uint64(max(0, d.Free))), d.Path)}
		}
	}
	return []finding.Finding{finding.Skipf("could not tell: the folder for temporary files does not answer")}
}

// narrow judges one folder that is written to.
func cramped(in preflight.Input, u use, d fabric.Disk) (finding.Finding, bool) {
	const fix = "TMPDIR=/a/folder/with/room launch …"
	min := in.Threshold("storage.space")
	switch {
	case d.Err != "":
		return finding.Warnf("%s (%s) cannot be used: %s", d.Path, u.what, d.Err).See("statfs "+d.Path, "%s", d.Err).
			Breaking("temporary files go elsewhere, or nowhere").Do("mkdir -p %s, or %s", d.Path, fix), true
	case d.ReadOnly, d.NoWrite:
		return finding.Warnf("%s (%s) cannot be written to", d.Path, u.what).See("access "+d.Path, "%s, read-only: %v", mounted(d), d.ReadOnly).
			Breaking("temporary files go elsewhere, or nowhere: torchrun puts its logs there").Do(fix), true
	case d.Size > 0 && float64(d.Free) < min:
		return finding.Warnf("%s (%s) has %s left of %s", d.Path, u.what, preflight.Size(uint64(max(0, d.Free))), preflight.Size(uint64(d.Size))).
			See("statfs "+d.Path, "%d of %d bytes free; %s", d.Free, d.Size, mounted(d)).
			Breaking("processes end with \"No space left on device\" as soon as they write").
			Do("make room (du -xsh %s/* | sort -h), or start elsewhere: %s", strings.TrimSuffix(d.Path, "/"), fix), true
	case d.InodeMax > 0 && d.Inodes < minInodes:
		return finding.Warnf("%s (%s) has room for %d files more, whatever their size", d.Path, u.what, max(0, d.Inodes)).
			See("statfs "+d.Path, "%d of %d inodes free; %s", d.Inodes, d.InodeMax, mounted(d)).
			Breaking("processes end with \"No space left on device\", though df shows room; df -i does not").
			Do("remove small files there, or start elsewhere: %s", fix), true
	}
	return finding.Finding{}, false
}

// storageNFS compares what is mounted with what fstab asks for.
func storageNFS(ctx context.Context, in preflight.Input) finding.Finding {
	uses, disks := disks(in, ctx)
	if uses == nil {
		return finding.Skipf("no file system is looked at now")
	}
	seen := false
	for _, d := range disks {
		seen = seen || d.Proto != ""
		if d.Meant == "rdma" && d.Proto != "" && !strings.HasPrefix(d.Proto, "rdma") {
			return finding.Warnf("%s runs over %s, and /etc/fstab wants RDMA", mounted(d), d.Proto).
				See("/proc/self/mountinfo", "%s: proto=%s", d.Mount, d.Proto).See("/etc/fstab", "%s: rdma", d.Mount).
				Breaking("this node reads its data slower than the others, which wait for it").
				Do("modprobe rpcrdma && umount %s && mount %s", d.Mount, d.Mount)
		}
	}
	if !seen {
		return finding.Skipf("no NFS is used here")
	}
	return finding.Passf("as /etc/fstab has it, or not listed there")
}
