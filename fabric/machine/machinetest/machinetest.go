// Package machinetest holds machines of many kinds for tests: each a short text
// made of what is known of real ones.
package machinetest

import (
	"embed"
	"io/fs"
	"path"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/machine"
)

//go:embed machines/*.txt
var machines embed.FS

// Names are the machines there are, by name.
func Names() []string {
	entries, _ := fs.ReadDir(machines, "machines") // embedded
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return out
}

// Text is a machine's description by its name.
func Text(t testing.TB, name string) []byte {
	t.Helper()
	text, err := machines.ReadFile(path.Join("machines", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Machine is a machine by its name.
func Machine(t testing.TB, name string) *machine.Machine {
	t.Helper()
	m, err := machine.Read(Text(t, name))
	if err != nil {
		t.Fatalf("machine %s: %v", name, err)
	}
	return m
}

// Node is what fabric.Detect finds on a machine.
func Node(t testing.TB, name string) fabric.Node {
	t.Helper()
	return Machine(t, name).Detect(t.Context())
}
