package preflight

import (
	"io/fs"
	"math"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// verdict runs one check of the table by itself.
func verdict(t *testing.T, id string, in Input) finding.Finding {
	t.Helper()
	got, err := Local(t.Context(), in, Options{Only: []string{id}})
	if err != nil || len(got) == 0 {
		t.Fatalf("%s: %v, %v", id, got, err)
	}
	if f := got[0]; f.Status == finding.Fail || f.Status == finding.Warn {
		if f.What == "" || f.Breaks == "" || f.Fix == "" {
			t.Errorf("%s does not say what, so what and what to do: %+v", id, f)
		}
	}
	return got[0]
}

// wants is a part of what the finding must say, behind its status.
func wants(t *testing.T, got finding.Finding, want string) {
	t.Helper()
	status, part, _ := strings.Cut(want, " ")
	if string(got.Status) != status || !strings.Contains(got.What, part) {
		t.Errorf("%s: %s %q, want %s with %q", got.ID, got.Status, got.What, status, part)
	}
}

// four is a job of four nodes by torchrun, its store at host0 and this node
// at 10.0.0.5.
func four() Input {
	return Input{
		Addr: netip.MustParseAddr("10.0.0.5"),
		Job: job.Job{
			Nodes: setting.Value[int]{V: 4, Set: true},
			Store: setting.Value[job.Store]{V: job.Store{Embedded: true, Host: "host0", Port: 29377}, Set: true, From: setting.Source{Name: "--store"}},
			Line:  launcher.Line{Kind: launcher.Torchrun, Argv: []string{"torchrun", "t.py"}},
		},
		Node: fabric.Node{
			Hostname: "node5",
			Interfaces: []fabric.Interface{
				{Index: 1, Name: "lo", Kind: "loopback", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
				{Index: 2, Name: "eth0", Kind: "physical", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}},
				{Index: 3, Name: "docker0", Kind: "bridge", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16")}},
			},
			GPUs: gpu.Facts{Absent: "no driver"},
		},
	}
}

func (in Input) nodes(n int) Input { in.Job.Nodes.V = n; return in }

func (in Input) external(urls ...string) Input {
	in.Job.Store.V = job.Store{Endpoints: urls}
	return in
}

func (in Input) nproc(s string) Input {
	in.Job.NProc = setting.Value[string]{V: s, Set: true, From: setting.Source{Name: "torchrun --nproc-per-node"}}
	return in
}

func (in Input) gpus(n int) Input {
	in.Node.GPUs = gpu.Facts{Present: n > 0, Devices: make([]gpu.GPU, n)}
	return in
}

func (in Input) envs(pairs ...string) Input {
	in.Env = func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
	return in
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name              string
		path              string
		err               error
		found, executable string
	}{
		{"here", "/usr/bin/torchrun", nil, "ok torchrun is /usr/bin/torchrun", "ok may be executed"},
		{"nowhere", "", &exec.Error{Name: "torchrun", Err: exec.ErrNotFound}, "fail torchrun is not found", "skip could not tell"},
		{"not executable", "", &fs.PathError{Op: "exec", Path: "/opt/torchrun", Err: syscall.EACCES}, "ok torchrun is here", "fail may not execute it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := four()
			in.LookPath = func(string) (string, error) { return tt.path, tt.err }
			wants(t, verdict(t, "command.found", in), tt.found)
			wants(t, verdict(t, "command.executable", in), tt.executable)
		})
	}
	in := four()
	in.LookPath = func(string) (string, error) {
		return "", &fs.PathError{Op: "exec", Path: "/opt/torchrun", Err: syscall.EACCES}
	}
	if got := verdict(t, "command.executable", in).Fix; !strings.Contains(got, "/opt/torchrun") {
		t.Errorf("the fix %q does not name the file", got)
	}
	for mode, want := range map[fs.FileMode]string{fs.ModeDir | 0o755: "/opt/torchrun is a directory", 0o755: "cannot be executed", 0o644: "may not execute it"} {
		in.Stat = func(string) (fs.FileMode, error) { return mode, nil }
		got := verdict(t, "command.executable", in)
		if wants(t, got, "fail "+want); strings.Contains(got.Fix, "chmod") != (mode == 0o644) {
			t.Errorf("%s: fix %q", mode, got.Fix)
		}
	}
	in.Job.Nodes.V = 1
	if got := verdict(t, "command.executable", in); strings.Contains(got.Breaks, "others") {
		t.Errorf("one node has no others: %q", got.Breaks)
	}
	in.Job.Line.Argv = nil
	wants(t, verdict(t, "command.found", in), "skip no command")
}

