package mpirun

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/setting"
)

func TestWhereALinePlacesItsProcesses(t *testing.T) {
	for line, want := range map[string]*Per{
		"mpirun -np 4 --map-by ppr:2:node ./a":           {N: 2, Of: "node", Option: "--map-by ppr:2:node"},
		"mpirun --map-by ppr:2:node:NOOVERSUBSCRIBE ./a": {N: 2, Of: "node", Option: "--map-by ppr:2:node:NOOVERSUBSCRIBE"},
		"mpirun --map-by PPR:1:Socket ./a":               {N: 1, Of: "package", Option: "--map-by PPR:1:Socket"},
		"mpirun --map-by ppr:1:package ./a":              {N: 1, Of: "package", Option: "--map-by ppr:1:package"},
		"mpirun --map-by ppr:3:numa ./a":                 {N: 3, Of: "numa", Option: "--map-by ppr:3:numa"},
		"mpirun --map-by ppr:2:l3cache ./a":              {N: 2, Of: "l3cache", Option: "--map-by ppr:2:l3cache"},
		"mpirun --map-by ppr:1:hwthread ./a":             {N: 1, Of: "hwthread", Option: "--map-by ppr:1:hwthread"},
		"mpirun -npernode 2 ./a":                         {N: 2, Of: "node", Option: "-npernode 2"},
		"mpirun -N 2 ./a":                                {N: 2, Of: "node", Option: "-N 2"},
		"mpirun --pernode ./a":                           {N: 1, Of: "node", Option: "-pernode"},
		"mpirun --npersocket 2 ./a":                      {N: 2, Of: "package", Option: "-npersocket 2"},
		"mpirun -ppr 2:node ./a":                         {N: 2, Of: "node", Option: "-ppr 2:node"},
		"mpirun --map-by ppr:2:node,1:socket ./a":        {N: 2, Of: "node,1", Option: "--map-by ppr:2:node,1:socket"},
		"mpirun --map-by ppr:2:node:PE=4 ./a":            {N: 2, Of: "node", CPUs: 4, Option: "--map-by ppr:2:node:PE=4"},
		"mpirun --map-by slot:PE=2:HWTCPUS ./a": {Of: "slot", CPUs: 2, Threads: true,
			Option: "--map-by slot:PE=2:HWTCPUS"},
		"mpirun --map-by :PE=2 ./a":        {Of: "slot", CPUs: 2, Option: "--map-by :PE=2"},
		"mpirun --cpus-per-proc 2 ./a":     {Of: "slot", CPUs: 2, Option: "--cpus-per-proc 2"},
		"mpirun --map-by core:PE=2 ./a":    {Of: "core", CPUs: 2, Option: "--map-by core:PE=2"},
		"mpirun --mca x y -pernode -v ./a": {N: 1, Of: "node", Option: "-pernode"},
		"mpirun --map-by socket --cpus-per-rank 2 --use-hwthread-cpus ./a": {Of: "package", CPUs: 2, Threads: true,
			Option: "--map-by socket --cpus-per-rank 2"},
		"mpirun --mca rmaps_base_mapping_policy ppr:2:node ./a": {N: 2, Of: "node",
			Option: "OMPI_MCA_rmaps_base_mapping_policy=ppr:2:node"},
		"mpirun --mca rmaps_base_n_persocket 1 ./a": {N: 1, Of: "package", Option: "OMPI_MCA_rmaps_base_n_persocket=1"},

		"mpirun --mca rmaps_base_pernode 1 ./a": {N: 1, Of: "node", Option: "OMPI_MCA_rmaps_base_pernode=1"},
		"mpirun --mca rmaps_base_cpus_per_proc 2 --mca hwloc_base_use_hwthreads_as_cpus 1 ./a": {Of: "slot", CPUs: 2,
			Threads: true, Option: "OMPI_MCA_rmaps_base_cpus_per_proc=2"},
		"mpirun --mca rmaps_base_cpus_per_proc 2 --mca hwloc_base_use_hwthreads_as_cpus 0 ./a": {Of: "slot", CPUs: 2,
			Option: "OMPI_MCA_rmaps_base_cpus_per_proc=2"},
		"mpirun --mca rmaps_base_pernode 0 ./a":        nil,
		"mpirun --mca rmaps_ppr_pernode false ./a":     nil,
		"mpirun --mca rmaps_base_pernode disabled ./a": nil,

		"mpirun --map-by ppr:2:node:PE=4 --bind-to none ./a": {N: 2, Of: "node",
			Option: "--map-by ppr:2:node:PE=4"},
		"mpirun --map-by slot:PE=2 --bind-to none ./a":                       nil,
		"mpirun --map-by slot:PE=2:OVERSUBSCRIBE ./a":                        nil,
		"mpirun --map-by slot:PE=2 --mca hwloc_base_binding_policy none ./a": nil,
		"mpirun --map-by socket ./a":                                         nil,
		"mpirun --map-by ppr:x:node ./a":                                     nil,
		"mpirun --map-by ppr:2:board ./a":                                    nil,
		"mpirun --map-by ppr:2 ./a":                                          nil,
		"mpirun --map-by slot:PE=x ./a":                                      nil,
		"mpirun --map-by seq:PE=2 ./a":                                       nil,
		"mpirun --map-by node ./a":                                           nil,
		"mpirun --map-by slot:PE=2 --mca rmaps_base_mapping_policy core ./a": nil,
		"mpirun -npernode 2 --map-by ppr:1:socket ./a":                       nil,
		"mpirun --cpus-per-proc 2 --map-by slot:PE=4 ./a":                    nil,
		"mpirun -np 1 --map-by ppr:2:node ./a : -np 1 ./b":                   nil,
		"mpirun -np 1 --map-by ppr:99999999999999:node ./a ":                 nil,
	} {
		if diff := cmp.Diff(want, read(t, "openmpi4", nil, strings.Fields(line)...).Per); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	if got := read(t, "mpich", nil, "mpiexec", "-ppn", "2", "./a").Per; got != nil {
		t.Errorf("Hydra: %+v", got)
	}
}

// Open MPI 5 takes the parameters of PRRTE from PRTE_MCA_ and the line, and those of Open MPI 4 from nowhere.
func TestParametersThatPlaceProcesses(t *testing.T) {
	for _, tc := range []struct {
		mpi, name, from string
		counts          bool
	}{
		{"openmpi4", "OMPI_MCA_rmaps_base_mapping_policy", "environment", true},
		{"openmpi5", "OMPI_MCA_rmaps_base_mapping_policy", "environment", false},
		{"openmpi5", "OMPI_MCA_rmaps_default_mapping_policy", "environment", false},
		{"openmpi5", "OMPI_MCA_rmaps_default_mapping_policy", "mpirun --mca", true},
		{"openmpi5", "PRTE_MCA_rmaps_default_mapping_policy", "environment", true},
		{"openmpi5", "PRTE_MCA_prte_map_by", "environment", true},
		{"openmpi5", "OMPI_MCA_rmaps_default_mapping_policy", "mpirun --omca", false},
		{"openmpi4", "PRTE_MCA_rmaps_default_mapping_policy", "environment", false},
		{"openmpi4", "PRTE_MCA_rmaps_base_mapping_policy", "environment", false},
	} {
		r := &reader{run: Run{Strict: true}}
		r.Line.MPI = tc.mpi
		r.Decided = []setting.Decided{{Name: tc.name, Value: "ppr:2:node", From: tc.from}}
		if got := r.per(); (got != nil) != tc.counts {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

func TestPartsOfAHost(t *testing.T) {
	const parts = "parts\tpackage 2 numa 4 l3cache 4 core 4 hwthread 8"
	f, _ := ReadFacts([]string{"cores\t8", parts})
	if f.Parts["package"] != 2 || f.Parts["numa"] != 4 || f.Parts["core"] != 4 {
		t.Errorf("%+v", f)
	}
	if f, _ = ReadFacts([]string{"cores\t4", parts}); f.Parts != nil {
		t.Errorf("a shell with some of the processors: %+v", f)
	}
}

// The shell counts the parts of this machine, whose processors are all of them.
func TestTheShellCountsParts(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"); err != nil {
		t.Skip(err)
	}
	run := Run{Per: &Per{N: 1, Of: "core"}}
	for _, shell := range []string{"sh", "bash"} {
		got := answers(t, []string{shell}, run, Ask{}).Parts
		if got["hwthread"] != runtime.NumCPU() || got["core"] < 1 || got["core"] > got["hwthread"] ||
			got["package"] < 1 || got["numa"] < 1 {
			t.Errorf("%s: %v", shell, got)
		}
	}
}
