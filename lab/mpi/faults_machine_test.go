package mpi

import (
	"os/exec"
	"path/filepath"
)

func machineFaults() []fault {
	tmp := func(options string) func(*trial) {
		return func(tr *trial) { tr.Hosts[sick].Sh("mount -t tmpfs -o mode=1777," + options + " tmpfs /tmp") }
	}
	return []fault{
		{
			name: "a clock an hour ahead",
			inject: func(tr *trial) {
				lib := filepath.Join(tr.t.TempDir(), "skew.so")
				if out, err := exec.Command("gcc", "-O2", "-fno-stack-protector", "-fcf-protection=none", "-shared", "-fPIC",
					"-o", lib, "../e2e/testdata/skew.c").CombinedOutput(); err != nil {
					tr.t.Fatalf("skew.c: %v\n%s", err, out)
				}
				tr.Hosts[sick].Install(lib, "skew.so")
				tr.Hosts[sick].Sshd("SetEnv LD_PRELOAD=/usr/local/bin/skew.so SKEW=3600")
			},
			says: []string{"clock"},
			runs: Each,
		},
		{
			name:   "a low limit of locked memory under ssh",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("prlimit --pid $(cat /run/sshd.pid) --memlock=65536:65536") },
			says:   []string{"memlock", "locked memory"},
			runs:   Each,
		},
		{
			name:   "few files may be open under ssh",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("prlimit --pid $(cat /run/sshd.pid) --nofile=64:64") },
			says:   []string{"nofile", "open files"},
			runs:   []string{"Open MPI 4.1", "MPICH 5.0", "Intel MPI"}, // Open MPI 5.0 ends without a word
		},
		{
			name:   "nothing may be executed in /tmp",
			inject: tmp("noexec"),
			runs:   Each, quiet: true,
		},
		{
			name: "nothing may be executed in any folder", short: "MPICH 5.0",
			inject: func(tr *trial) {
				tr.all("cp " + Job + "/world /usr/local/bin/world")
				tr.line[len(tr.line)-1] = "/usr/local/bin/world"
				tr.Hosts[sick].Sh("for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o mode=1777,noexec tmpfs $d; done; " +
					"mount -o remount,noexec /home")
			},
			says: []string{"(noexec)"},
			runs: Each,
		},
		{
			name:   "the folder of the program is mounted noexec",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("mount -o remount,noexec /home") },
			says:   []string{"/home is mounted noexec"},
		},
		{ // uname says so: the processor is this machine's
			name: "another processor", short: "Open MPI 5.0",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh(`printf '#!/bin/sh\n[ "$*" = "-n -m" ] || exec /usr/bin/uname "$@"\necho host2 aarch64\n' ` +
					">/usr/local/bin/uname; chmod 755 /usr/local/bin/uname")
			},
			says: []string{"its processor is aarch64"},
			runs: Each,
		},
		{
			name:   "a /tmp that is read-only",
			inject: tmp("ro"),
			says:   []string{"/tmp", "read-only"},
			only:   openMPI,
		},
		{
			name: "a /tmp that is full",
			inject: func(tr *trial) {
				tmp("size=64k")(tr)
				tr.Hosts[sick].Sh("head -c 1M /dev/zero >/tmp/full ||:")
			},
			says: []string{"/tmp", "space"},
			only: openMPI,
		},
		{
			name:   "a /tmp without inodes",
			inject: tmp("nr_inodes=1"),
			says:   []string{"/tmp", "inode", "space"},
			only:   openMPI,
		},
		{
			name: "a /dev/shm that is full",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh("mount -t tmpfs -o mode=1777,size=64k tmpfs /dev/shm; head -c 1M /dev/zero >/dev/shm/full ||:")
			},
			says: []string{"/dev/shm", "space"},
			runs: openMPI,
		},
		{
			name:   "no directory of the job",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("rm -r " + Job) },
			says:   []string{"world", Job},
		},
	}
}
