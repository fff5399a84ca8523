package ofi

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// installed returns the programs of this machine.
func installed(t *testing.T) Programs {
	t.Helper()
	p, ok := Find("", exec.LookPath)
	if !ok {
		t.Skip("needs fi_info and fi_pingpong: apt-get install libfabric-bin")
	}
	return p
}

// The programs are real, and so is libfabric; its provider is TCP's, since no EFA is here.
func TestADomainCarriesDataToItself(t *testing.T) {
	p := installed(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	domains, err := p.Domains(ctx, "tcp")
	if err != nil || len(domains) == 0 || slices.Contains(domains, "") {
		t.Fatalf("%q, %v", domains, err)
	}
	took, err := p.Loop(ctx, "tcp", domains[0])
	if err != nil || took <= 0 || took > 10*time.Second {
		t.Errorf("%s: %s, %v", domains[0], took, err)
	}
}

func TestAProviderWithoutADeviceHasNoDomain(t *testing.T) {
	p := installed(t)
	if d, err := p.Domains(t.Context(), EFA); err != nil || len(d) > 0 {
		t.Errorf("%q, %v", d, err)
	}
	_, err := p.Loop(t.Context(), EFA, "rdmap0s6-rdm")
	if e, ok := errors.AsType[*Error](err); !ok || e.Late || !strings.Contains(e.Says, "-61") {
		t.Errorf("%v", err)
	}
}

// script writes a stand-in for a program.
func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsThatFail(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, tt := range []struct {
		ctx    context.Context
		script string
		says   string
		late   bool
	}{
		{t.Context(), "echo 'fi_endpoint(): fabric.c:1, ret=-12 (Cannot allocate memory)' >&2; exit 12",
			"fi_endpoint(): fabric.c:1, ret=-12 (Cannot allocate memory)", false},
		{t.Context(), "exit 3", "exit status 3", false},
		{t.Context(), "exit 0", "it ended before the test", false},
		{late, "exec sleep 30", "no answer", true},
	} {
		began := time.Now()
		_, err := Programs{PingPong: script(t, tt.script)}.Loop(tt.ctx, EFA, "x")
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Says != tt.says || e.Late != tt.late || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v", tt.script, err)
		}
	}
}

// What fi_info of libfabric 1.22 writes of two adapters (fi_info(1)).
func TestDomainsOfEFA(t *testing.T) {
	p := Programs{Info: script(t, `cat <<X
provider: efa
    fabric: efa
    domain: rdmap0s6-rdm
    version: 122.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: efa
    domain: rdmap0s7-rdm
    type: FI_EP_RDM
X`)}
	if d, err := p.Domains(t.Context(), EFA); err != nil || !slices.Equal(d, []string{"rdmap0s6-rdm", "rdmap0s7-rdm"}) {
		t.Errorf("%q, %v", d, err)
	}
}

func TestTheProgramsBesideTheLibraryComeFirst(t *testing.T) {
	have := func(paths ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, p := range paths {
				if filepath.Clean(name) == p || filepath.Base(p) == name && filepath.Dir(p) == "/usr/bin" {
					return p, nil
				}
			}
			return "", exec.ErrNotFound
		}
	}
	for _, tt := range []struct {
		library string
		have    []string
		want    string // the folder
	}{
		{"/opt/amazon/efa/lib/libfabric.so.1", []string{"/opt/amazon/efa/bin/fi_info", "/opt/amazon/efa/bin/fi_pingpong",
			"/usr/bin/fi_info", "/usr/bin/fi_pingpong"}, "/opt/amazon/efa/bin"},
		{"/usr/lib/libfabric.so.1", []string{"/usr/bin/fi_info", "/usr/bin/fi_pingpong"}, "/usr/bin"},
		{"", []string{"/opt/amazon/efa/bin/fi_info", "/opt/amazon/efa/bin/fi_pingpong"}, "/opt/amazon/efa/bin"},
		{"", []string{"/usr/bin/fi_info"}, ""},
	} {
		p, ok := Find(tt.library, have(tt.have...))
		if ok != (tt.want != "") || ok && (filepath.Dir(p.Info) != tt.want || filepath.Dir(p.PingPong) != tt.want) {
			t.Errorf("%q, %q: %+v, %v", tt.library, tt.have, p, ok)
		}
	}
}
