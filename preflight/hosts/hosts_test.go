package hosts

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// healthy returns three hosts without trouble; the first is this one.
func healthy() Input {
	facts := func(host, addr string) mpirun.Facts {
		return mpirun.Facts{Host: host, Machine: host, Arch: "x86_64", Path: "/bin", Memlock: "unlimited", Nofile: "1024",
			InDir: true, Daemon: "/usr/bin/orted", Version: "mpirun (Open MPI) 4.1.4", Tmp: "/tmp/x",
			Addrs:    []mpirun.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix(addr + "/24")}},
			Calls:    []mpirun.Call{{To: "10.0.0.1", Said: mpirun.Heard}},
			Programs: []mpirun.Program{{Word: "./a", Found: true, Path: "./a", Hash: "1", MPI: "openmpi"}}}
	}
	in := Input{MPI: "openmpi4", Agent: "ssh", Head: facts("h0", "10.0.0.1"), Drift: time.Second,
		Run: mpirun.Run{NP: 3, Strict: true, Source: "--hostfile hosts", Daemon: "orted", Programs: []string{"./a"},
			Dir: "/job"}}
	for i, name := range []string{"h0", "h1", "h2"} {
		h := mpirun.Host{Name: name, Slots: 1}
		in.Run.Hosts = append(in.Run.Hosts, h)
		in.Answers = append(in.Answers, Answer{Host: h, Local: i == 0, Whole: true,
			Facts: facts(name, "10.0.0."+string(rune('1'+i)))})
	}
	return in
}

// What to do names the line of the file by which sshd runs another command.
func TestAForcedCommandIsNamed(t *testing.T) {
	for seen, want := range map[string]string{
		"/home/u/.ssh/authorized_keys:2:command=": "remove command= from line 2 of " +
			"/home/u/.ssh/authorized_keys, or use a key",
		"/etc/ssh/sshd_config.d/a.conf:7: ForceCommand x": "remove ForceCommand from line 7 of " +
			"/etc/ssh/sshd_config.d/a.conf",
		"": "remove command= from ~/.ssh/authorized_keys, or ForceCommand from sshd_config",
	} {
		a := Answer{Unrun: &Unrun{Forced: true}}
		if seen != "" {
			a.Unrun.Seen = []string{seen}
		}
		if f := forced(finding.Failf("x"), a); !strings.HasPrefix(f.Fix, "on it: "+want) {
			t.Errorf("%s: %q", seen, f.Fix)
		}
	}
}

func TestHealthyHostsPassAllChecks(t *testing.T) {
	v := Judge(healthy())
	if v.Report.Worst() != finding.Pass || len(v.Report) != len(Checks()) || v.Unfit != nil || v.Refuse {
		t.Errorf("%+v", v)
	}
}

