package truth

import (
	"os"
	"path/filepath"
)

// limits returns limits of the system.
func limits() []mechanism {
	set := func(line string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.hosts[f.at].Prepare = append(b.hosts[f.at].Prepare, "ulimit "+line+f.strong())
		}
	}
	all := []mechanism{
		{name: "open files", strengths: []string{"256", "64", "20", "12"}, make: set("-n ")},
		{name: "open files, soft", strengths: []string{"256", "64", "20", "12"}, make: set("-S -n ")},
		{name: "the size of files", strengths: []string{"1000", "10", "0"}, make: set("-f ")},
		{name: "address space in KiB", strengths: []string{"4000000", "1000000", "100000", "20000"}, make: set("-v ")},
		{name: "the stack in KiB", strengths: []string{"1024", "64"}, make: set("-s ")},
		{name: "data in KiB", strengths: []string{"1000000", "100000", "10000"}, make: set("-d ")},
		{name: "no core files", make: set("-c 0")},
		{name: "no locked memory", make: set("-l 0")},
		{name: "processes of an ordinary user", strengths: []string{"200", "20", "3"}, takes: "user limit",
			make: func(b *bed, f fault) {
				h := b.hosts[f.at]
				h.Prepare = append(h.Prepare, "ulimit -p "+f.strong())
				b.unprivileged(h)
			}},
	}
	for i := range all {
		m := &all[i]
		m.topic, m.causes, m.degrades = "limit", "limit died command storage", len(m.strengths) > 0
		if m.takes == "" {
			m.takes = "limit"
		}
	}
	return all
}

// unprivileged runs a host's command as user nobody with folders of its own.
func (b *bed) unprivileged(h *host) {
	for dir := h.Dir(); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	h.Prepare = append(h.Prepare, "mount -t tmpfs -o mode=1777 none /mnt", "chmod 1777 /dev/shm")
	h.env = append(h.env, "TMPDIR=/mnt", "HOME=/mnt")
	h.wrap = append([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"},
		h.wrap...)
}

// mounts returns faults of file systems.
func mounts() []mechanism {
	prepare := func(lines ...string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.hosts[f.at].Prepare = append(b.hosts[f.at].Prepare, lines...) }
	}
	env := func(all ...string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.hosts[f.at].env = append(b.hosts[f.at].env, all...) }
	}
	all := []mechanism{
		{name: "the script's folder is empty", causes: "command died", takes: "script", make: func(b *bed, f fault) {
			prepare("mount -t tmpfs none "+filepath.Dir(b.script))(b, f)
		}},
		{name: "the script's folder is read-only", make: func(b *bed, f fault) {
			dir := filepath.Dir(b.script)
			prepare("mount --bind "+dir+" "+dir, "mount -o remount,bind,ro "+dir)(b, f)
		}},
		{name: "TMPDIR is full", takes: "tmp", degrades: true,
			make: prepare(`mount -t tmpfs -o size=64k none "$TMPDIR"`,
				`{ head -c 1m /dev/zero >"$TMPDIR/x"; true; } 2>/dev/null`)},
		{name: "TMPDIR is small", takes: "tmp", degrades: true, strengths: []string{"64m", "4m", "256k"},
			make: func(b *bed, f fault) { prepare(`mount -t tmpfs -o size=`+f.strong()+` none "$TMPDIR"`)(b, f) }},
		{name: "TMPDIR is read-only", takes: "tmp", degrades: true, make: prepare(`mount -t tmpfs -o ro none "$TMPDIR"`)},
		{name: "TMPDIR is noexec", takes: "tmp", make: prepare(`mount -t tmpfs -o noexec,nosuid,nodev none "$TMPDIR"`)},
		{name: "TMPDIR is missing", takes: "tmp", degrades: true, make: env("TMPDIR=/scratch/of/another/node")},
		{name: "/tmp is read-only, and TMPDIR is not set", takes: "tmp", degrades: true, make: func(b *bed, f fault) {
			b.hosts[f.at].wrap = append(b.hosts[f.at].wrap, "env", "-u", "TMPDIR")
			prepare("mount -t tmpfs -o ro none /var/tmp", "mount --bind /tmp /tmp", "mount -o remount,bind,ro /tmp")(b, f)
		}},
		{name: "HOME is missing", make: env("HOME=/home/missing")},
		{name: "/dev/shm is small", degrades: true, strengths: []string{"64m", "64k"}, make: func(b *bed, f fault) {
			prepare("mount -t tmpfs -o size="+f.strong()+" none /dev/shm")(b, f)
		}},
		{name: "/dev/shm is read-only", degrades: true, make: prepare("mount -t tmpfs -o ro none /dev/shm")},
		{name: "the working directory is gone", degrades: true,
			make: prepare(`mkdir "$0/gone"`, `cd "$0/gone"`, `rmdir "$0/gone"`)},
		{name: "the working directory is read-only",
			make: prepare(`mkdir -p "$0/ro"`, `mount -t tmpfs -o ro none "$0/ro"`, `cd "$0/ro"`)},
		{name: "/sys is empty", make: prepare("mount -t tmpfs none /sys")},
		{name: "/proc is empty", make: func(b *bed, f fault) { // not before the host's name is set, which needs it
			b.hosts[f.at].wrap = append(b.hosts[f.at].wrap, "/bin/sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh")
		}},
		{name: "/run is empty", make: prepare("mount -t tmpfs none /run")},
		{name: "/var is empty", make: prepare("mount -t tmpfs none /var")},
	}
	for i := range all {
		m := &all[i]
		m.topic = "mount"
		if m.causes == "" {
			m.causes = "storage died"
		}
	}
	return all
}

// namespaces returns containers, users and host names.
func namespaces() []mechanism {
	wrap := func(words ...string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.each(f, func(h *host) { h.wrap = append(h.wrap, words...) })
		}
	}
	called := func(name string) []string {
		return []string{"/bin/sh", "-c", `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`, name}
	}
	return []mechanism{
		{topic: "namespace", name: "its own process ids", make: wrap("unshare", "--pid", "--fork", "--mount-proc")},
		{topic: "namespace", name: "its own process ids, and the machine's /proc", degrades: true,
			make: wrap("unshare", "--pid", "--fork")},
		{topic: "namespace", name: "its own IPC", make: wrap("unshare", "--ipc")},
		{topic: "namespace", name: "its own users", make: wrap("unshare", "--user", "--map-root-user")},
		{topic: "namespace", name: "its own control groups", make: wrap("unshare", "--cgroup")},
		{topic: "namespace", name: "an ordinary user", takes: "user tmp",
			make: func(b *bed, f fault) { b.unprivileged(b.hosts[f.at]) }},
		{topic: "namespace", name: "no capabilities", make: wrap("setpriv", "--bounding-set", "-all", "--inh-caps", "-all",
			"--no-new-privs")},
		{topic: "namespace", name: "the host is called localhost", causes: "name", degrades: true, takes: "names",
			make: wrap(called("localhost")...)},
		{topic: "namespace", name: "the host name is a number", causes: "name", degrades: true, takes: "names",
			make: wrap(called("05")...)},
		{topic: "namespace", name: "all hosts have one name", causes: "name", scope: allNodes, degrades: true, takes: "names",
			make: wrap(called("host0")...)},
		{topic: "namespace", name: "a host name that no file knows", causes: "name", degrades: true, takes: "names",
			make: wrap(called("gpu-node-17.cluster.example")...)},
	}
}
