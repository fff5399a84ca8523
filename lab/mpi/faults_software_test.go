package mpi

import (
	"os/exec"
	"path/filepath"
)

// uninstall takes the MPI from a host.
func (tr *trial) uninstall(host int) {
	tr.t.Helper()
	if tr.MPI.Prefix == "" {
		tr.Hosts[host].Sh("rm /usr/bin/orted")
	} else {
		tr.Hosts[host].Sh("umount " + tr.MPI.Prefix)
	}
}

func softwareFaults() []fault {
	return []fault{
		{
			name: "MPI not installed on one host", short: "Open MPI 5.0",
			inject: func(tr *trial) { tr.uninstall(sick) },
			says:   []string{"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"},
		},
		{
			name: "the daemon of another version",
			inject: func(tr *trial) {
				other := Find(tr.t, "Open MPI 4.1.8")
				tr.Hosts[sick].Sh("echo 'export PATH=" + other.Prefix + "/bin:$PATH' >>/home/user/.bashrc")
			},
			says: []string{"4.1.8"},
			only: []string{"Open MPI 4.1"},
		},
		{
			name: "a proxy of another version", only: []string{"MPICH 5.0"},
			inject: func(tr *trial) {
				p := tr.MPI.Prefix + "/bin/hydra_pmi_proxy"
				tr.Hosts[sick].Sh("sed 's/5\\.0\\.2/4.9.9/' " + p + " >/usr/local/bin/p && chmod 755 /usr/local/bin/p && " +
					"mount --bind /usr/local/bin/p " + p)
			},
			says: []string{"4.9.9"},
		},
		{
			name: "a file of parameters that excludes TCP", only: openMPI,
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh("mkdir /home/user/.openmpi; echo 'btl = self,vader' >/home/user/.openmpi/mca-params.conf")
			},
			says: []string{"mca-params.conf:1"},
		},
		{
			name: "a program of another MPI", short: "MPICH 5.0",
			inject: func(tr *trial) {
				other := Find(tr.t, "MPICH 5.0")
				if tr.MPI.mpich() {
					other = Find(tr.t, "Open MPI 5.0")
				}
				world := filepath.Join(tr.t.TempDir(), "world")
				other.Build(tr.t, world)
				for _, h := range tr.Hosts {
					h.Install(world, "world")
				}
				tr.line[len(tr.line)-1] = "/usr/local/bin/world"
			},
			names: []string{},
			says:  []string{"Open MPI"},
		},
		{
			name:   "no program",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("rm " + Job + "/world") },
			says:   []string{"world"},
		},
		{
			name: "no script for the interpreter", short: "Open MPI 4.1",
			inject: func(tr *trial) {
				tr.all("printf 'exec " + Job + "/world\\n' >" + Job + "/run.sh")
				tr.Hosts[sick].Sh("rm " + Job + "/run.sh")
				tr.line = append(tr.line[:len(tr.line)-1], "env", "A=b", "sh", Job+"/run.sh")
			},
			says: []string{"run.sh"},
		},
		{
			name:   "a program that may not be executed",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("chmod 644 " + Job + "/world") },
			says:   []string{"world"},
		},
		{
			name:   "another program of the same name",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("printf x >>" + Job + "/world") },
			says:   []string{"world"},
			runs:   Each,
		},
		{
			name: "a library of the program missing",
			inject: func(tr *trial) {
				dir := tr.t.TempDir()
				world, lib := filepath.Join(dir, "world"), filepath.Join(dir, "libjob.so")
				args := []string{"-shared", "-o", lib, "-Wl,-soname,libjob.so", "-x", "c", "/dev/null"}
				if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
					tr.t.Fatalf("gcc: %v\n%s", err, out)
				}
				tr.MPI.Build(tr.t, world, "-Wl,--no-as-needed", lib, "-Wl,-rpath,/usr/local/bin")
				for i, h := range tr.Hosts {
					h.Install(world, "world")
					if i != sick {
						h.Install(lib, "libjob.so")
					}
				}
				tr.line[len(tr.line)-1] = "/usr/local/bin/world"
			},
			says: []string{"libjob.so"},
		},
		{
			name: "a hostfile with the line ends of Windows",
			inject: func(tr *trial) {
				tr.Hosts[0].Sh("sed -i 's/ slots=1\\|:1//; s/$/\\r/' " + Job + "/hosts")
			},
			names: []string{},
			says:  []string{"line end", "carriage", "Windows"},
			only:  openMPI, // MPICH does not mind
		},
		{
			name: "too few slots",
			inject: func(tr *trial) {
				for i, word := range tr.line {
					if word == "-np" {
						tr.line[i+1] = "4"
					}
				}
			},
			names: []string{},
			says:  []string{"slot"},
			ranks: 4,
			only:  []string{"Open MPI 4.1", "Open MPI 5.0"}, // MPICH starts two on one host
		},
	}
}