func TestScript(t *testing.T) {
	stat := func(mode fs.FileMode, err error) func(string) (fs.FileMode, error) {
		return func(string) (fs.FileMode, error) { return mode, err }
	}
	gone := stat(0, &fs.PathError{Op: "stat", Path: "t.py", Err: syscall.ENOENT})
	for _, tt := range []struct {
		line string
		stat func(string) (fs.FileMode, error)
		want string
	}{
		{"torchrun t.py", stat(0o644, nil), "ok t.py is here"},
		{"torchrun t.py", gone, "fail t.py does not exist on this node"},
		{"numactl -C 0-7 python -u t.py", gone, "fail t.py does not exist"},
		{"python t.py/x.py", stat(0, syscall.ENOTDIR), "fail t.py/x.py does not exist"},
		{"python t.py", stat(0, syscall.EACCES), "fail t.py cannot be read"},
		{"python t.py", stat(0, syscall.EIO), "skip could not tell"},
		{"python app", stat(fs.ModeDir|0o755, nil), "skip app is a directory"},
		{"env -C /srv python t.py", gone, "skip another directory"},
		{"uv run --directory=/srv torchrun t.py", gone, "skip another directory"},
		{"hatch run python t.py", gone, "skip another directory"},
		{"uv run python t.py", gone, "fail t.py does not exist"},
		{"env -C /srv python /srv/t.py", gone, "fail /srv/t.py does not exist"},
		{"env PET_MODULE=1 torchrun t", gone, "skip no Python file"},
		{"torchrun -m t", gone, "skip no Python file"},
		{"python -", gone, "skip no Python file"},
		{"python t.py", nil, "skip no file is looked at"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			in := four()
			var err error
			if in.Job.Line, err = launcher.Parse(strings.Fields(tt.line), ""); err != nil {
				t.Fatal(err)
			}
			in.Stat, in.Dir = tt.stat, "/home/a"
			f := verdict(t, "command.script", in)
			wants(t, f, tt.want)
			if strings.Contains(f.What, " t.py does not") && !strings.Contains(f.Fix, "the working directory is /home/a") {
				t.Errorf("the fix %q does not name the working directory", f.Fix)
			}
		})
	}
	in := four().envs("PET_NO_PYTHON", "1")
	in.Job.Line.Script, in.Stat = 1, gone
	wants(t, verdict(t, "command.script", in), "skip no Python file")
}

func TestAddrUsable(t *testing.T) {
	at := func(addr, store string) Input {
		in := four()
		in.Addr = netip.MustParseAddr(addr)
		in.Job.Store.V.Host = store
		return in
	}
	for _, tt := range []struct {
		name string
		in   Input
		want string
	}{
		{"on the network", at("10.0.0.5", "host0"), "ok 10.0.0.5 on eth0"},
		{"IPv4-mapped", at("::ffff:10.0.0.5", "host0"), "ok 10.0.0.5 on eth0"},
		{"loopback, store too", at("127.0.0.1", "127.0.0.1"), "ok all nodes are on this machine"},
		{"loopback, store on localhost", at("127.0.0.1", "localhost"), "ok all nodes are on this machine"},
		{"loopback, store elsewhere", at("127.0.0.1", "10.0.0.1"), "fail the meeting point is on another machine"},
		{"loopback by the host name, as Debian's 127.0.1.1", at("127.0.1.1", "node5"), "warn only if all 4 nodes"},
		{"loopback, store on this machine's address", at("127.0.0.1", "10.0.0.5"), "warn only if all 4 nodes"},
		{"link-local IPv6", at("fe80::5", "host0"), "fail link-local IPv6"},
		{"link-local IPv4, two machines on a cable", at("169.254.1.5", "host0"), "warn link-local"},
		{"docker0", at("172.17.0.1", "host0"), "warn docker0"},
		{"behind NAT", at("203.0.113.9", "host0"), "warn no address of this node"},
		{"any", at("0.0.0.0", "host0"), "fail no address of a node"},
		{"one node", at("127.0.0.1", "host0").nodes(1), "skip one node"},
		{"unknown", func() Input { in := four(); in.Addr = netip.Addr{}; return in }(), "skip not known yet"},
	} {
		t.Run(tt.name, func(t *testing.T) { wants(t, verdict(t, "addr.usable", tt.in), tt.want) })
	}
}

