package mpirun

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"launch/internal/launcher"
	"launch/internal/setting"
)

// read reads a line of an MPI, with a hostfile and an environment.
func read(t *testing.T, mpi string, env []string, argv ...string) Run {
	t.Helper()
	line, err := launcher.Parse(argv, "")
	if err != nil {
		t.Fatal(err)
	}
	var decided []setting.Decided
	for _, o := range line.Of(mpi).Options {
		if o.Name == "mca" {
			name, value, _ := strings.Cut(o.Value, " ")
			decided = append(decided, setting.Decided{Name: "OMPI_MCA_" + name, Value: value, From: "mpirun --mca"})
		}
	}
	run, err := Read(Input{Line: line.Of(mpi), Env: env, Decided: decided, Dir: "/home/u", Binary: "/opt/mpi/bin/mpirun",
		Hostname: "head", Cores: 2, Root: fstest.MapFS{
			"home/u/few":                           {Data: []byte("n3\nn9 slots=4\nn1 slots=1\nn2 slots=9\n")},
			"home/u/hosts":                         {Data: []byte("h1 slots=4\nada@h2 slots=2 max_slots=4\nh3\n")},
			"home/u/machines":                      {Data: []byte("h1:4\nh2:2\n")},
			"home/u/relative":                      {Data: []byte("+n0\n")},
			"opt/mpi/etc/openmpi-default-hostfile": {Data: []byte("# none\nd1 slots=1\n")},
			"etc/openmpi/openmpi-default-hostfile": {Data: []byte("e1\n")},
			"home/u/default":                       {Data: []byte("f1\n")},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestHosts(t *testing.T) {
	slurm := []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=2(x2),1"}
	for _, tt := range []struct {
		name, mpi string
		env       []string
		argv      []string
		hosts     []Host
		source    string
	}{
		{"a hostfile", "openmpi4", nil, []string{"mpirun", "--hostfile", "hosts", "-np", "3", "./a"},
			[]Host{{"h1", "", 4}, {"h2", "ada", 2}, {"h3", "", 0}}, "--hostfile hosts"},
		{"--host counts names", "openmpi4", nil, []string{"mpirun", "--host", "h1,h1,h2:3", "./a"},
			[]Host{{"h1", "", 2}, {"h2", "", 3}}, "--host"},
		{"--host chooses from a hostfile", "openmpi5", nil,
			[]string{"mpirun", "--hostfile", "hosts", "--host", "h2:1", "./a"}, []Host{{"h2", "ada", 1}}, "--host"},
		{"an allocation", "openmpi4", slurm, []string{"mpirun", "./a"},
			[]Host{{"n1", "", 2}, {"n2", "", 2}, {"n3", "", 1}}, "SLURM_JOB_NODELIST"},
		{"a hostfile in an allocation", "openmpi4", slurm, []string{"mpirun", "--hostfile", "few", "./a"},
			[]Host{{"n3", "", 1}, {"n1", "", 1}, {"n2", "", 2}}, "--hostfile few"},
		{"--host in an allocation", "openmpi5", slurm, []string{"mpirun", "--host", "n1,n2:9,n9,n3:*", "./a"},
			[]Host{{"n1", "", 1}, {"n2", "", 2}}, "--host"},
		{"NAME:* and more processes than slots", "openmpi5", slurm,
			[]string{"mpirun", "--oversubscribe", "--host", "n3:*", "./a"}, []Host{{"n3", "", 1}}, "--host"},
		{"localhost in an allocation", "openmpi4", []string{"SLURM_JOB_NODELIST=head,n1", "SLURM_TASKS_PER_NODE=2(x2)"},
			[]string{"mpirun", "--host", "localhost:3", "./a"}, []Host{{"localhost", "", 2}}, "--host"},
		{"localhost in another allocation", "openmpi4", slurm, []string{"mpirun", "--host", "localhost:3", "./a"},
			[]Host{{"localhost", "", 3}}, "--host"},
		{"without Slurm's part", "openmpi4", slurm, []string{"mpirun", "--mca", "ras", "^slurm", "--host", "n9:9", "./a"},
			[]Host{{"n9", "", 9}}, "--host"},
		{"with Slurm's part alone", "openmpi4", slurm, []string{"mpirun", "--mca", "ras", "slurm", "--host", "n1:9", "./a"},
			[]Host{{"n1", "", 2}}, "--host"},
		{"Hydra in an allocation", "mpich", slurm, []string{"mpiexec", "-hosts", "n1:3,n9:1", "./a"},
			[]Host{{"n1", "", 3}, {"n9", "", 1}}, "--host"},
		{"a default hostfile", "openmpi4", nil, []string{"mpirun", "./a"}, []Host{{"d1", "", 1}},
			"/opt/mpi/etc/openmpi-default-hostfile"},
		{"a default hostfile of a parameter", "openmpi4", nil,
			[]string{"mpirun", "--mca", "orte_default_hostfile", "default", "./a"}, []Host{{"f1", "", 0}},
			"mpirun --mca (orte_default_hostfile)"},
		{"Hydra", "mpich", nil, []string{"mpiexec", "-f", "machines", "./a"}, []Host{{"h1", "", 4}, {"h2", "", 2}},
			"--hostfile machines"},
		{"Hydra fills one after the other", "mpich", nil, []string{"mpiexec", "-f", "machines", "-n", "4", "./a"},
			[]Host{{"h1", "", 4}}, "--hostfile machines"},
		{"none", "mpich", nil, []string{"mpiexec", "-n", "2", "./a"}, nil, ""},
		{"an unknown MPI", "", nil, []string{"mpirun", "--host", "h1", "./a"}, []Host{{"h1", "", 1}}, "--host"},
	} {
		got := read(t, tt.mpi, tt.env, tt.argv...)
		if diff := cmp.Diff(tt.hosts, got.Hosts); diff != "" || got.Source != tt.source {
			t.Errorf("%s: from %q (-want +got):\n%s", tt.name, got.Source, diff)
		}
	}
	if got := read(t, "openmpi4", nil, "mpirun", "--hostfile", "relative", "./a"); len(got.Unclear) != 1 {
		t.Errorf("relative syntax: %q", got.Unclear)
	}
}

func TestAgentAndDaemon(t *testing.T) {
	for _, tt := range []struct {
		name, mpi    string
		env, argv    []string
		agent        []string
		daemon, from string
	}{
		{"Open MPI 4", "openmpi4", nil, []string{"mpirun", "./a"}, []string{"ssh"}, "orted", "Open MPI's default"},
		{"with its path", "openmpi4", nil, []string{"/opt/mpi/bin/mpirun", "./a"}, []string{"ssh"}, "/opt/mpi/bin/orted",
			"Open MPI's default"},
		{"an agent and its arguments", "openmpi4", nil,
			[]string{"mpirun", "--mca", "plm_rsh_agent", "ssh -p 2 : rsh", "--mca", "plm_rsh_args", "-v", "./a"},
			[]string{"ssh", "-p", "2", "-v"}, "orted", "mpirun --mca (plm_rsh_agent)"},
		{"Open MPI 5", "openmpi5", nil, []string{"mpirun", "--prefix", "/p", "./a"}, []string{"ssh"}, "/p/bin/prted",
			"Open MPI's default"},
		{"in an allocation", "openmpi4", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1"}, []string{"mpirun", "./a"},
			srun("").Argv, "orted", "SLURM_JOB_ID"},
		{"MPICH", "mpich", nil, []string{"mpiexec", "./a"}, []string{"ssh"}, "/opt/mpi/bin/hydra_pmi_proxy",
			"Hydra's default"},
		{"MPICH's -launcher-exec", "mpich", []string{"HYDRA_LAUNCHER_EXTRA_ARGS=-q"},
			[]string{"mpiexec", "-launcher-exec", "/x/ssh", "./a"}, []string{"/x/ssh", "-q"}, "/opt/mpi/bin/hydra_pmi_proxy",
			"-bootstrap-exec"},
	} {
		got := read(t, tt.mpi, tt.env, tt.argv...)
		if diff := cmp.Diff(tt.agent, got.Agent.Argv); diff != "" || got.Daemon != tt.daemon || got.Agent.From != tt.from {
			t.Errorf("%s: %s from %s (-want +got):\n%s", tt.name, got.Daemon, got.Agent.From, diff)
		}
	}
}

func TestWayBack(t *testing.T) {
	got := read(t, "openmpi4", nil, "mpirun", "--mca", "oob_tcp_if_include", "eth0,10.0.0.0/8", "--mca",
		"oob_tcp_dynamic_ipv4_ports", "5000-5010", "-x", "PATH=/x", "-np", "1", "./a", ":", "-np", "2", "./b", "-np", "9")
	want := Interfaces{Include: []string{"eth0", "10.0.0.0/8"}, From: "mpirun --mca (oob_tcp_if_include)"}
	if diff := cmp.Diff(want, got.Interfaces); diff != "" || got.Ports != [2]int{5000, 5010} || got.CallName != "" {
		t.Errorf("%v %q (-want +got):\n%s", got.Ports, got.CallName, diff)
	}
	if diff := cmp.Diff([]string{"./a", "./b"}, got.Programs); diff != "" || got.NP != 3 || len(got.Exports) != 1 {
		t.Errorf("np %d, exports %q (-want +got):\n%s", got.NP, got.Exports, diff)
	}
	got = read(t, "mpich", []string{"MPIEXEC_PORT_RANGE=100:200"}, "mpiexec", "-n", "1", "./a")
	if got.CallName != "head" || got.Ports != [2]int{100, 200} || !got.Forward {
		t.Errorf("MPICH: %+v", got)
	}
	got = read(t, "mpich", nil, "mpiexec", "-iface", "ib0", "-n", "1", "./a")
	if got.CallName != "" || got.Interfaces.Include[0] != "ib0" {
		t.Errorf("MPICH -iface: %+v", got)
	}
}

func TestTheHeadMayBeLeftOut(t *testing.T) {
	for line, want := range map[string]bool{
		"mpirun --nolocal ./a": true, "mpirun --map-by slot:NOLOCAL,PE=2 ./a": true, "mpirun --map-by slot ./a": false,
	} {
		if got := read(t, "openmpi5", nil, strings.Fields(line)...); got.NoLocal != want {
			t.Errorf("%s: %v", line, got.NoLocal)
		}
	}
}

func TestSlots(t *testing.T) {
	for want, argv := range map[string][]string{
		"strict":  {"mpirun", "--host", "h1:2", "-np", "3", "./a"},
		"lenient": {"mpirun", "--host", "h1:2", "--map-by", "core:OVERSUBSCRIBE", "-np", "3", "./a"},
	} {
		got := read(t, "openmpi4", nil, argv...)
		if n, ok := got.Slots(); n != 2 || !ok || got.Strict != (want == "strict") {
			t.Errorf("%s: %d slots, %v, strict %v", want, n, ok, got.Strict)
		}
	}
	if _, ok := read(t, "openmpi4", nil, "mpirun", "--hostfile", "hosts", "./a").Slots(); ok {
		t.Error("a host without slots has what its cores are")
	}
}

// What lets Open MPI start more processes than slots. (Seen with 4.1.4 and 5.0.11.)
func TestParametersThatOversubscribe(t *testing.T) {
	line, err := launcher.Parse(strings.Fields("mpirun --host h1:2 -np 3 ./a"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mpi, name, value string
		strict           bool
	}{
		{"openmpi4", "OMPI_MCA_rmaps_base_oversubscribe", "yes", false},
		{"openmpi4", "OMPI_MCA_rmaps_base_oversubscribe", "no", true},
		{"openmpi4", "OMPI_MCA_rmaps_base_mapping_policy", ":OVERSUBSCRIBE", false},
		{"openmpi5", "PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", false},
		{"openmpi5", "PRTE_MCA_prte_map_by", ":oversubscribe", false},
		{"openmpi5", "PRTE_MCA_map_by", ":oversubscribe", false},
		{"openmpi5", "PRTE_MCA_map_by", "slot", true},
	} {
		run, err := Read(Input{Line: line.Of(tt.mpi), Decided: []setting.Decided{{Name: tt.name, Value: tt.value}}})
		if err != nil || run.Strict != tt.strict {
			t.Errorf("%+v: strict %v, %v", tt, run.Strict, err)
		}
	}
}

// Open MPI 4 looks its daemon up in the PATH there, unless it is typed with its path. Open MPI 5 always says where it
// is installed, also with --noprefix.
func TestTheDaemonOnTheOtherHosts(t *testing.T) {
	const mpi4, mpi5 = "openmpi4", "openmpi5"
	for _, tt := range []struct {
		mpi  string
		env  []string
		argv string
		want string
	}{
		{mpi4, nil, "mpirun ./a", "orted"},
		{mpi4, nil, "/opt/mpi/bin/mpirun ./a", "/opt/mpi/bin/orted"},
		{mpi4, nil, "mpirun --prefix /p ./a", "/p/bin/orted"},
		{mpi5, nil, "mpirun ./a", "/opt/mpi/bin/prted"},
		{mpi5, nil, "mpiexec ./a", "/opt/mpi/bin/prted"},
		{mpi5, []string{"OPAL_PREFIX=/moved"}, "mpirun ./a", "/moved/bin/prted"},
		{mpi5, []string{"OMPI_PRTERUN=prterun"}, "mpirun ./a", "prted"},
		{mpi5, nil, "mpirun --noprefix ./a", "/opt/mpi/bin/prted"},
		{mpi5, nil, "prterun ./a", "/opt/mpi/bin/prted"},
		{mpi4, nil, "/opt/mpi/bin/mpirun --noprefix ./a", "orted"},
	} {
		if got := read(t, tt.mpi, tt.env, strings.Fields(tt.argv)...).Daemon; got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.env, tt.argv, got, tt.want)
		}
	}
}

func TestProcs(t *testing.T) {
	cores := func(string) int { return 8 }
	for _, tt := range []struct {
		mpi, line string
		want      []int
		placed    string
	}{
		{"openmpi4", "mpirun -np 5 --hostfile hosts ./a", []int{4, 1, 0}, ""},
		{"openmpi5", "mpirun --hostfile hosts ./a", []int{4, 2, 8}, ""},
		{"openmpi4", "mpirun -np 3 --map-by core --bind-to core --host h1:2,h2 ./a", []int{2, 1}, ""},
		{"openmpi4", "mpirun -np 4 --host h1:2,h2 ./a", nil, ""}, // mpirun refuses it
		{"openmpi4", "mpirun -np 4 --oversubscribe --host h1,h2 ./a", nil, "-oversubscribe"},
		{"openmpi4", "mpirun -np 2 --map-by node --host h1:2,h2:2 ./a", nil, "--map-by node"},
		{"openmpi4", "mpirun -np 2 --mca rmaps_base_mapping_policy node --host h1:2,h2:2 ./a", nil,
			"OMPI_MCA_rmaps_base_mapping_policy"},
		{"openmpi5", "mpirun -np 1 --host h1 ./a : -np 1 --host h2 ./b", nil, "the line has several programs"},
		{"mpich", "mpiexec -n 5 -f machines ./a", []int{4, 1}, ""},
		{"mpich", "mpiexec -n 3 -hosts h1,h2,h3 -map-by core ./a", []int{1, 1, 1}, ""},
		{"mpich", "mpiexec -f machines ./a", nil, ""},
		{"mpich", "mpiexec -n 9 -f machines ./a", nil, ""}, // it begins again with the first host
		{"mpich", "mpiexec -n 2 -ppn 1 -f machines ./a", nil, "-ppn"},
		{"intel", "mpiexec -n 5 -machinefile machines ./a", []int{4, 1}, ""},
		{"intel", "mpiexec -n 3 -f machines ./a", []int{2, 1}, ""}, // this host has two cores
		{"intel", "mpiexec -n 3 -hosts h1:1,h2:1,h3:1 ./a", []int{2, 1}, ""},
		{"intel", "mpiexec -n 4 -machinefile relative ./a", nil, ""},
	} {
		run := read(t, tt.mpi, nil, strings.Fields(tt.line)...)
		got, ok := run.Procs(cores)
		if ok != (tt.want != nil) || ok && !cmp.Equal(got, tt.want) || run.Placed != tt.placed {
			t.Errorf("%s: %v %v, placed by %q; want %v, %q", tt.line, got, ok, run.Placed, tt.want, tt.placed)
		}
	}
}

func TestAnInterpreterReadsAScript(t *testing.T) {
	for _, tt := range []struct{ line, program, script string }{
		{"./world 3", "./world", ""}, {"python3 train.py --lr 1", "python3", "train.py"},
		{"/opt/bin/python3.12 -u -B job/t.py", "/opt/bin/python3.12", "job/t.py"}, {"python -m pkg.mod", "python", ""},
		{"python -c print(1)", "python", ""}, {"bash run.sh", "bash", "run.sh"}, {"bash -c ./world", "bash", ""},
		{"env A=b C= ./world", "./world", ""}, {"env A=b python3 t.py", "python3", "t.py"}, {"env -i ./world", "env", ""},
		{"env A=b", "env", ""}, {"", "", ""}, {"python3", "python3", ""},
	} {
		if p, s := unwrap(strings.Fields(tt.line)); p != tt.program || s != tt.script {
			t.Errorf("%q: %q %q, want %q %q", tt.line, p, s, tt.program, tt.script)
		}
	}
}
