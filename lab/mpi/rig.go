// Package mpi is a laboratory of hosts that mpirun reaches by ssh. Each host has its own network,
// process ids, host name, root file system and sshd, and a user with a key; all share the kernel and
// the clock. It needs root, iproute2 and a binary of sshd; a test without them is skipped with the
// reason.
package mpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"launch/lab/netns"
)

// User is the ordinary user of all hosts.
const User = "user"

// Job is the directory of the job on each host, with the program world.
const Job = "/home/user/job"

// Rig is hosts with one MPI. The head is Hosts[0].
type Rig struct {
	Hosts []*Host
	MPI   MPI
	Lab   *netns.Lab

	t    testing.TB
	sshd string // the binary on this machine
}

// New makes n hosts, host0 to host<n-1>, that have an MPI in the PATH of every shell. Root and
// User log in from each host to each other by a key. All hosts end with the test.
func New(t testing.TB, m MPI, n int) *Rig {
	t.Helper()
	r := &Rig{MPI: m, t: t, sshd: findSSHD(t)}
	r.Lab = netns.New(t, n)
	world := filepath.Join(t.TempDir(), "world")
	m.Build(t, world)
	keys := newKeys(t, r.Lab.Hosts)
	for i, h := range r.Lab.Hosts {
		r.Hosts = append(r.Hosts, &Host{Host: h, rig: r, number: i})
	}
	for _, h := range r.Hosts {
		h.stage(keys, world)
		h.boot()
	}
	for _, h := range r.Hosts {
		h.awaitReady()
	}
	return r
}

// findSSHD returns the binary: where the package is installed, or where tools/test.sh unpacked it.
func findSSHD(t testing.TB) string {
	t.Helper()
	for _, file := range []string{"/usr/sbin/sshd", filepath.Join(repository(), "bin", "debian", "usr", "sbin", "sshd")} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Skip("needs sshd, of the Debian package openssh-server")
	return ""
}

// Names returns the names of hosts, by their numbers; without any, of all hosts.
func (r *Rig) Names(numbers ...int) []string {
	var names []string
	for i, h := range r.Hosts {
		if len(numbers) == 0 {
			names = append(names, h.Name)
		}
		for _, n := range numbers {
			if n == i {
				names = append(names, h.Name)
			}
		}
	}
	return names
}

// Hostfile writes the job's hostfile on the head, one line for each host, in the form of this MPI,
// and returns its path.
func (r *Rig) Hostfile(names ...string) string {
	form := "%s slots=1\n"
	if r.MPI.mpich() {
		form = "%s:1\n"
	}
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, form, name)
	}
	r.Hosts[0].Write(Job+"/hosts", text.String())
	return Job + "/hosts"
}

// Line returns a command line that starts one process of the job's program on each host.
func (r *Rig) Line(names ...string) []string {
	flag := "--hostfile"
	switch {
	case r.MPI.intel():
		flag = "-machinefile" // it takes no numbers from the others
	case r.MPI.mpich():
		flag = "-f"
	}
	return []string{r.MPI.Run, "-np", fmt.Sprint(len(names)), flag, r.Hostfile(names...), Job + "/world"}
}

// keys are the keys of all hosts, as files.
type keys struct {
	user  string            // a private key, with .pub next to it
	hosts map[string]string // a host's private key
	known string            // the text of ssh_known_hosts
}

func newKeys(t testing.TB, hosts []*netns.Host) keys {
	t.Helper()
	dir := t.TempDir()
	k := keys{user: filepath.Join(dir, "user"), hosts: map[string]string{}}
	keygen(t, k.user)
	var known strings.Builder
	for _, h := range hosts {
		file := filepath.Join(dir, h.Name)
		keygen(t, file)
		k.hosts[h.Name] = file
		fmt.Fprintf(&known, "%s,%s.lab,%s %s", h.Name, h.Name, h.Addr, read(t, file+".pub"))
	}
	k.known = known.String()
	return k
}

func keygen(t testing.TB, file string) {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput()
	if err != nil {
		t.Skipf("needs ssh-keygen, of the Debian package openssh-client: %v %s", err, out)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