func TestHostResolves(t *testing.T) {
	named, unknown := four(), four()
	named.Node.HostAddrs = []string{"127.0.1.1"}
	unknown.Node.HostErr = "no such host"
	wants(t, verdict(t, "host.resolves", named), "ok node5 is 127.0.1.1")
	wants(t, verdict(t, "host.resolves", four()), "skip ")
	f := verdict(t, "host.resolves", unknown)
	wants(t, f, "warn node5 does not resolve")
	if want := `echo "10.0.0.5 node5" >> /etc/hosts`; f.Fix != want {
		t.Errorf("fix %q, want %q", f.Fix, want)
	}
}

func TestPortMaster(t *testing.T) {
	from := func(in Input, tier setting.Tier) Input {
		in.Job.MasterPort = setting.Value[int]{V: 4000, Set: true, From: setting.Source{Tier: tier, Name: "--master-port"}}
		return in
	}
	index := func(in Input, i int) Input { in.Job.Index = setting.Value[int]{V: i, Set: true}; return in }
	host := func(in Input) Input {
		in.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
		return in
	}
	single := four().nodes(1)
	standalone := four().nodes(1)
	standalone.Job.Line.Standalone.Set = true
	program := four().nodes(1)
	program.Job.Line.Kind = launcher.Program
	mpirun := four()
	mpirun.Job.Line.Kind = launcher.Mpirun
	torch, launch := PortUse{Taken: true, By: "python3 (pid 7)"}, PortUse{Taken: true, Launch: true, By: "launch (pid 7)"}
	for _, tt := range []struct {
		name string
		in   Input
		use  PortUse
		err  error
		want string
	}{
		{"free", four(), PortUse{}, nil, "ok port 29500 is free"},
		{"the default is taken", host(four()), torch, nil, "ok another one will be agreed on"},
		{"the line's is taken", host(from(four(), setting.Line)), torch, nil, "ok port 4000 is taken by python3 (pid 7), another one"},
		{"MASTER_PORT is taken", index(from(four(), setting.Ambient), 0), torch, nil, "ok port 4000 is taken by python3 (pid 7), another one"},
		{"typed, may be node 0", from(four(), setting.Explicit), torch, nil, "warn port 4000 is taken by python3 (pid 7), on this node"},
		{"typed, may be node 0, held by a launch", from(four(), setting.Explicit), launch, nil, "warn port 4000 is taken by launch (pid 7)"},
		{"typed, is node 0", index(from(four(), setting.Explicit), 0), torch, nil, "fail port 4000 is taken by python3 (pid 7), on this node, which is node 0"},
		{"typed, hosts the store", host(from(four(), setting.Explicit)), torch, nil, "fail port 4000 is taken by python3 (pid 7)"},
		{"typed, hosts the store, by whom is unknown", host(from(four(), setting.Explicit)), PortUse{Taken: true}, nil, "fail port 4000 is taken by a process that this user cannot see"},
		{"typed, hosts the store, has index 2", index(host(from(four(), setting.Explicit)), 2), torch, nil, "skip node 0 only"},
		{"typed, the other node on this machine holds it", host(from(four(), setting.Explicit)), launch, nil, "skip launch (pid 7) has port 4000"},
		{"typed, privileged", index(from(four(), setting.Explicit), 0), PortUse{}, syscall.EACCES, "fail port 4000 cannot be used"},
		{"one node, torchrun's default", single, torch, nil, "warn torchrun will want it"},
		{"one node, standalone", standalone, torch, nil, "skip "},
		{"one node, a program", program, torch, nil, "skip "},
		{"mpirun", mpirun, torch, nil, "skip mpirun"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PortUse = func(netip.AddrPort) (PortUse, error) { return tt.use, tt.err }
			wants(t, verdict(t, "port.master", tt.in), tt.want)
		})
	}
	wants(t, verdict(t, "port.master", four()), "skip no port is opened")
}

