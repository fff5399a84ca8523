package mpirun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/internal/launcher"
	"launch/internal/setting"
)

// A host says which of its files' parameters are in force, with the line; those of mpirun's own line go first.
func TestAHostSaysWhichParametersItsFilesSet(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bin/orted": "#!/bin/sh\n",
		"etc/openmpi-mca-params.conf": "# btl = self\n\n btl = self,tcp\nbtl=\"self,vader\"\npml = ucx\noob = ^tcp\n" +
			"btl_base_verbose = 1\nbtl_tcp_if_include\t=\teth0",
		"etc/openmpi-mca-params-override.conf": "/* pml = cm */\n // btl = self\n/* btl = x\n * oob = y\n **/ /* z\n" +
			"*/ /*/ pml = cm\n\n */prte_if_include = eth7\n/* oob = no end\n",
		".openmpi/mca-params.conf": "pml = ob1\nmca_base_env_list = btl=1\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := Run{Daemon: filepath.Join(dir, "bin/orted"), Exports: []string{"HOME=" + dir},
		Parameters: []Parameter{{Name: "oob", Value: "tcp", From: "environment"}}}
	f := answers(t, []string{"sh", "-s"}, run, Ask{Self: "/none", Hash: "0"})
	etc := filepath.Join(dir, "etc/openmpi-mca-params.conf")
	override := filepath.Join(dir, "etc/openmpi-mca-params-override.conf")
	want := []Parameter{{"prte_if_include", "eth7", override, 8, true},
		{"pml", "ob1", filepath.Join(dir, ".openmpi/mca-params.conf"), 1, false}, {"btl", "self,vader", etc, 4, false},
		{"oob", "^tcp", etc, 6, false}, {"btl_tcp_if_include", "eth0", etc, 8, false}}
	if !slices.Equal(f.Parameters[:min(5, len(f.Parameters))], want) {
		t.Errorf("%+v", f.Parameters)
	}
	run.Parameters = append(run.Parameters, Parameter{Name: "prte_if_include", Value: "eth0"})
	for name, value := range map[string]string{"oob": "tcp", "prte_if_include": "eth7", "pml": "ob1", "x": ""} {
		if p, ok := run.InForce(f, name); p.Value != value || ok != (value != "") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Ports that the line names for its processes are known, of any of the forms of each MPI.
func TestPortsThatTheLineNames(t *testing.T) {
	for _, tt := range []struct {
		mpi  string
		env  []string
		set  []setting.Decided
		want string
	}{
		{"openmpi4", nil, []setting.Decided{{Name: "OMPI_MCA_btl_tcp_port_min_v4", Value: "10000"}},
			"btl_tcp_port_min_v4=10000"},
		{"openmpi4", []string{"MPICH_PORT_RANGE=1:2"}, nil, ""},
		{"mpich", []string{"MPICH_PORT_RANGE=1:2"}, nil, "MPICH_PORT_RANGE=1:2"},
		{"mpich", nil, nil, ""},
		{"mpich", []string{"UCX_TCP_PORT_RANGE=0", "MPIR_CVAR_PORT_RANGE=3:4"}, nil, "MPIR_CVAR_PORT_RANGE=3:4"},
	} {
		r := &reader{Input: Input{Line: launcher.Line{MPI: tt.mpi}, Env: tt.env, Decided: tt.set}}
		if got := r.jobPorts(); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// A host with more addresses than it writes is one whose interfaces are not known.
func TestAHostWithVeryManyAddresses(t *testing.T) {
	for n, want := range map[int]bool{3: true, 200: false} {
		line := "addresses\t" + strings.TrimSpace(strings.Repeat("docker0 172.17.0.1/16 ", n))
		f, _ := ReadFacts([]string{line[:min(len(line), len("addresses\t")+cut)]})
		if ok, _, known := f.Selects("eth0"); ok || known != want {
			t.Errorf("%d: %v, known %v", n, ok, known)
		}
	}
}
