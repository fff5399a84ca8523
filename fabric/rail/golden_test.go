package rail

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/machine/machinetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Next to each machine made for tests is its fabric: kind, rails with their GID, GPUs
// with their rails, and each HCA's role.
func TestFabricOfEachMachine(t *testing.T) {
	for _, name := range machinetest.Names() {
		t.Run(name, func(t *testing.T) {
			n := machinetest.Node(t, name)
			f := Of(n, n.Route.Src)
			got, err := json.MarshalIndent(f, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := filepath.Join("..", "machine", "machinetest", "machines", name+".rails.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v (go test ./fabric/rail -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("fabric of %s (-want +got):\n%s", name, diff)
			}
		})
	}
}