func TestGPUCount(t *testing.T) {
	program := four().gpus(2).nproc("8")
	program.Job.Line.Kind = launcher.Program
	wedged := four().nproc("8")
	wedged.Node.GPUs = gpu.Facts{Err: "NVML did not answer within 5s"}
	amd := four().nproc("gpu")
	amd.Exists = func(path string) bool { return path == "/dev/kfd" }
	unasked := four().nproc("gpu")
	unasked.Node.GPUs = gpu.Facts{}
	empty := four().nproc("8")
	empty.Node.GPUs = gpu.Facts{Present: true}
	none := four().nproc("gpu")
	none.Exists = func(string) bool { return false }
	lost := four().gpus(8).nproc("8")
	lost.Node.GPUs.Devices = slices.Clone(lost.Node.GPUs.Devices)
	lost.Node.GPUs.Devices[3].Err = "it fell off the bus"
	for _, tt := range []struct {
		name string
		in   Input
		want string
	}{
		{"one is there, but lost", lost, "fail 8 processes are asked for, and 7 GPUs"},
		{"as many", four().gpus(8).nproc("8"), "ok 8 processes, 8 GPUs"},
		{"one fell off the bus", four().gpus(7).nproc("8"), "fail 8 processes are asked for, and 7 GPUs"},
		{"a trial on a workstation", four().gpus(1).nproc("2"), "warn this node has one GPU"},
		{"one process", four().gpus(1), "ok 1 processes"},
		{"hidden, a CPU job", four().gpus(2).nproc("8").envs("CUDA_VISIBLE_DEVICES", ""), "skip hides the 2 GPUs"},
		{"hidden, as Slurm does", four().gpus(2).nproc("8").envs("CUDA_VISIBLE_DEVICES", "NoDevFiles"), "skip hides the 2 GPUs"},
		{"half are visible", four().gpus(8).nproc("8").envs("CUDA_VISIBLE_DEVICES", "0,1,2,3"), "fail 4 GPUs are visible"},
		{"those behind a wrong one are not", four().gpus(4).nproc("2").envs("CUDA_VISIBLE_DEVICES", "0,9,1"), "fail 1 GPUs are visible"},
		{"by UUID", four().gpus(4).nproc("2").envs("CUDA_VISIBLE_DEVICES", "GPU-aa, MIG-bb"), "ok 2 processes"},
		{"one per GPU", four().gpus(4).nproc("gpu"), "ok 4 processes, 4 GPUs"},
		{"no driver, a CPU job", four().nproc("8"), "skip no NVIDIA GPU here: no driver"},
		{"no driver, one per GPU", none, "fail this node has none"},
		{"no driver, one per GPU, AMD's", amd, "skip no NVIDIA GPU"},
		{"no driver, one per GPU, AMD not looked for", four().nproc("gpu"), "warn no NVIDIA GPU"},
		{"driver without a GPU", empty, "skip the driver lists none"},
		{"not asked", unasked, "skip were not asked"},
		{"driver does not answer", wedged, "skip could not be asked"},
		{"by number of CPUs", four().gpus(2).nproc("cpu"), "ok 2 GPUs visible"},
		{"a program", program, "skip does not say"},
	} {
		t.Run(tt.name, func(t *testing.T) { wants(t, verdict(t, "gpu.count", tt.in), tt.want) })
	}
}

