package fabric

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestResolverIsReadAsGlibcDoes(t *testing.T) {
	addrs := func(ss ...string) (out []netip.Addr) {
		for _, s := range ss {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	for _, tt := range []struct {
		name, text, host string
		want             Resolver
	}{
		{"a plain one", "# by hand\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch hpc.test example.test.\n", "node5",
			Resolver{Servers: addrs("10.0.0.2", "10.0.0.3"), Search: []string{"hpc.test", "example.test"}, Ndots: 1, Timeout: 5,
				Attempts: 2}},
		{"a pod's", "search ns.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n", "pod-0",
			Resolver{Servers: addrs("10.96.0.10"), Search: []string{"ns.svc.cluster.local", "svc.cluster.local"}, Ndots: 5,
				Timeout: 5, Attempts: 2}},
		{"more than glibc takes", "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver " +
			"10.0.0.4\noptions timeout:99 attempts:99 ndots:99 rotate\n", "x",
			Resolver{Servers: addrs("10.0.0.1", "10.0.0.2", "10.0.0.3"), Ndots: 15, Timeout: 30, Attempts: 5, Rotate: true}},
		{"the last of search and domain", "search a.test\ndomain b.test\nnameserver fe80::1%eth0\n", "node5.c.test",
			Resolver{Servers: addrs("fe80::1%eth0"), Search: []string{"b.test"}, Ndots: 1, Timeout: 5, Attempts: 2}},
		{"none", "", "node5.c.test", Resolver{Servers: addrs("127.0.0.1"), Search: []string{"c.test"}, Ndots: 1, Timeout: 5,
			Attempts: 2}},
		{"what cannot be read", "nameserver\nnameserver nine\noptions ndots: ndots:x ndots:-1\nsearch\n", "x",
			Resolver{Servers: addrs("127.0.0.1"), Ndots: 1, Timeout: 5, Attempts: 2}},
	} {
		if diff := cmp.Diff(tt.want, parseResolver(tt.text, tt.host), sameAddr); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestServicesAreThoseOfTheHostsLine(t *testing.T) {
	for text, want := range map[string]string{
		"passwd: files\nhosts: files dns\n":                                      "files dns",
		"hosts:  files mdns4_minimal [NOTFOUND=return] dns # by hand\n":          "files mdns4_minimal dns",
		"hosts: mymachines resolve [ !UNAVAIL = return ] files myhostname dns\n": "mymachines resolve files myhostname dns",
		"":                    "files dns",
		"#hosts: files\n":     "files dns",
		"hosts: files\n":      "files",
		"hosts: [x\nq: dns\n": "",
	} {
		if got := strings.Join(parseServices(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestHostsFileIsSearchedForTheNamesThatCount(t *testing.T) {
	text := "127.0.0.1 localhost\n127.0.1.1 node5.hpc.test node5 # Debian's\n10.0.0.1\tHOST0\n10.0.0.2 host1 # " +
		"host0\n\nnot-an-address host0\n10.0.0.9 other\n10.0.0.3 host0\n"
	want := []HostsLine{
		{netip.MustParseAddr("127.0.1.1"), []string{"node5.hpc.test", "node5"}},
		{netip.MustParseAddr("10.0.0.1"), []string{"HOST0"}},
		{netip.MustParseAddr("10.0.0.3"), []string{"host0"}},
	}
	if diff := cmp.Diff(want, parseHosts(text, []string{"host0.", "Node5", ""}), sameAddr); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parseHosts(text, []string{""}); got != nil {
		t.Errorf("no name: %v", got)
	}
}

func TestLimitOfAGroupIsTheLowestAbove(t *testing.T) {
	const noKill = "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n"
	for _, tt := range []struct {
		name  string
		at    string
		files map[string]string
		want  Cgroup
	}{
		{"version 2, set above", "0::/user.slice/session.scope\n", map[string]string{
			"fs/cgroup/user.slice/session.scope/memory.max": "max\n", "fs/cgroup/user.slice/memory.max": "4294967296\n",
			"fs/cgroup/user.slice/session.scope/pids.max": "500\n", "fs/cgroup/user.slice/session.scope/pids.current": "20\n",
			"fs/cgroup/user.slice/pids.max": "9000\n", "fs/cgroup/user.slice/pids.current": "700\n",
			"fs/cgroup/user.slice/session.scope/cpu.max": "max 100000\n", "fs/cgroup/user.slice/cpu.max": "50000 100000\n"},
			Cgroup{Memory: 4 << 30, Pids: 500, PidsUsed: 20, CPUs: 0.5}},
		{"version 2, a container's own root", "0::/\n", map[string]string{"fs/cgroup/memory.max": "1073741824\n",
			"fs/cgroup/pids.max": "max\n"}, Cgroup{Memory: 1 << 30}},
		{"version 1, the host's path in a container", "4:memory:/docker/abc\n3:cpu,pids:/docker/abc\n0::/docker/abc\n",
			map[string]string{
				"fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n", "fs/cgroup/pids/pids.max": "100\n",
				"fs/cgroup/pids/pids.current": "7\n", "fs/cgroup/cpu/cpu.cfs_quota_us": "1000\n",
				"fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
			Cgroup{Memory: 2 << 30, Pids: 100, PidsUsed: 7, CPUs: 0.01}},
		{"version 2, filled by files in memory", "0::/pod\n", map[string]string{"fs/cgroup/pod/memory.max": "800000000\n",
			"fs/cgroup/pod/memory.stat": "anon 5\nfile 999\nshmem 450024576\nshmem_thp 7\n"},
			Cgroup{Memory: 800000000, Held: 450000000}},
		{"version 1, filled by files in memory, the host's path", "4:memory:/docker/abc\n", map[string]string{
			"fs/cgroup/memory/memory.limit_in_bytes": "800000000\n",
			"fs/cgroup/memory/memory.stat":           "shmem 1\ntotal_cache 9\ntotal_shmem 450024576\n"},
			Cgroup{Memory: 800000000, Held: 450000000}},
		{"no more files in memory than free swap", "0::/\n", map[string]string{"fs/cgroup/memory.max": "800000000\n",
			"fs/cgroup/memory.stat": "shmem 24576\n"}, Cgroup{Memory: 800000000}},
		{"version 1, none", "4:memory:/\n", map[string]string{
			"fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, Cgroup{}},
		{"version 1, without an OOM killer", "4:memory:/job/step\n", map[string]string{
			"fs/cgroup/memory/job/memory.limit_in_bytes": "2147483648\n", "fs/cgroup/memory/job/memory.oom_control": noKill},
			Cgroup{Memory: 2 << 30, Stalls: true}},
		{"version 1, without an OOM killer and without a limit", "4:memory:/job\n", map[string]string{
			"fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
			"fs/cgroup/memory/job/memory.oom_control":    noKill}, Cgroup{}},
		{"version 1, with an OOM killer", "4:memory:/job\n", map[string]string{
			"fs/cgroup/memory/job/memory.limit_in_bytes": "2147483648\n",
			"fs/cgroup/memory/job/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"},
			Cgroup{Memory: 2 << 30}},
		{"nothing", "", nil, Cgroup{}},
	} {
		sys := fstest.MapFS{}
		for name, text := range tt.files {
			sys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		proc := fstest.MapFS{"self/cgroup": &fstest.MapFile{Data: []byte(tt.at)},
			"meminfo": &fstest.MapFile{Data: []byte("MemTotal: 9 kB\nSwapTotal: 9 kB\nSwapFree: 24 kB\n")}}
		if diff := cmp.Diff(tt.want, cgroup(proc, sys)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestAvailableMemoryIsWhatTheGroupsLeave(t *testing.T) {
	const free, limit, used = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n", "4294967296\n", "1073741824\n"
	for _, tt := range []struct {
		name, meminfo, at string
		files             map[string]string
		want              int64
	}{
		{"no group", free, "", nil, 8 << 30},
		{"version 2", free, "0::/job/step\n", map[string]string{"fs/cgroup/job/memory.max": limit,
			"fs/cgroup/job/memory.current": used, "fs/cgroup/job/step/memory.max": "max\n"}, 3 << 30},
		{"version 1", free, "4:memory:/job\n", map[string]string{"fs/cgroup/memory/job/memory.limit_in_bytes": limit,
			"fs/cgroup/memory/job/memory.usage_in_bytes": used}, 3 << 30},
		{"a group with more than the machine", "MemAvailable: 1048576 kB\n", "0::/job\n", map[string]string{
			"fs/cgroup/job/memory.max": limit, "fs/cgroup/job/memory.current": used}, 1 << 30},
		{"a group that is full", free, "0::/job\n", map[string]string{"fs/cgroup/job/memory.max": used,
			"fs/cgroup/job/memory.current": limit}, 0},
		{"unknown", "", "", nil, 0},
	} {
		sys, proc := fstest.MapFS{}, fstest.MapFS{"self/cgroup": &fstest.MapFile{Data: []byte(tt.at)},
			"meminfo": &fstest.MapFile{Data: []byte(tt.meminfo)}}
		for name, text := range tt.files {
			sys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := available(proc, sys); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTheKernelsKillsForLackOfMemoryAreOfTheGroupElseOfTheMachine(t *testing.T) {
	const vmstat = "nr_free_pages 5\noom_kill 7\n"
	for _, tt := range []struct {
		name, at, file, text string
		want                 int64
	}{
		{"version 2", "0::/job/step\n", "fs/cgroup/job/step/memory.events", "oom 3\noom_kill 2\noom_group_kill 1\n", 2},
		{"version 1", "4:memory:/job\n", "fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\noom_kill 4\n", 4},
		{"a container whose path is the host's", "0::/\n", "fs/cgroup/memory.events", "oom_kill 1\n", 1},
		{"no file", "0::/\n", "fs/cgroup/other", "", 7},
	} {
		proc := fstest.MapFS{"self/cgroup": &fstest.MapFile{Data: []byte(tt.at)},
			"vmstat": &fstest.MapFile{Data: []byte(vmstat)}}
		sys := fstest.MapFS{tt.file: &fstest.MapFile{Data: []byte(tt.text)}}
		if got, foreign := OOMKills(proc, sys); got != tt.want || foreign != (tt.text == "") {
			t.Errorf("%s: %d, foreign %v, want %d", tt.name, got, foreign, tt.want)
		}
	}
}

func TestCapabilitiesCountInTheFirstNamespaceOnly(t *testing.T) {
	first, own := "         0          0 4294967295\n", "         0       1000          1\n"
	all, none := "CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n"
	for _, tt := range []struct {
		name, uidMap, status string
		lock, procs          bool
	}{
		{"root", first, "Uid:\t0\t0\t0\t0\n" + all, true, true},
		{"root without capabilities, as in a container", first, "Uid:\t0\t0\t0\t0\n" + none, false, true},
		{"a user", first, "Uid:\t1000\t1000\t1000\t1000\n" + none, false, false},
		{"a container that adds IPC_LOCK", first, "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000004000\n", true, false},
		{"root of a rootless container", own, "Uid:\t0\t0\t0\t0\n" + all, false, false},
		{"unreadable", "", "", false, false},
	} {
		proc := fstest.MapFS{"self/uid_map": {Data: []byte(tt.uidMap)}, "self/status": {Data: []byte(tt.status)}}
		got := system(proc, fstest.MapFS{}, fstest.MapFS{}, nil)
		if got.IPCLock != tt.lock || got.FreeProcs != tt.procs {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got.IPCLock, got.FreeProcs, tt.lock, tt.procs)
		}
	}
}

func TestTheMarkOfAMachineIDIsNotTheID(t *testing.T) {
	const id = "8b0a1f6e2c3d4e5f60718293a4b5c6d7"
	mark := imageMark(id + "\n")
	if len(mark) != 8 || strings.Contains(id, mark) || imageMark(id) != mark || imageMark("0"+id[1:]) == mark {
		t.Errorf("%q of %q", mark, id)
	}
	for _, text := range []string{"", "uninitialized\n", id[:30], id + "00", "z" + id[1:]} {
		if got := imageMark(text); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestLimitOfProcessesAndReservedPorts(t *testing.T) {
	row := "Max processes             %s               unlimited            processes \n"
	for text, want := range map[string]uint64{"4096": 4096, "unlimited": math.MaxUint64, "many": 0, "": 0} {
		if got, _ := softLimit(strings.Replace(row, "%s", text, 1), "Max processes"); got != want && text != "" {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got, _ := softLimit("", "Max processes"); got != 0 {
		t.Errorf("no row: %d", got)
	}
	if diff := cmp.Diff([][2]int{{8080, 8080}, {29400, 29500}}, parsePorts("8080,29400-29500,9-8,x,70000\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const someMounts = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /data rw,relatime shared:5 - nfs4 storage:/export rw,vers=4.2,proto=tcp,nconnect=4
31 27 0:31 / /data/my\040set rw - nfs storage:/set rw,proto=rdma,port=20049
32 27 0:32 / /scratch rw - lustre 10.0.0.1@o2ib:/fs rw
`

func TestAPathLiesOnTheMountThatIsNearest(t *testing.T) {
	mounts := parseMounts(someMounts)
	for path, want := range map[string]string{
		"/": "ext4 /", "/home/x": "ext4 /", "/database": "ext4 /", "/data": "nfs4 /data", "/data/x": "nfs4 /data",
		"/data/my set/x": "nfs /data/my set", "/scratch": "lustre /scratch",
	} {
		if m := holds(mounts, path); m.kind+" "+m.at != want {
			t.Errorf("%s lies on %s at %s, want %s", path, m.kind, m.at, want)
		}
	}
	if got := holds(mounts, "/data/x").option("proto"); got != "tcp" {
		t.Errorf("proto %q", got)
	}
	// What is mounted over a mount hides it.
	if m := holds(parseMounts(someMounts+"33 30 0:33 / /data rw - tmpfs none rw\n"), "/data/x"); m.kind != "tmpfs" {
		t.Errorf("hidden by tmpfs: %+v", m)
	}
	var far []string
	for _, m := range mounts {
		if m.remote() {
			far = append(far, m.at)
		}
	}
	if diff := cmp.Diff([]string{"/data", "/data/my set", "/scratch"}, far); diff != "" {
		t.Errorf("mounts that may wait (-want +got):\n%s", diff)
	}
	for line, want := range map[string]bool{
		"1 2 0:1 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw": false,
		"1 2 0:1 / /home rw - autofs auto.home rw":                    true, "1 2 0:1 / /x rw - fuse.sshfs h:/ rw": true,
	} {
		if got := parseMounts(line)[0].remote(); got != want {
			t.Errorf("%s may wait: %v", line, got)
		}
	}
}

func TestTransportThatFstabAsksFor(t *testing.T) {
	data := holds(parseMounts(someMounts), "/data")
	for text, want := range map[string]string{
		"storage:/export /data nfs rdma,port=20049 0 0":              "rdma",
		"storage:/export /data/ nfs4 vers=4.2,proto=rdma 0 0":        "rdma",
		"storage:/export /data nfs proto=tcp 0 0":                    "tcp",
		"storage:/export /data nfs defaults 0 0":                     "",
		"# storage:/export /data nfs rdma 0 0":                       "",
		"storage:/export /elsewhere nfs rdma 0 0\n/dev/x /data ext4": "",
	} {
		if got, _ := meant(parseFstab(text), data); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTransportOfAMountByHand(t *testing.T) {
	const fstab = "storage:/export /data nfs proto=tcp 0 0\n"
	for options, want := range map[string]string{
		"vers=4.2,proto=tcp,port=20049": "rdma", "vers=3,proto=rdma,port=20049": "rdma", "vers=4.2,proto=tcp,port=2049": "",
		"vers=4.2,proto=tcp": "",
	} {
		m := parseMounts("30 27 0:30 / /mnt/set rw - nfs4 filer:/set rw," + options)[0]
		if got, by := meant(parseFstab(fstab), m); got != want || (by == "") != (want == "") {
			t.Errorf("%s: %q by %q, want %q", options, got, by, want)
		}
	}
}

func TestDisksOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	got := AskDisks(t.Context(), []string{dir, "/proc", dir + "/none"})
	if len(got) != 3 || got[0].Size <= 0 || got[0].Mount == "" || got[0].Kind == "" || got[0].Err != "" ||
		got[0].Late != "" {
		t.Fatalf("%+v", got)
	}
	if got[1].Kind != "proc" || got[2].Err == "" {
		t.Errorf("%+v", got[1:])
	}
}

func FuzzSystemFiles(f *testing.F) {
	f.Add("nameserver 10.0.0.2\nsearch a b\noptions ndots:5\n")
	f.Add("10.0.0.1 host0\nhosts: files [NOTFOUND=return] dns\n")
	f.Add(someMounts)
	f.Add("storage:/export /data nfs rdma 0 0\n0::/user.slice\n")
	f.Fuzz(func(t *testing.T, s string) {
		r := parseResolver(s, s)
		if len(r.Servers) == 0 || len(r.Servers) > maxServers || r.Ndots < 0 || r.Ndots > maxNdots ||
			r.Timeout > maxTimeout || r.Attempts > maxAttempts {
			t.Errorf("%+v", r)
		}
		for _, l := range parseHosts(s, []string{"host0"}) {
			if !l.Addr.IsValid() || len(l.Names) == 0 {
				t.Errorf("%+v", l)
			}
		}
		parseServices(s)
		parseStatus(s)
		softLimit(s, "Max processes")
		for _, r := range parsePorts(s) {
			if r[0] < 0 || r[0] > r[1] || r[1] > 65535 {
				t.Errorf("ports %v", r)
			}
		}
		mounts := parseMounts(s)
		holds(mounts, s)
		meant(parseFstab(s), holds(mounts, "/"))
		for _, at := range parseCgroups(s) {
			if !strings.HasPrefix(at, "/") {
				t.Errorf("group %q", at)
			}
		}
	})
}

// A file system whose server never answers is distinguished from the others, and delays
// nothing forever.
func TestADiskThatHangsIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the whole time limit")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings,
		debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("a program with the race detector takes a second to end, the child's whole time")
	}
	dead, well := t.TempDir(), t.TempDir()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())
	if err := unix.Mount("dead", dead, "fuse", 0, options); err != nil {
		dev.Close()
		t.Skipf("may not mount: %v", err)
	}
	t.Cleanup(func() {
		unix.Unmount(dead, unix.MNT_DETACH)
		dev.Close()
	})
	got := AskDisks(t.Context(), []string{well, dead})
	if len(got) != 2 || got[0].Late != "" || got[0].Size == 0 || got[1].Late == "" || got[1].Kind != "fuse" ||
		got[1].Source != "dead" {
		t.Errorf("%+v", got)
	}
}
