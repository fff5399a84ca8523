package mpi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// start is a healthy start: plain mpirun runs it, so launch must.
type start struct {
	name  string
	set   func(*trial)
	hosts int      // of the rig; 0: three
	ranks int      // of the world; 0: three
	only  []string // the implementations that it applies to; nil: each of Each
	short string   // the implementation with which it always runs
}

var (
	openMPI = []string{"Open MPI 4.1", "Open MPI 5.0"}
	hydra   = []string{"MPICH 5.0", "Intel MPI"}
)

// flags puts options in front of the line's options.
func (tr *trial) flags(options ...string) { tr.line = slices.Insert(tr.line, 1, options...) }

// list replaces the text of the hostfile.
func (tr *trial) list(text string) { tr.Hosts[0].Write(Job+"/hosts", text) }

// replace replaces the option of the hostfile, and its value.
func (tr *trial) replace(option ...string) {
	i := slices.Index(tr.line, Job+"/hosts")
	tr.line = slices.Replace(tr.line, i-1, i+1, option...)
}

// program replaces the program.
func (tr *trial) program(argv ...string) { tr.line = append(tr.line[:len(tr.line)-1], argv...) }

// ranks replaces the number of ranks.
func (tr *trial) ranks(n int) { tr.line[slices.Index(tr.line, "-np")+1] = itoa(n) }

// all runs a script as root on all hosts.
func (tr *trial) all(script string) {
	tr.t.Helper()
	for _, h := range tr.Hosts {
		h.Sh(script)
	}
}

func healthyStarts() []start {
	return slices.Concat(healthyHosts(), healthyLines(), healthyMachines())
}

func TestLaunchStartsWhatPlainMpirunStarts(t *testing.T) {
	for _, s := range healthyStarts() {
		if !chosen(s.name, s.short != "") {
			continue
		}
		for _, mpi := range Each {
			if s.only != nil && !slices.Contains(s.only, mpi) || len(asked) == 0 && mpi != s.short {
				continue
			}
			t.Run(dashed(s.name)+"/"+dashed(mpi), func(t *testing.T) {
				t.Parallel()
				s.try(t, mpi)
			})
		}
	}
}

// try runs plain mpirun, and then launch on the same hosts.
func (s start) try(t *testing.T, mpi string) {
	tr := newTrial(t, mpi, cmp.Or(s.hosts, 3))
	s.set(tr)
	for _, side := range []string{plainSide, launchSide} {
		if len(asked) > 0 && !slices.Contains(sides(), side) || there(s.name, mpi, side) {
			continue
		}
		o := tr.run(side, plainLimit)
		r := result{outcome: o, Whole: o.whole(cmp.Or(s.ranks, 3))}
		if !r.Whole || o.Exit != 0 {
			r.Bad = "the job has not run"
		} else if side == launchSide {
			r.Bad = s.chatter(o)
		}
		record(t, s.name, mpi, side, r)
		t.Logf("%s: %.1f s, exit %d\n%s", side, o.Seconds, o.Exit, o.Said)
		if r.Bad != "" {
			t.Errorf("%s: %s", side, r.Bad)
		}
		if left := tr.remains(grace); side == launchSide && left != "" {
			t.Errorf("left on the hosts:\n%s", left)
		}
	}
}

// chatter returns the first line of launch that a healthy start does not need.
func (s start) chatter(o outcome) string {
	for _, line := range o.useful() {
		word, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "launch: ")), " ")
		slow := len(asked) == 0 && strings.Contains(line, "in time") // other tests are on the machine
		if (word == "fail" || word == "warn") && !slow {
			return "it says: " + line
		}
	}
	return ""
}

