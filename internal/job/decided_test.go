package job

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"launch/internal/setting"
)

func TestLibrariesFilesAreReadInTheirOrder(t *testing.T) {
	in := input("torchrun t.py", "UCX_TLS=tcp", "HOME=/home/u", "UCX_CONFIG_DIR=conf")
	in.Dir = "/job"
	in.Root = fstest.MapFS{
		"job/ucx.conf": {Data: []byte("; mine\nUCX_TLS = rc\nUCX_A=here ; why\nUCX_A : " +
			"last\n[Grace]\nCPU model=Grace\nUCX_B=grace\n")},
		"job/conf/ucx.conf":                   {Data: []byte("UCX_A=conf\nUCX_C=conf\n")},
		"home/u/ucx.conf":                     {Data: []byte("UCX_C=home\nUCX_D=home\r\n")},
		"etc/ucx/ucx.conf":                    {Data: []byte("UCX_D=etc\nUCX_E=etc\nPATH=/x\n")},
		"etc/nccl.conf":                       {Data: []byte("NCCL_IB_TC=41\n")},
		"etc/openmpi/openmpi-mca-params.conf": {Data: []byte("pml = ^ucx\n")},
	}
	want := "UCX_CONFIG_DIR=conf environment; UCX_TLS=tcp environment; NCCL_IB_TC=41 /etc/nccl.conf; UCX_A=last " +
		"/job/ucx.conf; " +
		"UCX_C=conf /job/conf/ucx.conf; UCX_D=home /home/u/ucx.conf; UCX_E=etc /etc/ucx/ucx.conf"
	if diff := cmp.Diff(want, decisions(resolve(t, in))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMpirunsLineAndFilesCount(t *testing.T) {
	in := input("mpirun --mca btl tcp,self --mca pml ob1 -x NCCL_DEBUG=INFO -x NCCL_ALGO --prtemca prte_if_include "+
		"10.0.0.0/24 -np 2 ./x",
		"OMPI_MCA_pml=ucx", "NCCL_DEBUG=WARN", "NCCL_ALGO=Ring", "HOME=/home/u", "PATH=/opt/ompi/bin")
	in.Root = fstest.MapFS{
		"opt/ompi/bin/mpirun":             {Data: []byte("x")},
		"opt/ompi/bin/prterun":            {Data: []byte("x")},
		"home/u/.openmpi/mca-params.conf": {Data: []byte("# c\nbtl = self\n mtl=\"^ofi\" \n")},
		"opt/ompi/etc/openmpi-mca-params.conf": {Data: []byte("mtl = ^psm\nosc = " +
			"^ucx\nbtl_base_warn_component_unused=0")},
	}
	j := resolve(t, in)
	want := "OMPI_MCA_btl=tcp,self mpirun --mca; OMPI_MCA_pml=ob1 mpirun --mca; NCCL_DEBUG=INFO mpirun -x; " +
		"PRTE_MCA_prte_if_include=10.0.0.0/24 mpirun --prtemca; " +
		"NCCL_ALGO=Ring environment; OMPI_MCA_mtl=^ofi /home/u/.openmpi/mca-params.conf; " +
		"OMPI_MCA_osc=^ucx /opt/ompi/etc/openmpi-mca-params.conf; OMPI_MCA_btl_base_warn_component_unused=0 " +
		"/opt/ompi/etc/openmpi-mca-params.conf"
	if diff := cmp.Diff(want, decisions(j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if j.MPI != "openmpi5" {
		t.Errorf("MPI %q, want openmpi5", j.MPI)
	}
}

// The override file goes before what mpirun's own line says.
func TestOpenMPIsOverridesGoBeforeTheLine(t *testing.T) {
	in := input("mpirun --mca pml ob1 -np 2 ./x", "OMPI_MCA_btl=self", "HOME=/home/u", "PATH=/opt/ompi/bin")
	in.Root = fstest.MapFS{
		"opt/ompi/bin/mpirun":                           {Data: []byte("x")},
		"opt/ompi/etc/openmpi-mca-params-override.conf": {Data: []byte("pml = ucx\nbtl = ^tcp\n")},
		"opt/ompi/etc/openmpi-mca-params.conf":          {Data: []byte("pml = cm\nosc = ucx\n")},
		"home/u/.prte/mca-params.conf":                  {Data: []byte("prte_if_include = 10.0.0.0/24\n")},
		"opt/ompi/etc/prte-mca-params.conf":             {Data: []byte("prte_if_include = 10.1.0.0/24\n")},
	}
	const override = " /opt/ompi/etc/openmpi-mca-params-override.conf; "
	want := "OMPI_MCA_pml=ucx" + override + "OMPI_MCA_btl=^tcp" + override +
		"OMPI_MCA_osc=ucx /opt/ompi/etc/openmpi-mca-params.conf; PRTE_MCA_prte_if_include=10.0.0.0/24 " +
		"/home/u/.prte/mca-params.conf"
	if diff := cmp.Diff(want, decisions(resolve(t, in))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Open MPI's comments, and the files of another installation, set nothing.
func TestCommentsInOpenMPIsFiles(t *testing.T) {
	in := input("mpirun -np 2 ./x", "HOME=/home/u", "PATH=/opt/ompi/bin")
	in.Root = fstest.MapFS{
		"opt/ompi/bin/mpirun":                 {Data: []byte("x")},
		"etc/openmpi/openmpi-mca-params.conf": {Data: []byte("osc = ucx\n")},
		"opt/ompi/etc/openmpi-mca-params.conf": {Data: []byte("/* pml = cm */ // btl = self\n/* pml = ob1\n * coll = x\n" +
			"**/ oob = tcp\n # mtl = psm\n/*/ pml = z */\nio = a /* b */\n/* mtl = ofi\n")},
	}
	const from = " /opt/ompi/etc/openmpi-mca-params.conf"
	want := "OMPI_MCA_oob=tcp" + from + "; OMPI_MCA_io=a /* b */" + from
	if diff := cmp.Diff(want, decisions(resolve(t, in))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHydrasLineCountsAndOpenMPIsFilesDoNot(t *testing.T) {
	in := input("mpiexec -genv NCCL_DEBUG INFO -hosts a,b -n 2 -env NCCL_ALGO=Ring python jax.py", "NCCL_DEBUG=WARN",
		"HOME=/home/u", "PATH=/opt/mpich/bin")
	in.Root = fstest.MapFS{
		"opt/mpich/bin/mpiexec":               {Data: []byte("x")},
		"opt/mpich/bin/mpichversion":          {Data: []byte("x")},
		"etc/openmpi/openmpi-mca-params.conf": {Data: []byte("pml = ^ucx\n")},
		"data/jax.py":                         {Data: []byte("import jax\n")},
	}
	in.Dir = "/data"
	j := resolve(t, in)
	want := "NCCL_DEBUG=INFO mpirun -genv; NCCL_ALGO=Ring mpirun -env"
	if diff := cmp.Diff(want, decisions(j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Join(append(j.Hosts, j.Uses...), " "); got != "a b jax" {
		t.Errorf("hosts and libraries %q, want a, b and jax", got)
	}
}

func TestTheMPIFollowsFromThePrograms(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("x")}
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: 0o777 | 1<<27} }
	for _, tt := range []struct {
		name, line string
		root       fstest.MapFS
		want       string
	}{
		{"Debian's links", "mpirun ./x", fstest.MapFS{"usr/bin/mpirun": link("../../etc/alternatives/mpirun"),
			"etc/alternatives/mpirun": link("../../usr/bin/mpirun.openmpi"),
			"usr/bin/mpirun.openmpi":  link("orterun"), "usr/bin/orterun": file}, "openmpi4"},
		{"Open MPI 5 with a PRRTE of its own", "mpirun ./x", fstest.MapFS{"usr/bin/mpirun": file,
			"usr/bin/ompi_info": file}, "openmpi"},
		{"Intel MPI", "/opt/intel/bin/mpirun ./x", fstest.MapFS{"opt/intel/bin/mpirun": file,
			"opt/intel/bin/mpiexec.hydra": file, "opt/intel/bin/impi_info": file}, "intel"},
		{"MPICH", "mpiexec ./x", fstest.MapFS{"usr/bin/mpiexec": link("mpiexec.hydra"),
			"usr/bin/mpiexec.hydra": file}, "mpich"},
		{"unknown", "mpirun ./x", fstest.MapFS{"usr/bin/mpirun": file}, ""},
		{"not there", "mpirun ./x", fstest.MapFS{}, ""},
		{"no mpirun at all", "torchrun t.py", fstest.MapFS{"usr/bin/mpirun": file, "usr/bin/orterun": file}, ""},
	} {
		in := input(tt.line, "PATH=/usr/bin")
		in.Root = tt.root
		if got := resolve(t, in).MPI; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUsesAreReadFromCommandAndScript(t *testing.T) {
	root := fstest.MapFS{
		"data/jax.py": {Data: []byte("import os, jax.numpy as jnp\n\ndef f():\n    from tensorflow.keras import " +
			"layers\n")},
		"data/text.py": {Data: []byte("# import jax\ns = 'import horovod'\nimportant = 1\nfrom . import " +
			"nixl\nx.import_jax\n")},
		"data/agent.py": {Data: []byte("from nixl_cu12._api import nixl_agent\n")},
		"data/other.py": {Data: []byte("import nixl_custom, jax_cu\n")},
	}
	for _, tt := range []struct{ line, want string }{
		{"python jax.py --lr 1", "jax tensorflow"},
		{"torchrun --nnodes 1 /data/jax.py", "jax tensorflow"},
		{"mpirun -np 2 python jax.py", "jax tensorflow"},
		{"python text.py", ""},
		{"python agent.py", "nixl"},
		{"python other.py", ""},
		{"nixlbench --backend UCX", "nixl"},
		{"mpirun -np 2 /opt/bin/nixlbench", "nixl"},
		{"python missing.py", ""},
		{"./all_reduce_perf -b 8", ""},
	} {
		in := input(tt.line)
		in.Root, in.Dir = root, "/data"
		if got := strings.Join(resolve(t, in).Uses, " "); got != tt.want {
			t.Errorf("%s: uses %q, want %q", tt.line, got, tt.want)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("; c\n[s]\nUCX_TLS = rc ; x\n\ufeffUCX_A:b\n=\n")
	f.Add("# c\nbtl = ^ucx\n-x A=b\n mca = \"q'\n")
	f.Add("import a, b.c as d\nfrom e.f import g\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string, string) []setting.Decided{parseUCX, parseMCA(ompiMCA)} {
			names := map[string]bool{}
			for _, d := range parse(text, "f") {
				value := strings.TrimSpace(d.Value)
				if d.Name == "" || names[d.Name] || strings.Contains(d.Value, "\n") || !strings.Contains(text,
					value) || d.From != "f" {
					t.Fatalf("%q gives %+v", text, d)
				}
				names[d.Name] = true
			}
		}
		for _, name := range imports(text) {
			last := name[strings.LastIndex(name, ".")+1:]
			if name == "" || strings.ContainsAny(name, " ,\n") || !strings.Contains(text, last) {
				t.Fatalf("%q imports %q", text, name)
			}
		}
	})
}
