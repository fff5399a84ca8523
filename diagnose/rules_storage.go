package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// storageWaits are beginnings of the kernel functions in which a process waits for a file system.
var storageWaits = []string{"request_wait_answer", "fuse_", "nfs", "rpc_", "folio_wait", "wait_on_page", "io_schedule",
	"lookup_slow", "cl_sync_io_wait", "ptlrpc", "ceph_", "wait_on_bit", "xfs_", "jbd2_", "blkdev_", "submit_bio"}

// atStorage reports whether the main thread of a rank waits for a file system; known: by the place in the kernel, or
// by the file of its system call.
func atStorage(p *scene.Proc) (waits, known bool) {
	known = slices.ContainsFunc(storageWaits, func(w string) bool { return strings.HasPrefix(p.Wchan, w) }) ||
		p.State == "D" && p.Syscall != nil && p.Syscall.Path != ""
	return known || p.State == "D", known
}

// suspended reports whether a rank waits to change a file system that fsfreeze(8), a backup or a snapshot holds:
// sb_start_write in the kernel. Other waits in that place are about no file.
func suspended(p *scene.Proc) bool {
	return p.State == "D" && p.Wchan == "percpu_rwsem_wait" && p.Syscall != nil && p.Syscall.Path != ""
}

// longWait is how long a main thread waits for one answer before that is certain to be no slow server: two looks that
// are 5 s apart add to it.
const longWait = 8 * time.Second

func (v *view) storage(s *seat) (claim, bool) {
	p := s.proc
	if c, ok := v.broken(s); ok {
		return c, true
	}
	waits, known := atStorage(p)
	if slow, _ := v.slow(s); !waits || slow || works(p.Moved, s.node.scene.Span) {
		return claim{}, false
	}
	sure := verdict.Likely
	if past := pastOf(s); known && past != nil && past.Over >= longWait && p.Moved.Switches == 0 &&
		!slices.ContainsFunc(past.Acts, func(a scene.Act) bool { return a.Ago < longWait }) {
		sure = verdict.Certain
	}
	c := about("rank.storage", sure, s, "waits for "+storageOf(p)+" and reads nothing")
	if suspended(p) {
		c.what = "waits to write to " + storageOf(p) + ", which is frozen (fsfreeze, a backup, a snapshot)"
		c.Do = fmt.Sprintf("fsfreeze -u %s   # on %s; then look at what froze it", p.Syscall.Mount, s.node.name)
	}
	return c.see(procPath(p, "wchan"), strings.TrimSpace(p.State+" "+p.Wchan)), true
}

// storageOf names the file system that a process waits for, as far as it is known.
func storageOf(p *scene.Proc) string {
	if c := p.Syscall; c != nil && c.Path != "" {
		return fmt.Sprintf("the file system of %s (%s)", c.Path, cmp.Or(c.Type, "of an unknown type"))
	}
	if f := suspect(p); f != nil {
		return fmt.Sprintf("the file system of %s (%s)", f.Path, f.Type)
	}
	return "a file system"
}

// pastOf returns what a companion knows of the past of a rank; nil: no companion has watched it.
func pastOf(s *seat) *scene.Past {
	for i, p := range s.node.scene.Past {
		if p.PID == s.proc.PID {
			return &s.node.scene.Past[i]
		}
	}
	return nil
}

// settled is how long after the others began to wait a rank may still do what it did before that.
const settled = 10 * time.Second