func healthyHosts() []start {
	return []start{
		{name: "three hosts", set: func(*trial) {}, short: "Open MPI 5.0"},
		{name: "five hosts", hosts: 5, ranks: 5, set: func(*trial) {}},
		{name: "one host without ssh", hosts: 1, ranks: 2, set: func(tr *trial) { tr.replace(); tr.ranks(2) }},
		{name: "as root", set: func(tr *trial) { tr.user = "root" }},
		{name: "the head is not among the hosts", hosts: 4, set: func(tr *trial) { tr.names("host1", "host2", "host3") }},
		{name: "full names", set: func(tr *trial) { tr.names("host0.lab", "host1.lab", "host2.lab") }},
		{name: "addresses", set: func(tr *trial) { tr.names("10.77.0.1", "10.77.0.2", "10.77.0.3") }},
		{name: "names of IPv6 addresses", set: func(tr *trial) {
			for i, h := range tr.Hosts {
				h.Sh(fmt.Sprintf("ip -6 addr add fd00:77::%d/64 dev eth0 nodad", i+1))
			}
			tr.all("for i in 0 1 2; do echo fd00:77::$((i+1)) six$i; sed -i s/^host$i,/host$i,six$i,fd00:77::$((i+1)),/ " +
				"/etc/ssh/ssh_known_hosts; done >>/etc/hosts")
			tr.names("host0", "six1", "six2")
		}},
		{name: "an alias of ssh", only: hydra, set: func(tr *trial) {
			alias(tr)
			tr.names("host0", "one", "two")
		}},
		{name: "users in the hostfile", only: openMPI, set: func(tr *trial) {
			tr.list("host0 slots=1\nuser@host1 slots=1\nuser@host2 slots=1\n")
		}},
		{name: "a user of ssh's configuration", set: func(tr *trial) {
			tr.user = "root"
			tr.Hosts[0].Sh("printf 'Host host1 host2\\n User user\\n' >/root/.ssh/config")
		}},
		{name: "another port of ssh", set: func(tr *trial) {
			tr.Hosts[1].Sshd("Port 2222")
			tr.Hosts[0].Sh("printf 'Host host1\\n Port 2222\\n HostKeyAlias host1\\n' >/etc/ssh/ssh_config")
		}},
		{name: "comments and empty lines", set: func(tr *trial) {
			form := map[bool]string{true: "host%d:1", false: "host%d   slots=1 max_slots=4"}[tr.MPI.mpich()]
			tr.list("# the hosts\n\n" + fmt.Sprintf(form, 0) + "\n  # not this\n" + fmt.Sprintf(form, 1) + "\n#host9\n" +
				fmt.Sprintf(form, 2) + "\n\n")
		}},
		{name: "a pipe of hosts", only: hydra, short: "MPICH 5.0", set: func(tr *trial) {
			file := Job + "/hosts"
			tr.Hosts[0].Sh(fmt.Sprintf("mv %[1]s %[1]s.text; mkfifo -m 644 %[1]s; { for i in 1 2; do cat %[1]s.text >%[1]s; "+
				"sleep 1; done; } >/dev/null 2>&1 </dev/null &", file)) // once for each side
		}},
		{name: "several slots", ranks: 6, set: func(tr *trial) {
			tr.ranks(6)
			tr.list(map[bool]string{true: "host0:2\nhost1:2\nhost2:2\n",
				false: "host0 slots=2\nhost1 slots=2\nhost2 slots=2\n"}[tr.MPI.mpich()])
		}},
		{name: "a host twice", set: func(tr *trial) {
			tr.list(map[bool]string{true: "host0\nhost1\nhost1\n", false: "host0 slots=1\nhost1\nhost1\n"}[tr.MPI.mpich()])
		}},
		{name: "no slots", set: func(tr *trial) { tr.list("host0\nhost1\nhost2\n") }},
		{name: "more hosts than ranks", ranks: 2, set: func(tr *trial) { tr.ranks(2) }},
		{name: "hosts on the line", set: func(tr *trial) {
			if tr.MPI.mpich() {
				tr.replace("-hosts", "host0,host1,host2")
			} else {
				tr.replace("--host", "host0,host1,host2")
			}
		}},
		{name: "hosts and slots on the line", ranks: 4, set: func(tr *trial) {
			tr.ranks(4)
			if tr.MPI.mpich() {
				tr.replace("-hosts", "host1:2,host2:2")
			} else {
				tr.replace("-H", "host1:2,host2:2")
			}
		}},
	}
}

// alias gives names to hosts that ssh alone knows.
func alias(tr *trial) {
	tr.Hosts[0].Sh("printf 'Host one\\n HostName 10.77.0.2\\nHost two\\n HostName 10.77.0.3\\n' >/etc/ssh/ssh_config")
}

