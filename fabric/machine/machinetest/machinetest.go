// Package machinetest holds machines of many kinds for tests, each a short text based on a real one.
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

// Names returns the names of the machines.
func Names() []string {
	entries, _ := fs.ReadDir(machines, "machines") // embedded
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return out
}

// Text returns the description of a machine.
func Text(t testing.TB, name string) []byte {
	t.Helper()
	text, err := machines.ReadFile(path.Join("machines", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Machine returns a machine by its name.
func Machine(t testing.TB, name string) *machine.Machine {
	t.Helper()
	m, err := machine.Read(Text(t, name))
	if err != nil {
		t.Fatalf("machine %s: %v", name, err)
	}
	return m
}

// Node returns what fabric.Detect finds on a machine.
func Node(t testing.TB, name string) fabric.Node {
	t.Helper()
	return Machine(t, name).Detect(t.Context())
}