func TestLimits(t *testing.T) {
	with := func(in Input, l fabric.Limits, hcaState int) Input {
		in.Node.Limits = l
		if hcaState > 0 {
			in.Node.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Num: 1, State: hcaState}}}}
		}
		return in
	}
	many, cpus, recorded := four().nodes(256).nproc("8"), four().nproc("8"), four().nproc("8")
	cpus.Node.GPUs, recorded.Node.GPUs = gpu.Facts{Absent: "no driver"}, gpu.Facts{}
	for _, tt := range []struct {
		name, id string
		in       Input
		want     string
	}{
		{"unlimited", "limits.memlock", with(four(), fabric.Limits{Memlock: math.MaxUint64}, 4), "ok unlimited"},
		{"enough", "limits.memlock", with(four(), fabric.Limits{Memlock: 64 << 30}, 4), "ok 64 GiB"},
		{"the kernel's default", "limits.memlock", with(four(), fabric.Limits{Memlock: 8 << 20}, 4), "warn memlock is 8 MiB"},
		{"port down", "limits.memlock", with(four(), fabric.Limits{Memlock: 8 << 20}, 1), "skip no active RDMA"},
		{"no RDMA", "limits.memlock", with(four(), fabric.Limits{Memlock: 8 << 20}, 0), "skip no active RDMA"},

		{"small job", "limits.nofile", with(four(), fabric.Limits{Nofile: 1024, NofileKnown: true}, 0), "ok 1024 files"},
		{"large job", "limits.nofile", with(many, fabric.Limits{Nofile: 1024, NofileKnown: true}, 0), "warn 2048 ranks need about 8448"},
		{"unknown", "limits.nofile", with(many, fabric.Limits{Nofile: 1024}, 0), "skip cannot tell"},

		{"room", "shm.size", with(four().gpus(8).nproc("8"), fabric.Limits{Shm: 1 << 30, ShmSize: 1 << 30}, 0), "ok 1 GiB free"},
		{"docker's default", "shm.size", with(four().gpus(8).nproc("8"), fabric.Limits{Shm: 64 << 20, ShmSize: 64 << 20}, 0), "warn 64 MiB free of 64 MiB, 8 processes want about 512 MiB"},
		{"full of other jobs", "shm.size", with(four().gpus(8).nproc("gpu"), fabric.Limits{Shm: 1 << 20, ShmSize: 1 << 40}, 0), "warn 1 MiB free of 1 TiB"},
		{"not mounted", "shm.size", with(four().gpus(8).nproc("8"), fabric.Limits{Shm: -1}, 0), "warn not mounted"},
		{"one process", "shm.size", with(four().gpus(8), fabric.Limits{Shm: 64 << 20}, 0), "skip one process"},
		{"no GPUs", "shm.size", with(cpus, fabric.Limits{Shm: 64 << 20}, 0), "skip no NVIDIA GPU"},
		{"GPUs that nobody asked", "shm.size", with(recorded, fabric.Limits{Shm: 64 << 20}, 0), "skip were not asked for"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) { wants(t, verdict(t, tt.id, tt.in), tt.want) })
	}
}

func TestInheritedSettingsKeepTheirOwnIDs(t *testing.T) {
	in := four()
	in.Lint = []finding.Finding{
		finding.Warnf("algo").Named("env.algo"),
		finding.Failf("no eth0").Named("env.ifname.nccl"),
		finding.Warnf("obsolete").Named("env.obsolete"),
	}
	got, err := Local(t.Context(), in, Options{Only: []string{"env.interfaces", "env.harmful"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fail env.ifname.nccl: no eth0", "warn env.algo: algo", "warn env.obsolete: obsolete"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestSizesAreShort(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 64 << 10: "64 KiB", 1536 << 20: "1.5 GiB", 8 << 50: "8192 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
