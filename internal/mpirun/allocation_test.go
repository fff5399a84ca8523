package mpirun

import (
	"testing"
	"testing/fstest"

	"launch/internal/launcher"
)

func TestAnOpenMPIWithoutSlurm(t *testing.T) {
	part, library := &fstest.MapFile{}, &fstest.MapFile{Data: []byte("\x00help-ras-slurm.txt\x00help-plm-slurm.txt\x00")}
	lacks := &fstest.MapFile{Data: []byte("\x00help-ras-base.txt\x00")}
	for _, tt := range []struct {
		name  string
		root  fstest.MapFS
		slots int // of n1:4, which has 2 in the allocation
		doubt bool
		srun  bool
	}{
		{"parts as files", fstest.MapFS{"opt/mpi/lib/libopen-rte.so.40": lacks, "opt/mpi/lib/openmpi/mca_ras_slurm.so": part,
			"opt/mpi/lib/openmpi/mca_plm_slurm.so": part}, 2, false, true},
		{"Debian's place", fstest.MapFS{"opt/mpi/lib/x86_64-linux-gnu/libopen-rte.so.40": lacks,
			"opt/mpi/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_ras_slurm.so": part}, 2, false, false},
		{"in the library", fstest.MapFS{"opt/mpi/lib/openmpi/libprrte.so.3": library}, 2, false, true},
		{"without", fstest.MapFS{"opt/mpi/lib64/libopen-rte.so.40": lacks}, 4, false, false},
		{"an unknown place", fstest.MapFS{"usr/lib/libopen-rte.so.40": library}, 2, true, true},
	} {
		line, err := launcher.Parse([]string{"mpirun", "-np", "4", "--host", "n1:4", "./a"}, "")
		if err != nil {
			t.Fatal(err)
		}
		run, err := Read(Input{Line: line.Of("openmpi4"), Root: tt.root, Binary: "/opt/mpi/bin/mpirun",
			Env: []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=2(x2)"}})
		if err != nil || run.Hosts[0].Slots != tt.slots || run.Doubt != tt.doubt || run.Agent.Srun != tt.srun {
			t.Errorf("%s: %+v %v", tt.name, run, err)
		}
	}
}
