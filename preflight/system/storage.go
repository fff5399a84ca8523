package system

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

// minInodes are the files of one start: logs of the ranks, sockets, compile caches.
const minInodes = 1000

func storageChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "storage.answers", Limit: preflight.Storage, Title: "the file systems that the job uses answer",
		Doc: "A process that touches a file of a server that is gone sleeps in the kernel until the server is back. On " +
			"some file systems it cannot even be killed.",
		Unless: noDisks, Run: storageAnswers,
	}, {
		ID: "storage.space", Needs: []string{"storage.answers"}, Limit: preflight.Storage,
		Title: "there is space for temporary files and logs",
		Doc: "torchrun makes a folder for its logs, and Python and the compilers write temporary files. Without space " +
			"they end in their first minutes, on this node only.",
		Unless: noDisks, Run: storageSpace,
	}, {
		ID: "storage.nfs", Needs: []string{"storage.answers"}, Limit: preflight.Storage,
		Title: "NFS uses the transport that its mount asks for",
		Doc: "A mount that falls back from RDMA to TCP works at a fraction of the speed, and all ranks wait for the node " +
			"that reads its data slowest.",
		Unless: noDisks, Run: preflight.One(storageNFS),
	}}
}

// use is a folder that the job uses, and its purpose.
type use struct{ path, what string }

// temp returns the folder of temporary files, by Python's rule.
func temp(in preflight.Input) use {
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		if v, ok := in.Getenv(name); ok && v != "" {
			return use{v, name}
		}
	}
	return use{"/tmp", "temporary files"}
}

// uses returns the folders to look at, each once.
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
	all = append(all, searched(in)...)
	all = append(all, named(in)...)
	var out []use
	for _, u := range all {
		if u.path != "" && !slices.ContainsFunc(out, func(o use) bool { return o.path == u.path }) {
			out = append(out, u)
		}
	}
	return out
}

// inPythonPath is the purpose of a folder in which each Python of the command looks before the script's first line.
const inPythonPath = "in PYTHONPATH"

// searched returns the folders of PYTHONPATH, if the command is known to run a Python.
func searched(in preflight.Input) (out []use) {
	path, _ := in.Getenv("PYTHONPATH")
	if l := in.Job.Line; !l.Kind.Torch() && l.Script == 0 {
		return nil
	}
	for dir := range strings.SplitSeq(path, ":") {
		if filepath.IsAbs(dir) && len(out) < maxNamed {
			out = append(out, use{filepath.Clean(dir), inPythonPath})
		}
	}
	return out
}

// maxNamed limits the paths of the command line that are looked at.
const maxNamed = 8

// named returns the absolute paths in the arguments of the script or program: data, checkpoints, outputs.
func named(in preflight.Input) (out []use) {
	l := in.Job.Line
	for _, arg := range l.Argv[min(max(0, l.Rest)+1, len(l.Argv)):] {
		if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(name, "-") {
			arg = value
		}
		if filepath.IsAbs(arg) && len(out) < maxNamed {
			out = append(out, use{filepath.Clean(arg), "named by the command"})
		}
	}
	return out
}

func noDisks(in preflight.Input) string {
	if in.Disks == nil {
		return "this run looks at no file system"
	}
	return ""
}

// folder is a folder that the job uses, with its file system.
type folder struct {
	use
	fabric.Disk
}

// folders returns the folders to look at, with the file system of each.
func folders(ctx context.Context, in preflight.Input) (out []folder) {
	uses := uses(in)
	for i, d := range in.Disks(ctx, finding.Map(uses, func(u use) string { return u.path })) {
		out = append(out, folder{uses[i], d})
	}
	return out
}

func storageAnswers(ctx context.Context, in preflight.Input) []finding.Finding {
	all := folders(ctx, in)
	var out []finding.Finding
	var late []string // mounts that are reported already
	for _, d := range all {
		if d.Late == "" || slices.Contains(late, d.Mount) {
			continue
		}
		late = append(late, d.Mount)
		f := finding.Warnf("%s, %s, does not answer: %s", d.Path, d.what, mounted(d.Disk)).
			See("statfs "+d.Path, "no answer within %s", d.Late).
			Breaking("processes that touch it hang in the kernel until its server is back").
			Do("umount -f -l %s   # or bring its server back", d.Mount)
		if d.what == inPythonPath {
			f.Status, f.Breaks = finding.Fail, "Python looks there before the script's first line, and hangs in the kernel"
		}
		out = append(out, f)
	}
	if len(out) > 0 {
		return out
	}
	var kinds []string
	for _, d := range all {
		if d.Kind != "" && !slices.Contains(kinds, d.Kind) {
			kinds = append(kinds, d.Kind)
		}
	}
	return []finding.Finding{finding.Passf("%d folders answer (%s)", len(all), strings.Join(kinds, ", "))}
}

