package hosts

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/finding"
)

// program judges the programs of the line on one host.
func (j *judge) program(a Answer) {
	where := a.Name
	for _, p := range a.Facts.Programs {
		switch {
		case p.Path == "":
			f := finding.Failf("there is no %s", p.Word).Breaking("mpirun ends the job at once").
				Do("copy it there, or put it into a directory that all hosts share")
			if !strings.Contains(p.Word, "/") {
				f = f.See(where, "PATH=%s", a.Facts.Path)
			} else if !a.Facts.InDir {
				f = f.See(where, "there is no directory %s", j.Run.Dir)
			}
			j.add("mpi.program", a.Name, f)
		case !p.Found:
			j.add("mpi.program", a.Name, denied(p.Path, p.Mount).Breaking("its process does not start: "+
				"Open MPI ends the job, and MPICH waits"))
		case len(p.Lost) > 0:
			j.add("mpi.library", a.Name, finding.Failf("%s does not find %s", p.Path, strings.Join(p.Lost, " ")).
				See(where, "LD_LIBRARY_PATH=%s", a.Facts.LibraryPath).Breaking("it ends before it begins").
				Do("%s", j.libraryFix()))
		case p.MPI != "" && p.MPI != j.family():
			j.add("mpi.library", a.Name, finding.Failf("%s is linked with %s, but %s is %s's", p.Path, title(p.MPI),
				j.word(), title(j.family())).
				Breaking("each process is alone in its world, and does the whole work").
				Do("start it with the mpirun of %s, or build it with this one's mpicc", title(p.MPI)))
		}
	}
}

// denied says that a file may not be executed, and which mount forbids it, if one does.
func denied(file, mount string) finding.Finding {
	if mount == "" {
		return finding.Failf("%s is no program that this user may execute", file).Do("on it: ls -l %s", file)
	}
	return finding.Failf("%s cannot be executed: %s is mounted noexec there", file, mount).
		Do("on it: mount -o remount,exec %s, and /etc/fstab; or a folder elsewhere on all hosts", mount)
}

func (j *judge) libraryFix() string {
	if j.Run.Forward {
		return "export LD_LIBRARY_PATH=DIR   # here, before mpiexec"
	}
	return "mpirun -x LD_LIBRARY_PATH=DIR, or set it in ~/.bashrc there, above the line that returns"
}

func (j *judge) word() string {
	if j.Run.Forward {
		return "this mpiexec"
	}
	return "this mpirun"
}

// family returns the MPI whose libraries the programs need: Intel's are MPICH's by their names.
func (j *judge) family() string {
	if j.Run.Forward {
		return "mpich"
	}
	return "openmpi"
}

func title(family string) string {
	if family == "openmpi" {
		return "Open MPI"
	}
	return "MPICH (or Intel MPI)"
}

// copied judges whether launch itself can check a host.
func (j *judge) copied(a Answer) {
	f := a.Facts
	switch {
	case a.Local || f.Self != "":
		return
	case j.Head.Arch != "" && f.Arch != j.Head.Arch:
		j.add("mpi.copy", a.Name, finding.Warnf("its processor is %s, and this host's %s: launch cannot run there, "+
			"and a shell has checked what it can", f.Arch, j.Head.Arch).
			Do("start from a host of that kind; a program of one MPI rarely runs on both"))
	case f.Tmp == "":
		w := finding.Warnf("launch finds no folder for a copy of itself, and a shell has checked what it can").
			Do("on it: TMPDIR=DIR, where programs may be executed")
		if len(f.Noexec) > 0 {
			w.What = fmt.Sprintf("nothing can be executed in %s (noexec): launch cannot run there, and a shell has "+
				"checked what it can", strings.Join(f.Noexec, " "))
		}
		if len(f.Mounts) > 0 {
			w = w.See(a.Name, "mounted noexec: %s", strings.Join(f.Mounts, " "))
		}
		j.add("mpi.copy", a.Name, w)
	}
}

// clock compares a host's clock with this one's, as far as the time allows that the answer took.
func (j *judge) clock(a Answer) {
	c := a.Facts.Clock
	if c.IsZero() || j.Drift == 0 {
		return
	}
	var off time.Duration
	switch {
	case c.Before(a.Sent):
		off = c.Sub(a.Sent)
	case c.After(a.Back):
		off = c.Sub(a.Back)
	}
	if off.Abs() > j.Drift {
		j.add("mpi.clock", a.Name, finding.Warnf("its clock differs from this host's").
			See(a.Name, "%+.1f s", off.Seconds()).Breaking("logs, caches and certificates disagree").
			Do("on it: systemctl restart chronyd, or timedatectl set-ntp true"))
	}
}

// together compares the hosts with each other.
func (j *judge) together() {
	whole := slices.DeleteFunc(slices.Clone(j.Answers), func(a Answer) bool { return !a.Whole })
	j.samePrograms(whole)
	j.sameMachines(whole)
	j.sameAddresses(whole)
	j.sameLimit(whole, "memlock", func(a Answer) string { return a.Facts.Memlock })
	j.sameLimit(whole, "nofile", func(a Answer) string { return a.Facts.Nofile })
}