// Each trouble of h2 is named with the host, by its check.
func TestTroubleIsNamedWithItsHost(t *testing.T) {
	silent := func(words string) func(in *Input, a *Answer) {
		return func(in *Input, a *Answer) { a.Whole, a.Facts, a.Failed = false, mpirun.Facts{}, words }
	}
	for _, tt := range []struct {
		name   string
		do     func(in *Input, a *Answer)
		id     string
		status finding.Status
		says   string
	}{
		{"a name that is unknown", silent("ssh: Could not resolve hostname h2: Name or service not known"), "mpi.name",
			finding.Fail, "not known here"},
		{"no answer", silent("ssh: connect to host h2 port 22: Connection timed out"), "mpi.reach", finding.Fail,
			"packets to it are lost"},
		{"refused", silent("ssh: connect to host h2 port 22: Connection refused"), "mpi.reach", finding.Fail, "no sshd"},
		{"an unknown key", silent("No ED25519 host key is known for h2 and you have requested strict checking.\n" +
			"Host key verification failed."), "mpi.login", finding.Fail, "asks whether to trust"},
		{"another key", silent("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
			"mpi.login", finding.Fail, "another one than ssh knows"},
		{"a password", silent("me@h2: Permission denied (publickey,password)."), "mpi.login", finding.Fail,
			"without a password"},
		{"too many keys", silent("Received disconnect from 10.0.0.3 port 22:2: Too many authentication failures\n" +
			"Disconnected from 10.0.0.3 port 22"), "mpi.login", finding.Fail, "more keys"},
		{"a start-up that asks", func(in *Input, a *Answer) { silent("")(in, a); a.Late = true }, "mpi.shell",
			finding.Fail, "was not ready in time"},
		{"a start-up that ends", silent("ssh: exit status 3"), "mpi.login", finding.Fail, "did not answer"},
		{"a start-up that starts another shell", func(in *Input, a *Answer) {
			silent("")(in, a)
			a.Unrun = &Unrun{Seen: []string{"/home/u/.bashrc:3:  exec zsh"}}
		}, "mpi.shell", finding.Fail, "runs no command"},
		{"another command of sshd", func(in *Input, a *Answer) { silent("")(in, a); a.Unrun = &Unrun{Forced: true} },
			"mpi.login", finding.Fail, "its sshd runs another one"},
		{"a command of a key", func(in *Input, a *Answer) {
			silent("")(in, a)
			a.Unrun = &Unrun{Forced: true, Seen: []string{"/home/u/.ssh/authorized_keys:2:command="}}
		}, "mpi.login", finding.Fail, "its sshd runs another one"},
		{"an sshd for files", silent("This service allows sftp connections only."), "mpi.login", finding.Fail,
			"transfer files"},
		{"a start-up that needs a terminal", silent("open terminal failed: not a terminal"), "mpi.shell", finding.Fail,
			"needs a terminal"},
		{"a start-up that prints", func(_ *Input, a *Answer) { a.Before = []string{"hello"} }, "mpi.shell", finding.Warn,
			"start-up files print"},
		{"a slow answer", func(_ *Input, a *Answer) { a.Whole, a.Late = false, true }, "mpi.shell", finding.Warn,
			"not answered all"},
		{"no daemon", func(_ *Input, a *Answer) { a.Facts.Daemon = "" }, "mpi.daemon", finding.Fail, "there is no orted"},
		{"another version", func(_ *Input, a *Answer) { a.Facts.Version = "mpirun (Open MPI) 4.1.8" }, "mpi.version",
			finding.Fail, "another version"},
		{"a full /tmp", func(_ *Input, a *Answer) {
			a.Facts.Full = []mpirun.Full{{Dir: "/tmp", Said: "dd: error writing '/tmp/launch-x': No space left on device"}}
		}, "mpi.room", finding.Fail, "can be made in /tmp"},
		{"a full /dev/shm", func(_ *Input, a *Answer) { a.Facts.Full = []mpirun.Full{{Dir: "/dev/shm"}} }, "mpi.room",
			finding.Warn, "can be made in /dev/shm"},
		{"no way back", func(_ *Input, a *Answer) { a.Facts.Calls[0].Said = "bash: connect: Connection timed out" },
			"mpi.call", finding.Fail, "cannot call this host back"},
		{"no program", func(_ *Input, a *Answer) { a.Facts.Programs[0] = mpirun.Program{Word: "./a"} }, "mpi.program",
			finding.Fail, "there is no ./a"},
		{"a program that may not run", func(_ *Input, a *Answer) {
			a.Facts.Programs[0] = mpirun.Program{Word: "./a", Path: "./a"}
		}, "mpi.program", finding.Fail, "may execute"},
		{"a program on a mount without execution", func(_ *Input, a *Answer) {
			a.Facts.Programs[0] = mpirun.Program{Word: "./a", Path: "/scratch/a", Mount: "/scratch"}
		}, "mpi.program", finding.Fail, "/scratch is mounted noexec"},
		{"a daemon on a mount without execution", func(_ *Input, a *Answer) {
			a.Facts.Daemon, a.Facts.Denied, a.Facts.Mount = "", "/opt/bin/orted", "/opt"
		}, "mpi.daemon", finding.Fail, "/opt is mounted noexec"},
		{"another program", func(_ *Input, a *Answer) { a.Facts.Programs[0].Hash = "2" }, "mpi.program", finding.Warn,
			"another file"},
		{"another MPI", func(_ *Input, a *Answer) { a.Facts.Programs[0].MPI = "mpich" }, "mpi.library", finding.Fail,
			"is linked with MPICH"},
		{"no library", func(_ *Input, a *Answer) { a.Facts.Programs[0].Lost = []string{"libx.so"} }, "mpi.library",
			finding.Fail, "does not find libx.so"},
		{"little locked memory", func(_ *Input, a *Answer) { a.Facts.Memlock = "64" }, "mpi.limits", finding.Warn,
			"memlock is 64 KiB there, and unlimited"},
		{"few files", func(_ *Input, a *Answer) { a.Facts.Nofile = "64" }, "mpi.limits", finding.Warn, "nofile is 64"},
		{"few files for the daemon", func(in *Input, a *Answer) {
			in.MPI, a.Facts.Nofile = "openmpi5", "64"
		}, "mpi.limits", finding.Fail, "needs more than 85"},
		{"few files, and enough for the daemon", func(in *Input, a *Answer) { in.MPI, a.Facts.Nofile = "openmpi5", "256" },
			"mpi.limits", finding.Warn, "nofile is 256"},
		{"no execution", func(_ *Input, a *Answer) { a.Facts.Tmp, a.Facts.Noexec = "", []string{"/tmp"} }, "mpi.copy",
			finding.Warn, "executed in /tmp"},
		{"another processor", func(_ *Input, a *Answer) { a.Facts.Arch = "aarch64" }, "mpi.copy", finding.Warn, "aarch64"},
		{"another time", func(_ *Input, a *Answer) {
			now := time.Now()
			a.Sent, a.Back, a.Facts.Clock = now, now.Add(time.Second), now.Add(-time.Minute)
		}, "mpi.clock", finding.Warn, "its clock differs"},
		{"a shared address", func(in *Input, a *Answer) {
			for i := range in.Answers[1:] {
				f := &in.Answers[1+i].Facts
				f.Addrs = append(f.Addrs, mpirun.Address{Interface: "docker0", Prefix: netip.MustParsePrefix("172.17.0.1/16")})
			}
		}, "mpi.address", finding.Warn, "172.17.0.1 of docker0"},
	} {
		in := healthy()
		tt.do(&in, &in.Answers[2])
		v := Judge(in)
		i := slices.IndexFunc(v.Report, func(f finding.Finding) bool { return f.ID == tt.id && f.Status == tt.status })
		if i < 0 || !strings.Contains(v.Report[i].What, tt.says) || !strings.Contains(v.Report[i].What, "h2: ") {
			t.Errorf("%s: %+v", tt.name, v.Report)
			continue
		}
		if failed := tt.status == finding.Fail; failed != slices.Equal(v.Unfit, []string{"h2"}) {
			t.Errorf("%s: unfit %q", tt.name, v.Unfit)
		}
	}
}

func TestWhatTheLineAsksIsJudged(t *testing.T) {
	in := healthy()
	in.Run.NP = 4
	v := Judge(in)
	if f := v.Report.Failed(); len(f) != 1 || f[0].ID != "mpi.slots" || !v.Refuse || v.Unfit != nil {
		t.Errorf("%+v", v)
	}
	in.Left = func(id string) bool { return id == "mpi.slots" }
	if v := Judge(in); len(v.Report.Failed()) != 0 || v.Refuse {
		t.Errorf("left out: %+v", v)
	}
	in = healthy()
	in.Run.Returns = "hosts"
	if f := Judge(in).Report.Failed(); len(f) != 1 || f[0].Fix != `sed -i 's/\r$//' hosts` || f[0].ID != "mpi.slots" {
		t.Errorf("line ends of Windows: %+v", f)
	}
	in = healthy()
	in.Run.NP = 4
	in.Left, in.WarnOnly = nil, true
	if v := Judge(in); v.Report.Worst() != finding.Warn || v.Refuse {
		t.Errorf("--warn-only: %+v", v)
	}
}

// Hydra's daemons call the head by its name: that they reach its address does not help.
func TestHydraCallsAName(t *testing.T) {
	in := healthy()
	in.MPI, in.Run.Forward, in.Run.CallName = "mpich", true, "h0"
	for i := range in.Answers {
		in.Answers[i].Facts.Programs[0].MPI = "mpich"
		in.Answers[i].Facts.Calls = append([]mpirun.Call{{To: "h0", Said: mpirun.Heard}}, in.Answers[i].Facts.Calls...)
	}
	if v := Judge(in); len(v.Unfit) > 0 {
		t.Errorf("%+v", v)
	}
	in.Answers[2].Facts.Calls[0].Said = "h0: Name or service not known"
	if v := Judge(in); !slices.Equal(v.Unfit, []string{"h2"}) {
		t.Errorf("%+v", v)
	}
}

// A misspelt host is close to one that is known.
func TestMisspeltHost(t *testing.T) {
	in := healthy()
	in.Answers[2].Name, in.Answers[2].Whole, in.Answers[2].Facts = "hots2", false, mpirun.Facts{}
	in.Answers[2].Failed = "ssh: Could not resolve hostname hots2: Name or service not known"
	in.Known = []string{"localhost", "host2"}
	if f := Judge(in).Report.Failed(); len(f) != 1 || f[0].Fix != "did you mean host2?" {
		t.Errorf("%+v", f)
	}
	// Another host that is not known either is no advice.
	in.Known = []string{"localhost"}
	in.Answers[1] = in.Answers[2]
	in.Answers[1].Name = "hots1"
	for _, f := range Judge(in).Report.Failed() {
		if strings.Contains(f.Fix, "did you mean") {
			t.Errorf("%+v", f)
		}
	}
}

// The line that lets a start-up file end is of the language of that file.
func TestTheGuardOfAStartUpFileIsOfItsLanguage(t *testing.T) {
	for file, want := range map[string]string{
		"/home/u/.zshenv": "above line 3: case $-", "/etc/csh.cshrc": "above line 3: if (! $?prompt)",
		"/home/u/.config/fish/config.fish": "around line 3: if status is-interactive;",
	} {
		in := healthy()
		in.Answers[2].Whole, in.Answers[2].Facts = false, mpirun.Facts{}
		in.Answers[2].Unrun = &Unrun{Seen: []string{file + ":3:exec zsh"}}
		if f := Judge(in).Report.Failed(); len(f) != 1 || !strings.Contains(f[0].Fix, want) {
			t.Errorf("%s: %+v", file, f)
		}
	}
}

// Hosts with one trouble have one finding, with a fix for each, and no more lines than a person reads.
func TestOneTroubleIsOneFindingWithAListOfFixes(t *testing.T) {
	in := healthy()
	in.Answers = in.Answers[:1]
	for i := range 6 {
		name := "w" + string(rune('0'+i))
		in.Answers = append(in.Answers, Answer{Host: mpirun.Host{Name: name},
			Failed: "ssh: connect to host " + name + " port 22: Connection timed out"})
	}
	f := Judge(in).Report.Failed()
	if len(f) != 1 || !strings.HasPrefix(f[0].What, "w0, w1, w2, w3, w4, w5: ") ||
		!strings.Contains(f[0].Fix, "ping w3;") || !strings.HasSuffix(f[0].Fix, "\nand so on for 2 more") {
		t.Errorf("%+v", f)
	}
}

// Two names of one machine are named together. Two containers of one machine, which share the boot, are two hosts; so
// are nodes that Slurm names.
func TestTwoNamesOfOneMachine(t *testing.T) {
	for _, tt := range []struct {
		first, second string
		do            func(in *Input)
		says          string
	}{
		{"b net:[1] uts:[1]", "b net:[1] uts:[1]", nil, "h1 and h2 are one machine, h1"},
		{"b net:[1] uts:[1]", "b net:[2] uts:[2]", nil, ""},
		{"b net:[1] uts:[1]", "b net:[1] uts:[2]", nil, ""},
		{"b net:[1] uts:[1] pid:[1]", "b net:[1] uts:[1] pid:[2]", nil, ""}, // pods with their node's network
		{"b net:[1] uts:[1] pid:[1]", "b net:[1] uts:[1] pid:[1]", nil, "h1 and h2 are one machine, h1"},
		{"b", "b", nil, ""}, // its namespaces are not known
		{"b net:[1] uts:[1]", "b net:[1] uts:[1]", func(in *Input) { in.Run.Agent.Srun = true }, ""},
		{"b net:[1] uts:[1]", "b net:[1] uts:[1]", func(in *Input) { in.Answers[2].Name = "localhost" }, ""},
	} {
		in := healthy()
		in.Answers[1].Facts.Machine, in.Answers[2].Facts.Machine = tt.first, tt.second
		if tt.do != nil {
			tt.do(&in)
		}
		i := slices.IndexFunc(Judge(in).Report, func(f finding.Finding) bool { return f.Status == finding.Warn })
		if said := i >= 0; said != (tt.says != "") || said && !strings.HasPrefix(Judge(in).Report[i].What, tt.says) {
			t.Errorf("%+v: %+v", tt, Judge(in).Report)
		}
	}
}

// Hydra's daemon says no version: its file has this host's, or it is another one.
func TestAnotherVersionOfHydrasDaemon(t *testing.T) {
	for _, tt := range []struct{ head, there, mpiexec, seen string }{
		{"5.0.2 127.0.0.1", "4.3.1 127.0.0.1", "5.0.2", "4.3.1"},
		{"5.0.2 127.0.0.1", "4.3.1 127.0.0.1", "", "4.3.1"},
		{"5.0.2 127.0.0.1", "5.0.2 127.0.0.1 7.7", "", ""},
		{"127.0.0.1", "127.0.0.1", "5.0.2", ""}, // Intel's does not say it
		{"127.0.0.1", "127.0.0.1", "5.0.1", "5.0.1"},
		{"5.0.2", "", "5.0.2", ""}, // no grep there
		{"5.0.2 127.0.0.1", "127.0.0.1", "5.0.2", ""},
		{"5.0.2 127.0.0.1", "127.0.0.1", "4.3.1", "4.3.1"},
	} {
		in := healthy()
		in.Run.Forward, in.Run.Daemon = true, "/opt/bin/hydra_pmi_proxy"
		for i := range in.Answers {
			in.Answers[i].Facts.Programs = nil
		}
		in.Head.Numbers, in.Head.Version = tt.head, "HYDRA build details: Version: 5.0.2 Release"
		for i := range in.Answers {
			in.Answers[i].Facts.Numbers, in.Answers[i].Facts.Version = tt.head, in.Head.Version
		}
		in.Answers[2].Facts.Numbers, in.Answers[2].Facts.Version = tt.there, "HYDRA build details: Version: "+tt.mpiexec
		f := Judge(in).Report.Failed()
		if (tt.seen != "") != (len(f) == 1) || len(f) == 1 && !strings.HasSuffix(f[0].Seen[0].What, ": "+tt.seen) {
			t.Errorf("%+v: %+v", tt, f)
		}
	}
}

// MPICH makes no files in /tmp, and its processes end without /dev/shm.
func TestMPICHNeedsOtherRoom(t *testing.T) {
	for dir, unfit := range map[string][]string{"/tmp": nil, "/dev/shm": {"h2"}} {
		in := healthy()
		in.Run.Forward = true
		for i := range in.Answers {
			in.Answers[i].Facts.Programs[0].MPI = "mpich"
		}
		in.Answers[2].Facts.Full = []mpirun.Full{{Dir: dir, Said: "No space left on device"}}
		if v := Judge(in); !slices.Equal(v.Unfit, unfit) {
			t.Errorf("%s: unfit %q, %+v", dir, v.Unfit, v.Report)
		}
	}
}

func TestWhatMayStillCome(t *testing.T) {
	for _, tt := range []struct {
		answer Answer
		why    string
		ok     bool
	}{
		{Answer{Failed: "ssh: Could not resolve hostname w-0.j: Temporary failure in name resolution"},
			"its name is not known here", true},
		{Answer{Failed: "ssh: connect to host w-0 port 22: Connection refused"},
			"no sshd answers there: the connection is refused", true},
		{Answer{Failed: "u@w-0: Permission denied (publickey)."}, "", false},
		{Answer{Late: true}, "", false},
		{Answer{Whole: true}, "", false},
	} {
		if why, ok := tt.answer.MayCome(); ok != tt.ok || why != tt.why {
			t.Errorf("%+v: %q %v, want %q %v", tt.answer, why, ok, tt.why, tt.ok)
		}
	}
}

// The line of ssh that has the reason is quoted, and an agent that does not answer is named where that may matter.
func TestTheReasonOfAFailedLoginIsQuoted(t *testing.T) {
	for _, tt := range []struct{ words, agent, seen, fix string }{
		{"Received disconnect: Too many authentication failures\nDisconnected from h2", "/run/a", "Too many",
			"IdentitiesOnly"},
		{"me@h2: Permission denied (publickey).", "", "Permission denied", "ssh-copy-id"},
		{"me@h2: Permission denied (publickey).", "/run/a", "no agent answers at SSH_AUTH_SOCK=/run/a", "ssh-add"},
		{"ssh: connect to host h2 port 22: Connection refused", "/run/a", "Connection refused", "systemctl start sshd"},
	} {
		in := healthy()
		a := &in.Answers[2]
		in.NoAgent, a.Whole, a.Facts, a.Failed = tt.agent, false, mpirun.Facts{}, tt.words
		f := Judge(in).Report.Failed()
		if len(f) != 1 || !strings.Contains(f[0].Seen[len(f[0].Seen)-1].What, tt.seen) ||
			!strings.Contains(f[0].Fix, tt.fix) || strings.Contains(f[0].Fix, "ssh-add") != (tt.fix == "ssh-add") {
			t.Errorf("%q: %+v", tt.words, f)
		}
	}
}
