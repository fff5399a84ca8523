package envgen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/machine/machinetest"
	"launch/fabric/software"
	"launch/internal/setting"
)

// The plan for two nodes of each kind of machine, with a current NCCL and with
// one before 2.21 (UPDATE=1 writes them).
func TestPlansOfMachines(t *testing.T) {
	for _, name := range machinetest.Names() {
		t.Run(name, func(t *testing.T) {
			n := machinetest.Node(t, name)
			in := Input{Node: n, World: World{Nodes: 2, Addr: n.Route.Src}, Torch: true}
			var b strings.Builder
			for _, version := range []string{"", "2.20.5"} {
				in.Node.Software.NCCL = software.Item{Version: version, Path: "/opt/libnccl.so.2"}
				if version == "" {
					in.Node.Software = n.Software
				}
				fmt.Fprintf(&b, "NCCL %s\n", map[bool]string{true: "not known, or the machine's own",
					false: version}[version == ""])
				for _, v := range Make(in) {
					fmt.Fprintf(&b, "  %s=%s\n      %s\n", v.Name, v.Value, v.Reason)
				}
			}
			file := filepath.Join("testdata", "machines", name+".plan")
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if diff := cmp.Diff(string(want), b.String()); diff != "" || err != nil {
				t.Errorf("%s, %v (-want +got):\n%s", file, err, diff)
			}
		})
	}
}

// What the plan sets is what the library then does right: planned again with
// these values, nothing is left to do.
func TestPlansHoldWhatTheyPromise(t *testing.T) {
	for _, name := range machinetest.Names() {
		n := machinetest.Node(t, name)
		in := Input{Node: n, World: World{Nodes: 2, Addr: n.Route.Src}, Torch: true, Uses: []string{"ucx", "nvshmem"}}
		for _, v := range Make(in) {
			in.Decided = append(in.Decided, setting.Decided{Name: v.Name, Value: v.Value, From: "plan"})
		}
		for _, v := range Make(in) {
			t.Errorf("%s: with its own plan, %s=%s (%s)", name, v.Name, v.Value, v.Reason)
		}
		for _, f := range Lint(in) {
			if f.ID != "env.gid-index" { // which says that another card would need another
				t.Errorf("%s: the lint finds fault with the plan: %s %s", name, f.ID, f.What)
			}
		}
	}
}