// most returns the commonest value, the first of equally common ones.
func most(values []string) (best string) {
	n := map[string]int{}
	for _, v := range values {
		n[v]++
	}
	for _, v := range values {
		if n[v] > n[best] || best == "" {
			best = v
		}
	}
	return best
}

func (j *judge) samePrograms(all []Answer) {
	for _, word := range j.Run.Programs {
		hash := func(a Answer) string {
			for _, p := range a.Facts.Programs {
				if p.Word == word {
					return p.Hash
				}
			}
			return ""
		}
		values := slices.DeleteFunc(finding.Map(all, hash), func(h string) bool { return h == "" })
		common := most(values)
		for _, a := range all {
			if h := hash(a); h != "" && h != common {
				j.add("mpi.program", a.Name, finding.Warnf("%s is another file than on the other hosts", word).
					See(a.Name, "SHA-256 %.12s…, elsewhere %.12s…", h, common).
					Breaking("processes of two builds may wait for each other, or answer differently").
					Do("copy the same file to all hosts"))
			}
		}
	}
}

// sameAddresses names the addresses that several hosts have, where the line lets the daemons use them.
func (j *judge) sameAddresses(all []Answer) {
	holders := map[string][]string{}
	var order []string
	machines := map[string]bool{}
	for _, a := range all {
		if m := a.Facts.Machine; m != "" && machines[m] {
			continue // another name of the same host
		}
		machines[a.Facts.Machine] = true
		for _, addr := range a.Facts.Addrs {
			if !j.Run.Interfaces.Allow(addr) {
				continue
			}
			key := addr.Prefix.Addr().String() + " of " + addr.Interface
			if holders[key] == nil {
				order = append(order, key)
			}
			holders[key] = append(holders[key], a.Name)
		}
	}
	for _, key := range order {
		if len(holders[key]) < 2 {
			continue
		}
		name := key[strings.LastIndexByte(key, ' ')+1:]
		for _, h := range holders[key] {
			j.add("mpi.address", h, finding.Warnf("they have the same address, %s", key).
				Breaking("a process that calls another there may reach itself").Do("%s", j.leaveOut(name)))
		}
	}
}

func (j *judge) leaveOut(name string) string {
	switch {
	case j.Run.Forward:
		return "mpiexec -iface INTERFACE   # one that leads to the other hosts"
	case j.MPI == "openmpi5":
		return "mpirun --prtemca prte_if_exclude lo," + name + " --mca btl_tcp_if_exclude lo," + name
	}
	return "mpirun --mca oob_tcp_if_exclude lo," + name + " --mca btl_tcp_if_exclude lo," + name
}

// sameLimit names the hosts whose limit differs from that of most.
func (j *judge) sameLimit(all []Answer, name string, of func(Answer) string) {
	values := slices.DeleteFunc(finding.Map(all, of), func(v string) bool { return v == "" })
	common := most(values)
	for _, a := range all {
		if a.Local && len(all) > 1 { // its processes have the limits of the shell that starts mpirun
			continue
		}
		v := of(a)
		if v == "" || !lower(v, common) || name == "nofile" && j.starves(a) {
			continue
		}
		f := finding.Warnf("%s is %s there, and %s on the other hosts", name, kib(name, v), kib(name, common)).
			Do("on it: /etc/security/limits.d/, or the unit of its sshd; then log in again")
		if name == "memlock" {
			f = f.Breaking("RDMA cannot register its memory, where the host uses it")
		} else {
			f = f.Breaking("a process that connects to many others runs out of descriptors")
		}
		j.add("mpi.limits", a.Name, f)
	}
}

// daemonFiles is how many files the daemon of Open MPI 5 needs at least: that of 5.0.11 ends at 84 and runs at 88.
const daemonFiles = 85

// starves reports whether the daemon there may open too few files to run: mpirun crashes then.
func (j *judge) starves(a Answer) bool {
	return j.MPI == "openmpi5" && !a.Local && lower(a.Facts.Nofile, strconv.Itoa(daemonFiles))
}

// fewFiles names the hosts whose daemon cannot run.
func (j *judge) fewFiles(a Answer) {
	if j.starves(a) {
		j.add("mpi.limits", a.Name, finding.Failf("its %s may open %s files, and needs more than %d",
			path.Base(j.Run.Daemon), a.Facts.Nofile, daemonFiles).See(a.Name, "ulimit -n: %s", a.Facts.Nofile).
			Breaking("the daemon ends, and mpirun crashes").
			Do("on it: nofile in /etc/security/limits.d/, or LimitNOFILE in the unit of its sshd; then log in again"))
	}
}

// lower reports whether a limit is lower than another.
func lower(v, than string) bool {
	var a, b float64
	switch {
	case v == than || v == "unlimited":
		return false
	case than == "unlimited":
		return true
	}
	_, err1 := fmt.Sscan(v, &a)
	_, err2 := fmt.Sscan(than, &b)
	return err1 == nil && err2 == nil && a < b
}

// kib returns a limit as text: ulimit prints memlock in KiB.
func kib(name, v string) string {
	if name == "memlock" && v != "unlimited" {
		return v + " KiB"
	}
	return v
}
