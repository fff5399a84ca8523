package system

import (
	"context"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/checktest"
)

// granted is a node that was asked for its limits.
func granted(s fabric.System) preflight.Input {
	in := checktest.NProc(checktest.Four(), "8")
	if s.Procs == 0 {
		s.Procs = math.MaxUint64
	}
	in.Node.System = s
	return in
}

func TestProcessesAndThreads(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"no limit", granted(fabric.System{}), "ok no limit"},
		{"room in the group", granted(fabric.System{Cgroup: fabric.Cgroup{Pids: 4096, PidsUsed: 100}}),
			"ok room for 3996 more, about 512"},
		{"no room in the group", granted(fabric.System{Cgroup: fabric.Cgroup{Pids: 600, PidsUsed: 100}}),
			"warn the control group has room for 500 more processes and threads, 8 processes of the job need about 512"},
		{"the group is full", granted(fabric.System{Cgroup: fabric.Cgroup{Pids: 100, PidsUsed: 120}}),
			"warn room for 0 more"},
		{"the user's limit", granted(fabric.System{Procs: 300}), "warn this user may have 300 processes"},
		{"the user's limit does not bind root", granted(fabric.System{Procs: 300, FreeProcs: true}), "ok no limit"},
		{"a high one", granted(fabric.System{Procs: 65536}), "ok 65536"},
		{"one process", checktest.NProc(granted(fabric.System{Procs: 100}), "1"), "ok 100"},
		{"not known", checktest.Four(), "skip could not tell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.pids", tt.in),
				tt.want)
		})
	}
	in := granted(fabric.System{Procs: 300})
	in.Thresholds = map[string]float64{"limits.pids": 10}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.pids", in), "ok 300, about 80")
}

func TestMemoryOfTheGroup(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"no limit", granted(fabric.System{}), "ok no limit"},
		{"enough", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 64 << 30}}), "ok 64 GiB for 8"},
		{"less than torch itself takes", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 1 << 30}}),
			"warn the control group grants 1 GiB to all processes, 8 of the job need at least 2 GiB"},
		{"filled by files in memory", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 4 << 30, Held: 3 << 30}}),
			"warn the control group grants 4 GiB, and files in memory hold 3 GiB of that: 1 GiB is left, the job needs at " +
				"least 2.2 GiB"},
		{"files in memory, and room for the job", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 64 << 30,
			Held: 32 << 30}}), "ok 64 GiB for 8"},
		{"a small group without files in memory", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 2 << 30}}),
			"ok 2 GiB for 8"},
		{"no OOM killer", granted(fabric.System{Cgroup: fabric.Cgroup{Memory: 64 << 30, Stalls: true}}),
			"warn the control group grants 64 GiB, and its OOM killer is off"},
		{"not known", checktest.Four(), "skip could not tell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.memory", tt.in), tt.want)
		})
	}
}

func TestProcessorTimeOfTheGroup(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"no quota", granted(fabric.System{}), "ok no quota"},
		{"enough", granted(fabric.System{Cgroup: fabric.Cgroup{CPUs: 4}}), "ok 4 cores for 8"},
		{"a hundredth", granted(fabric.System{Cgroup: fabric.Cgroup{CPUs: 0.01}}),
			"warn the control group grants 0.01 cores to all processes, 8 of the job need at least 2"},
		{"not known", checktest.Four(), "skip could not tell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.cpu", tt.in), tt.want)
		})
	}
}