// mounted describes the mount of a path.
func mounted(d fabric.Disk) string {
	if d.Mount == "" {
		return "its mount is not known"
	}
	return d.Kind + " of " + d.Source + " at " + d.Mount
}

// storageSpace looks at the folder of temporary files, and the working directory if this user may write there.
func storageSpace(ctx context.Context, in preflight.Input) []finding.Finding {
	room := finding.Skipf("could not tell: the folder for temporary files does not answer")
	var out []finding.Finding
	if in.Dir == "" {
		out = append(out, finding.Warnf("the working directory no longer exists").See("getcwd", "no such directory").
			Breaking("programs that ask for it, or open a file in it, end with \"No such file or directory\"").
			Do("cd to an existing directory, then start again; if it was created again: cd \"$PWD\""))
	}
	var full []string // mounts that are reported already
	for _, d := range folders(ctx, in) {
		isTemp := d.path == temp(in).path
		if isTemp && d.Late == "" {
			room = finding.Passf("%s free in %s", finding.Size(uint64(max(0, d.Free))), d.Path)
		}
		written := isTemp || d.what == "the working directory" && d.Err == "" && !d.NoWrite && !d.ReadOnly
		if d.Late != "" || !written || d.Mount != "" && slices.Contains(full, d.Mount) {
			continue
		}
		if f, bad := cramped(in, d); bad {
			full = append(full, d.Mount)
			out = append(out, f)
		}
	}
	if len(out) > 0 {
		return out
	}
	return []finding.Finding{room}
}

// refusal returns why a folder takes no file.
func refusal(readOnly bool) string {
	if readOnly {
		return "mounted read-only"
	}
	return "permission denied"
}

// cramped judges one folder that the job writes to.
func cramped(in preflight.Input, d folder) (finding.Finding, bool) {
	const fix = "TMPDIR=/a/folder/with/space launch …"
	min := in.Threshold("storage.space")
	switch {
	case d.Err != "":
		return finding.Warnf("%s (%s) cannot be used: %s", d.Path, d.what, d.Err).See("statfs "+d.Path, "%s", d.Err).
			Breaking("programs that write there fail, or use another folder").Do("mkdir -p %s\nor %s", d.Path, fix), true
	case d.ReadOnly, d.NoWrite:
		return finding.Warnf("%s (%s) cannot be written to by this user", d.Path, d.what).
			See("access "+d.Path, "%s, %s", mounted(d.Disk), refusal(d.ReadOnly)).
			Breaking("programs that write there, such as torchrun with its logs, fail, or use another folder").Do(fix), true
	case d.Size > 0 && float64(d.Free) < min:
		return finding.Warnf("%s (%s) has %s left of %s",
			d.Path, d.what, finding.Size(uint64(max(0, d.Free))), finding.Size(uint64(d.Size))).
			See("statfs "+d.Path, "%d of %d bytes free; %s", d.Free, d.Size, mounted(d.Disk)).
			Breaking("processes end with \"No space left on device\" as soon as they write").
			Do("du -xsh %s/* | sort -h   # shows what to remove\nor start elsewhere: %s",
				strings.TrimSuffix(d.Path, "/"), fix), true
	case d.InodeMax > 0 && d.Inodes < minInodes:
		return finding.Warnf("%s (%s) has room for %d more files, whatever their size", d.Path, d.what, max(0, d.Inodes)).
			See("statfs "+d.Path, "%d of %d inodes free; %s", d.Inodes, d.InodeMax, mounted(d.Disk)).
			Breaking("processes end with \"No space left on device\", although df shows space; df -i shows none").
			Do("remove small files there, or start elsewhere: %s", fix), true
	}
	return finding.Finding{}, false
}

// storageNFS compares the mounts with /etc/fstab.
func storageNFS(ctx context.Context, in preflight.Input) finding.Finding {
	seen := false
	for _, d := range folders(ctx, in) {
		seen = seen || d.Proto != ""
		if d.Meant == "rdma" && d.Proto != "" && !strings.HasPrefix(d.Proto, "rdma") {
			by := cmp.Or(d.MeantBy, "/etc/fstab")
			return finding.Warnf("%s uses %s, and %s asks for RDMA", mounted(d.Disk), d.Proto, by).
				See("/proc/self/mountinfo", "%s: proto=%s", d.Mount, d.Proto).See(by, "%s: rdma", d.Mount).
				Breaking("this node reads its data slower than the others, which wait for it").
				Do("modprobe rpcrdma && umount %s && mount %s", d.Mount, d.Mount)
		}
	}
	if !seen {
		return finding.Skipf("the job uses no NFS")
	}
	return finding.Passf("the transport is as it was asked for, or nothing asks for one")
}
