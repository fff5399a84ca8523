package mpirun

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatALinePlacesOnEachHost(t *testing.T) {
	for line, want := range map[string]*Per{
		"mpirun -np 4 --map-by ppr:2:node ./a":               {2, "node", "--map-by ppr:2:node"},
		"mpirun --map-by ppr:2:node:OVERSUBSCRIBE ./a":       {2, "node", "--map-by ppr:2:node:OVERSUBSCRIBE"},
		"mpirun --map-by PPR:1:Socket ./a":                   {1, "package", "--map-by PPR:1:Socket"},
		"mpirun --map-by ppr:1:package ./a":                  {1, "package", "--map-by ppr:1:package"},
		"mpirun --map-by ppr:3:numa ./a":                     {3, "numa", "--map-by ppr:3:numa"},
		"mpirun -npernode 2 ./a":                             {2, "node", "-npernode 2"},
		"mpirun -N 2 ./a":                                    {2, "node", "-N 2"},
		"mpirun --pernode ./a":                               {1, "node", "-pernode"},
		"mpirun --npersocket 2 ./a":                          {2, "package", "-npersocket 2"},
		"mpirun -ppr 2:node ./a":                             {2, "node", "-ppr 2:node"},
		"mpirun --map-by ppr:2:node,1:socket ./a":            nil,
		"mpirun --map-by ppr:2:node:PE=4 ./a":                nil,
		"mpirun --map-by ppr:2:l3cache ./a":                  nil,
		"mpirun --map-by ppr:x:node ./a":                     nil,
		"mpirun --map-by node ./a":                           nil,
		"mpirun -np 1 --map-by ppr:2:node ./a : -np 1 ./b":   nil,
		"mpirun -np 1 --map-by ppr:99999999999999:node ./a ": nil,
	} {
		if diff := cmp.Diff(want, read(t, "openmpi4", nil, strings.Fields(line)...).Per); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	if got := read(t, "mpich", nil, "mpiexec", "-ppn", "2", "./a").Per; got != nil {
		t.Errorf("Hydra: %+v", got)
	}
}

func TestPartsOfAHost(t *testing.T) {
	f, _ := ReadFacts([]string{"cores\t8", "parts\t8\t2\t4"})
	if f.Packages != 2 || f.NUMA != 4 {
		t.Errorf("%+v", f)
	}
	if f, _ = ReadFacts([]string{"cores\t4", "parts\t8\t2\t4"}); f.Packages+f.NUMA != 0 {
		t.Errorf("a shell with some of the processors: %+v", f)
	}
}