func TestTheStanzaFitsWhereWeAre(t *testing.T) {
	tight := func(kind string, env ...string) preflight.Input {
		in := checktest.Env(checktest.GPUs(granted(fabric.System{Procs: 4096,
			Cgroup: fabric.Cgroup{Pids: 100, Memory: 1 << 20, CPUs: 0.1}}), 8), env...)
		in.Node.Container.Kind = kind
		in.Node.Limits = fabric.Limits{Memlock: 65536, Nofile: 10, NofileKnown: true, Shm: 1 << 20, ShmSize: 64 << 20}
		in.Node.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Num: 1, State: 4}}}}
		return in
	}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want map[string]string
	}{
		{"Kubernetes", tight("kubernetes", "SLURM_JOB_ID", "7"),
			map[string]string{"limits.memlock": "IPC_LOCK", "shm.size": "emptyDir: {medium: Memory, sizeLimit: 8Gi}",
				"limits.pids": "podPidsLimit", "limits.memory": "resources.limits.memory",
				"limits.cpu": "resources.limits.cpu"}},
		{"Docker", tight("docker"), map[string]string{"limits.memlock": "docker run --ulimit memlock=-1:-1",
			"limits.nofile": "--ulimit nofile=65536", "shm.size": "--shm-size=8g", "limits.pids": "--pids-limit",
			"limits.memory": "--memory="}},
		{"Slurm", tight("", "SLURM_JOB_ID", "7"), map[string]string{"limits.memlock": "PropagateResourceLimitsExcept=MEMLOCK",
			"limits.nofile": "slurmd.service", "shm.size": "mount -o remount", "limits.memory": "sbatch --mem=0"}},
		{"a unit of systemd", tight("", "INVOCATION_ID", "7"),
			map[string]string{"limits.memlock": "LimitMEMLOCK=infinity", "limits.nofile": "LimitNOFILE=65536",
				"limits.pids": "TasksMax=infinity"}},
		{"a shell", tight(""), map[string]string{"limits.memlock": "ulimit -l unlimited", "limits.nofile": "ulimit -n 65536",
			"limits.pids": "systemctl set-property"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for id, want := range tt.want {
				f := checktest.Verdict(t, Checks(), id, tt.in)
				if f.Status != finding.Warn || !strings.Contains(f.Fix, want) {
					t.Errorf("%s: %s %q, want a warning with the fix %q", id, f.Status, f.Fix, want)
				}
			}
		})
	}
}

func TestMemlockDoesNotBindACapability(t *testing.T) {
	in := granted(fabric.System{IPCLock: true})
	in.Node.Limits.Memlock = 65536
	in.Node.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Num: 1, State: 4}}}}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.memlock", in), "ok CAP_IPC_LOCK")
}

func TestLimitsThatEndAProcess(t *testing.T) {
	for _, tt := range []struct {
		limits fabric.Limits
		want   string
	}{
		{fabric.Limits{}, "skip could not tell"},
		{fabric.Limits{Memlock: 1 << 20}, "ok without a limit"},
		{fabric.Limits{CPUTime: 600}, "warn after 600 s of processor time"},
		{fabric.Limits{FileSize: 1 << 30}, "warn a file may have 1 GiB at most"},
		{fabric.Limits{FileSize: 1 << 43}, "ok without a limit"},
		{fabric.Limits{Data: 150 << 20}, "warn 150 MiB of memory of its own (ulimit -d)"},
		{fabric.Limits{Addresses: 2 << 30}, "warn 2 GiB of addresses (ulimit -v)"},
		{fabric.Limits{Data: 1 << 30, Addresses: 4e9}, "ok without a limit"},
	} {
		in := granted(fabric.System{})
		in.Node.Limits = tt.limits
		in.Job.Line.Kind = launcher.Torchrun
		checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.ends", in), tt.want)
	}
	in := granted(fabric.System{})
	in.Node.Limits.Data, in.Job.Line.Kind = 150<<20, launcher.Program
	checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.ends", in), "ok without a limit") // it may need little
}

func TestPortsThatConnectionsGetByThemselves(t *testing.T) {
	host := func(port int, tier setting.Tier) preflight.Input {
		in := granted(fabric.System{})
		in.Node.Ephemeral = [2]int{32768, 60999}
		in.Job.Store.V.Port, in.Job.Store.From.Tier = port, tier
		in.Serve = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("10.0.0.5"), uint16(port))}
		return in
	}
	master := func(port int, tier setting.Tier) preflight.Input {
		in := host(29377, setting.Explicit)
		in.Serve = nil
		in.Job.MasterPort = setting.Value[int]{V: port, Set: true, From: setting.Source{Name: "--master-port", Tier: tier}}
		return in
	}
	wide := func(port int) preflight.Input {
		in := host(port, setting.Explicit)
		in.Node.Ephemeral = [2]int{1024, 65535}
		return in
	}
	reserved := host(40000, setting.Explicit)
	reserved.Node.System.Reserved = [][2]int{{40000, 40010}}
	second := master(40000, setting.Explicit)
	second.Job.Index = setting.Value[int]{V: 1, Set: true}
	unknown := host(40000, setting.Explicit)
	unknown.Node.Ephemeral = [2]int{}
	short := checktest.Four()
	short.Node.Ephemeral = [2]int{40000, 40002}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"the default", host(29377, setting.Explicit), "skip the user chose no port"},
		{"the default, where every port is in the range", wide(29377), "skip the user chose no port"},
		{"another one there", wide(29378), "warn port 29378 of --store"},
		{"outside", host(29378, setting.Explicit), "ok outside 32768 to 60999"},
		{"in the range", host(40000, setting.Explicit),
			"warn port 40000 of --store is in the range of outgoing connections (32768 to 60999)"},
		{"its last", host(60999, setting.Explicit), "warn port 60999"},
		{"reserved", reserved, "ok "},
		{"a scheduler's", host(40000, setting.Scheduler), "skip the user chose no port"},
		{"range unknown", unknown, "ok "},
		{"master port in the range", master(40000, setting.Explicit), "warn port 40000 of --master-port"},
		{"master port of the line, of which another is agreed on", master(40000, setting.Line),
			"skip the user chose no port"},
		{"master port of another node", second, "skip the user chose no port"},
		{"a range of three", short, "warn has 3 ports"},
		{"master port outside", master(29500, setting.Explicit), "ok "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "port.ephemeral", tt.in), tt.want)
		})
	}
}