// slow reports whether a rank waits for a file system that answers, each time after a while: its main thread goes on
// and waits again, in this look or since the others wait for it. rate is what it reads in a second; 0: not known.
func (v *view) slow(s *seat) (slow bool, rate uint64) {
	p, span := s.proc, s.node.scene.Span
	if _, known := atStorage(p); !known {
		return false, 0
	}
	if p.Moved.Switches > 0 && span > 0 {
		slow, rate = true, uint64(float64(p.Moved.Read)/span.Seconds())
	}
	past := pastOf(s)
	if c := p.Syscall; c != nil && c.Served && !suspended(p) {
		slow = true // as one fsync of much data
	}
	if past == nil {
		return slow, rate
	}
	window := min(v.waited(), past.Over)
	var read int64
	for _, a := range past.Acts {
		if a.Ago < window {
			read += a.Read
		}
		slow = slow || a.Ago < window-settled && a.Wakes > 0
	}
	if slow && window > settled {
		rate = uint64(float64(read) / window.Seconds())
	}
	return slow, rate
}

// waited returns what longest does, which goes through all sockets, once for all ranks.
func (v *view) waited() time.Duration {
	if v.still == nil {
		v.still = new(v.longest())
	}
	return *v.still
}

// slowly says that a rank waits for a slow file system; "": it does not.
func (v *view) slowly(s *seat) string {
	slow, rate := v.slow(s)
	switch {
	case !slow:
		return ""
	case rate == 0:
		return "it waits for " + storageOf(s.proc) + ", which answers slowly"
	}
	return fmt.Sprintf("it waits for %s, which is slow: %s/s", storageOf(s.proc), finding.Size(rate))
}

// broken recognises a rank that sleeps, tries again and sleeps, where a path that it names gives an error.
func (v *view) broken(s *seat) (claim, bool) {
	p := s.proc
	if len(p.Broken) == 0 || !p.Retries() || works(p.Moved, s.node.scene.Span) {
		return claim{}, false
	}
	i := slices.IndexFunc(p.Broken, func(b scene.Broken) bool { return b.Err != "ENOSPC" })
	if i < 0 {
		return full(s), true
	}
	b := p.Broken[i]
	meaning := map[string]string{"ESTALE": "its server does not know it any more",
		"ENOTCONN": "the server of that mount has ended", "EIO": "an error of its disk or server",
		"ETIMEDOUT": "its server does not answer in time",
		"EHOSTDOWN": "its server is not reached"}[b.Err]
	c := about("rank.storage", verdict.Likely, s, fmt.Sprintf("sleeps and tries again, and %s (%s), %s, gives %s: %s",
		b.Path, cmp.Or(b.Type, "of an unknown file system"), b.By, b.Err, meaning))
	for _, b := range p.Broken {
		c = c.see("stat "+b.Path, b.Err)
	}
	c.Blocked = true // until someone mounts it again
	c.Do = fmt.Sprintf("umount -l %s; mount it again   # on %s; then start the job again", b.Mount, s.node.name)
	return c, true
}

// full says that a rank tries again to write, where all that is wrong with its file systems is that some are full.
func full(s *seat) claim {
	b := s.proc.Broken[0]
	c := about("rank.storage", verdict.Likely, s, fmt.Sprintf("sleeps and tries again to write, and the file system of "+
		"%s (%s) is full", b.Path, b.Type)).at(s)
	c.Blocked = true
	for _, b := range s.proc.Broken {
		c = c.see("statfs "+b.Path, "no room, or no inode")
	}
	return c.do(fmt.Sprintf("df -h %s; df -i %[1]s   # on %[2]s: if the loop writes there, make room, and it goes on",
		b.Path, s.node.name))
}

// suspect returns the file that a process most likely waits for.
func suspect(p *scene.Proc) *scene.File {
	var far *scene.File
	for i, f := range p.Files {
		if p.Syscall != nil && p.Syscall.FD >= 0 && p.Syscall.FD == f.FD && p.Syscall.Name != "poll" {
			return &p.Files[i]
		}
		if remote(f.Type) {
			far = &p.Files[i]
		}
	}
	return far
}

// remote reports whether the file system of a type is on a server.
func remote(kind string) bool {
	return strings.HasPrefix(kind, "fuse") || strings.HasPrefix(kind, "nfs") || kind == "lustre" || kind == "ceph"
}