func healthyLines() []start {
	return []start{
		{name: "the path of mpirun", set: func(tr *trial) {
			tr.line[0] = cmp.Or(tr.MPI.Prefix, "/usr") + "/bin/" + tr.line[0]
		}},
		{name: "a program relative to the directory", set: func(tr *trial) {
			tr.program("job/world")
		}},
		{name: "a working directory", set: func(tr *trial) {
			tr.flags(map[bool]string{true: "-wdir", false: "--wdir"}[tr.MPI.mpich()], Job)
			tr.program("./world")
		}},
		{name: "a bare name in the working directory", only: openMPI, short: "Open MPI 4.1", set: func(tr *trial) {
			tr.flags("--wdir", Job)
			tr.program("world")
		}},
		{name: "a bare name in the directory of --path", only: openMPI[:1], set: func(tr *trial) {
			tr.flags("--path", Job)
			tr.program("world")
		}},
		{name: "a program after env", set: func(tr *trial) { tr.program("env", "A=b", Job+"/world") }},
		{name: "a program in a shell line", set: func(tr *trial) {
			tr.program("bash", "-c", "ulimit -c 0; exec "+Job+"/world")
		}},
		{name: "two programs", only: openMPI, set: func(tr *trial) {
			tr.ranks(1)
			tr.line = append(tr.line, ":", "-np", "2", Job+"/world")
		}},
		{name: "variables of the user", set: func(tr *trial) {
			if tr.MPI.mpich() {
				tr.flags("-genv", "LD_LIBRARY_PATH", tr.MPI.Prefix+"/lib", "-genv", "NCCL_DEBUG", "WARN")
			} else {
				tr.flags("-x", "LD_LIBRARY_PATH="+cmp.Or(tr.MPI.Prefix, "/usr")+"/lib", "-x", "NCCL_DEBUG=WARN")
			}
		}},
		{name: "an interface of the user", set: func(tr *trial) {
			switch {
			case tr.MPI.mpich():
				tr.flags("-iface", "eth0")
			case tr.MPI.Daemon == "orted":
				tr.flags("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0")
			default:
				tr.flags("--mca", "btl_tcp_if_include", "eth0", "--prtemca", "prte_if_include", "eth0")
			}
		}},
		{name: "an agent of the user", set: func(tr *trial) {
			tr.Hosts[0].Sh("printf '#!/bin/sh\\nexec ssh -q -o BatchMode=yes \"$@\"\\n' >/usr/local/bin/agent; " +
				"chmod 755 /usr/local/bin/agent")
			switch { // Open MPI's daemons do not stay where the agent has another name than ssh or rsh
			case tr.MPI.mpich():
				tr.flags("-bootstrap-exec", "/usr/local/bin/agent")
			case tr.MPI.Daemon == "orted":
				tr.flags("--mca", "plm_rsh_agent", "ssh -q")
			default:
				tr.flags("--prtemca", "plm_ssh_agent", "ssh -q")
			}
		}},
		{name: "one rank a host", set: func(tr *trial) {
			if tr.MPI.mpich() {
				tr.flags("-ppn", "1")
			} else {
				tr.flags("--map-by", "ppr:1:node")
			}
		}},
		{name: "more ranks than slots", ranks: 4, set: func(tr *trial) {
			tr.ranks(4)
			if tr.MPI.Daemon == "orted" {
				tr.flags("--oversubscribe")
			} else if !tr.MPI.mpich() {
				tr.flags("--map-by", ":OVERSUBSCRIBE")
			}
		}},
		{name: "hosts of the environment", only: hydra, set: func(tr *trial) {
			tr.replace()
			tr.env = []string{"HYDRA_HOST_FILE=" + Job + "/hosts"}
		}},
		{name: "a default hostfile", only: []string{"Open MPI 4.1"}, set: func(tr *trial) {
			tr.replace()
			tr.env = []string{"OMPI_MCA_orte_default_hostfile=" + Job + "/hosts"}
		}},
	}
}

func healthyMachines() []start {
	return []start{
		{name: "a shell that finds no MPI", only: []string{"Open MPI 5.0", "MPICH 5.0"}, set: func(tr *trial) {
			tr.all("echo >/home/user/.bashrc") // both pass on where they are
		}},
		{name: "a login shell that reads no file", set: func(tr *trial) {
			tr.all("sed -i '/^user/s|/bin/bash|/bin/sh|' /etc/passwd")
		}},
		{name: "a shell start-up of three seconds", set: func(tr *trial) {
			tr.Hosts[sick].Sh("echo 'sleep 3' >>/home/user/.bashrc")
		}},
		{name: "a shell start-up that complains", set: func(tr *trial) {
			tr.Hosts[sick].Sh("echo 'echo stty: standard input: Inappropriate ioctl for device >&2' >>/home/user/.bashrc")
		}},
		{name: "a banner of sshd", set: func(tr *trial) {
			tr.Hosts[sick].Sh("echo 'Authorized use only' >/etc/issue.net")
			tr.Hosts[sick].Sshd("Banner /etc/issue.net")
		}},
		{name: "a temporary directory that the head alone has", set: func(tr *trial) {
			tr.Hosts[0].Sh("mkdir -m 1777 /scratch")
			tr.env = []string{"TMPDIR=/scratch"}
		}},
		{name: "a home that is read-only", set: func(tr *trial) {
			tr.Hosts[sick].Sh("mount -o remount,ro /home")
		}},
		{name: "docker0 on one host", set: func(tr *trial) { tr.Hosts[sick].Decoy("docker0", "172.17.0.1/16") }},
		{name: "two interfaces", set: func(tr *trial) {
			for i, h := range tr.Hosts {
				h.NIC("eth1", fmt.Sprintf("10.78.0.%d/24", i+1))
			}
		}},
		{name: "a default route by another interface", set: func(tr *trial) {
			for i, h := range tr.Hosts {
				h.NIC("eth1", fmt.Sprintf("10.78.0.%d/24", i+1))
				h.Sh("ip route add default via 10.78.0.200 dev eth1")
			}
		}},
		{name: "a login at a terminal", set: func(tr *trial) { tr.tty = true }},
	}
}