func TestSidecarIsSeenByItsPorts(t *testing.T) {
	pod := checktest.Four()
	pod.Node.Container.Kind = "kubernetes"
	for _, tt := range []struct {
		name string
		in   preflight.Input
		open []uint16
		want string
	}{
		{"none", pod, nil, "ok no sidecar"},
		{"Istio", pod, []uint16{15001, 15006, 15021}, "warn a sidecar of Istio"},
		{"Linkerd", pod, []uint16{4140, 4143, 4191}, "warn a sidecar of Linkerd"},
		{"a program at one of the ports", pod, []uint16{15001}, "ok no sidecar"},
		{"no pod", checktest.Four(), []uint16{15001, 15006}, "skip not running in a Kubernetes pod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PortUse = func(at netip.AddrPort) (preflight.PortUse, error) {
				return preflight.PortUse{Taken: slices.Contains(tt.open, at.Port())}, nil
			}
			checktest.Wants(t, checktest.Verdict(t, Checks(), "mesh.sidecar", tt.in), tt.want)
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "mesh.sidecar", pod), "skip this run looks at no port")
}

// onDisks is a node whose folders are on these file systems; the rest is on
// one that is well.
func onDisks(byPath map[string]fabric.Disk) preflight.Input {
	in := checktest.Env(checktest.Four(), "HOME", "/home/u", "TMPDIR", "/scratch/tmp", "PYTHONPATH", ":/tools/lib/")
	in.Dir = "/project/run"
	in.Job.Line.Argv, in.Job.Line.Script = []string{"torchrun", "train/t.py"}, 1
	in.Disks = func(_ context.Context, paths []string) (out []fabric.Disk) {
		for _, p := range paths {
			d, ok := byPath[p]
			if !ok {
				d = fabric.Disk{Mount: "/", Kind: "ext4", Source: "/dev/vda", Free: 1 << 40, Size: 2 << 40, Inodes: 1 << 20,
					InodeMax: 2 << 20}
			}
			d.Path = p
			out = append(out, d)
		}
		return out
	}
	return in
}

func TestFoldersOfTheJob(t *testing.T) {
	var paths []string
	for _, u := range uses(onDisks(nil)) {
		paths = append(paths, u.path)
	}
	want := []string{"/project/run", "/scratch/tmp", "/project/run/train", "/home/u", "/tools/lib"}
	if !slices.Equal(paths, want) {
		t.Errorf("folders %v, want %v", paths, want)
	}
}

func TestStorage(t *testing.T) {
	dead := fabric.Disk{Mount: "/data", Kind: "nfs4", Source: "storage:/export", Late: "3s"}
	full := fabric.Disk{Mount: "/scratch", Kind: "xfs", Source: "/dev/vdb", Free: 5 << 20, Size: 1 << 40, Inodes: 1 << 20,
		InodeMax: 1 << 20}
	noInodes := fabric.Disk{Mount: "/scratch", Kind: "ext4", Free: 1 << 40, Size: 2 << 40, Inodes: 3, InodeMax: 1 << 20}
	btrfs := fabric.Disk{Mount: "/scratch", Kind: "btrfs", Free: 1 << 40, Size: 2 << 40}
	tcp := fabric.Disk{Mount: "/data", Kind: "nfs", Source: "storage:/export", Free: 1 << 40, Size: 2 << 40, Proto: "tcp"}
	meant, as := tcp, tcp
	meant.Meant, as.Meant, as.Proto = "rdma", "rdma", "rdma"
	for _, tt := range []struct {
		name, id string
		disks    map[string]fabric.Disk
		want     []string
	}{
		{"all well", "storage.answers", nil, []string{"ok 5 folders answer (ext4)"}},
		{"all well", "storage.space", nil, []string{"ok 1 TiB free in /scratch/tmp"}},
		{"all well", "storage.nfs", nil, []string{"skip no NFS"}},
		{"one server gone", "storage.answers", map[string]fabric.Disk{"/project/run": dead, "/project/run/train": dead},
			[]string{"warn /project/run, the working directory, does not answer: nfs4 of storage:/export at /data"}},
		{"a server of PYTHONPATH gone", "storage.answers", map[string]fabric.Disk{"/tools/lib": dead},
			[]string{"fail /tools/lib, in PYTHONPATH, does not answer: nfs4 of storage:/export at /data"}},
		{"one server gone", "storage.space", map[string]fabric.Disk{"/project/run": dead}, []string{"ok 1 TiB free"}},
		{"no room", "storage.space", map[string]fabric.Disk{"/scratch/tmp": full},
			[]string{"warn /scratch/tmp (TMPDIR) has 5 MiB left of 1 TiB"}},
		{"no room in the working directory", "storage.space", map[string]fabric.Disk{"/project/run": full},
			[]string{"warn /project/run (the working directory) has 5 MiB left"}},
		{"both on one that is full", "storage.space", map[string]fabric.Disk{"/project/run": full, "/scratch/tmp": full},
			[]string{"warn 5 MiB left"}},
		{"a home without room is not written to", "storage.space", map[string]fabric.Disk{"/home/u": full}, []string{"ok "}},
		{"no inodes", "storage.space", map[string]fabric.Disk{"/scratch/tmp": noInodes},
			[]string{"warn room for 3 more files"}},
		{"no fixed number of inodes", "storage.space", map[string]fabric.Disk{"/scratch/tmp": btrfs}, []string{"ok "}},
		{"read-only", "storage.space", map[string]fabric.Disk{"/scratch/tmp": {Mount: "/scratch", ReadOnly: true,
			Free: 1 << 40, Size: 1 << 40}}, []string{"warn /scratch/tmp (TMPDIR) cannot be written to"}},
		{"an image's working directory", "storage.space",
			map[string]fabric.Disk{"/project/run": {Mount: "/", NoWrite: true, Size: 1}}, []string{"ok "}},
		{"a folder that is not there", "storage.space",
			map[string]fabric.Disk{"/scratch/tmp": {Err: "no such file or directory"}},
			[]string{"warn cannot be used: no such file"}},
		{"NFS over TCP that is meant for RDMA", "storage.nfs", map[string]fabric.Disk{"/project/run": meant},
			[]string{"warn nfs of storage:/export at /data uses tcp"}},
		{"NFS over RDMA", "storage.nfs", map[string]fabric.Disk{"/project/run": as}, []string{"ok "}},
		{"NFS over TCP", "storage.nfs", map[string]fabric.Disk{"/project/run": tcp}, []string{"ok "}},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			got := checktest.Verdicts(t, Checks(), tt.id, onDisks(tt.disks))
			if len(got) != len(tt.want) {
				t.Fatalf("%+v, want %v", got, tt.want)
			}
			for i := range got {
				checktest.Wants(t, got[i], tt.want[i])
				if got[i].Status == finding.Warn && (got[i].Fix == "" || got[i].Breaks == "" || len(got[i].Seen) == 0) {
					t.Errorf("it does not say what to do, or why: %+v", got[i])
				}
			}
		})
	}
	in := onDisks(nil)
	in.Dir = ""
	checktest.Wants(t, checktest.Verdict(t, Checks(), "storage.space", in), "warn the working directory no longer exists")
	in.Disks = nil
	for _, id := range []string{"storage.answers", "storage.space", "storage.nfs"} {
		checktest.Wants(t, checktest.Verdict(t, Checks(), id, in), "skip this run looks at no file system")
	}
}

func TestANodeWithoutProcIsNotWatched(t *testing.T) {
	in := checktest.Four()
	checktest.Wants(t, checktest.Verdict(t, Checks(), "proc.mounted", in), "ok it does")
	in.Node.Unknown = []fabric.Unknown{{What: "sys/net/ipv4/ip_local_port_range", Why: "permission denied"}}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "proc.mounted", in), "ok it does")
	in.Node.Unknown = append(in.Node.Unknown, fabric.Unknown{What: "self/limits", Why: "no such file or directory"})
	checktest.Wants(t, checktest.Verdict(t, Checks(), "proc.mounted", in), "warn /proc is not mounted on this node")
}
