package hangs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// goodRun is a command that ends with status 0, and environments that make it talk.
type goodRun struct {
	name string
	argv []string
	env  []string
	talk []string // of each, some are chosen
	mca  []string // options of mpirun, of which some are chosen
}

var torchTalk = []string{
	"TORCH_DISTRIBUTED_DEBUG=DETAIL", "TORCH_DISTRIBUTED_DEBUG=INFO", "TORCH_CPP_LOG_LEVEL=INFO",
	"TORCH_CPP_LOG_LEVEL=WARNING", "TORCH_SHOW_CPP_STACKTRACES=1", "LOGLEVEL=DEBUG", "LOGLEVEL=INFO",
	"GLOO_LOG_LEVEL=DEBUG", "PYTHONFAULTHANDLER=1", "PYTHONWARNINGS=always", "PYTHONDEVMODE=1",
	"NCCL_DEBUG=INFO", "GLOO_SOCKET_IFNAME=eth0", "TORCH_LOGS=+distributed", "ONEDNN_VERBOSE=1",
}

var mpiTalk = []string{
	"UCX_LOG_LEVEL=info", "UCX_LOG_LEVEL=debug", "UCX_LOG_LEVEL=trace", "FI_LOG_LEVEL=info", "FI_LOG_LEVEL=debug",
	"OMPI_MCA_mpi_show_mca_params=all", "OMPI_MCA_orte_base_help_aggregate=0", "HWLOC_SHOW_ALL_ERRORS=1",
	"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl=vader,self",
}

var mpiOptions = []string{
	"-mca btl_base_verbose 30", "-mca btl_base_verbose 100", "-mca plm_base_verbose 5", "-mca oob_base_verbose 10",
	"-mca pml_base_verbose 100", "-mca mtl_base_verbose 100", "--tag-output", "--timestamp-output", "--report-bindings",
	"--display-map", "-mca coll_base_verbose 10", "-mca rml_base_verbose 5", "-mca state_base_verbose 5",
	"-mca ess_base_verbose 5", "--display-allocation", "-mca pml_ucx_verbose 10",
}

func goodRuns(t *testing.T) []goodRun {
	train := filepath.Join(tools.data, "train.py")
	var out []goodRun
	add := func(name string, torch programs.Torch, argv ...string) {
		out = append(out, goodRun{name: name, argv: append(argv, train), env: torch.Env, talk: torchTalk})
	}
	run := []string{"-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2", "--master_port=29511"}
	for _, torch := range []programs.Torch{programs.CurrentTorch(t), programs.DebianTorch(t)} {
		name := "torch-" + filepath.Base(filepath.Dir(filepath.Dir(torch.Python)))
		add(name, torch, append([]string{torch.Python}, run...)...)
		add(name+"-standalone", torch, torch.Python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
		add(name+"-launch", torch, tools.launch, torch.Python, "-m", "torch.distributed.run", "--nproc_per_node=2")
		add(name+"-mpirun", torch, mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", "-x",
			"MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29512", torch.Python)
	}
	mpi := goodRun{name: "mpi", talk: mpiTalk, mca: mpiOptions, argv: []string{mpirun, "--allow-run-as-root",
		"--oversubscribe", "-np", "3", "python3", filepath.Join(tools.data, "barrier.py"), "libmpi.so.40"}}
	host := mpi
	host.name, host.argv = "mpirun-hostname", append(mpi.argv[:5:5], "hostname")
	fabric := goodRun{name: "libfabric", talk: mpiTalk, argv: []string{"fi_info"}}
	ucx := goodRun{name: "ucx", talk: mpiTalk, argv: []string{"ucx_info", "-d", "-c"}}
	// Eight of torch in each forty: they take much longer.
	quick := []goodRun{mpi, mpi, mpi, mpi, mpi, host, fabric, ucx}
	return slices.Concat(quick, quick, quick, quick, out)
}

const mpirun = "mpirun"

// TestNoVerdictInTheLogsOfGoodRuns makes LAUNCH_HANGS_LOGS real logs, as noisy as their programs can be.
func TestNoVerdictInTheLogsOfGoodRuns(t *testing.T) {
	want, err := strconv.Atoi(os.Getenv("LAUNCH_HANGS_LOGS"))
	if err != nil {
		t.Skip("needs LAUNCH_HANGS_LOGS, the number of logs to make")
	}
	lab, runs, made := netns.New(t, 1), goodRuns(t), 0
	lab.MayLeave("*")
	dir := t.TempDir()
	if keep := os.Getenv(record); keep != "" {
		dir = filepath.Join(keep, "logs")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	var size int64
	for i := range want {
		g := runs[i%len(runs)]
		file := filepath.Join(dir, fmt.Sprintf("%03d-%s.log", i, g.name))
		if _, err := os.Stat(file); err == nil { // of an earlier run
			continue
		}
		bytes, err := g.run(lab.Hosts[0], file, rand.New(rand.NewPCG(uint64(i), 1)))
		if err != nil {
			t.Logf("%s: %v", file, err)
			_ = os.Remove(file)
			continue
		}
		made++
		counts[g.name]++
		size += bytes
		if said := verdicts(t, file); said != "" {
			t.Errorf("%s: %s", file, said)
		}
	}
	t.Logf("%d logs of %d bytes: %v", made, size, counts)
	if made < want*3/4 {
		t.Errorf("%d logs; want %d", made, want)
	}
}

// run makes a log. An error is a run that did not end well.
func (g goodRun) run(h *netns.Host, file string, r *rand.Rand) (int64, error) {
	argv := g.argv
	for range min(3, len(g.mca)) {
		option := strings.Fields(g.mca[r.IntN(len(g.mca))])
		argv = append(append(argv[:1:1], option...), argv[1:]...)
	}
	cmd := h.Command(context.Background(), append([]string{"timeout", "90"}, argv...)...)
	cmd.Env = append(cmd.Env, g.env...)
	for range 3 {
		cmd.Env = append(cmd.Env, g.talk[r.IntN(len(g.talk))])
	}
	cmd.Env = append(cmd.Env, "OMP_NUM_THREADS=1")
	out, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w, with %s", err, cmd.Env[4:])
	}
	about, err := out.Stat()
	if err != nil {
		return 0, err
	}
	return about.Size(), nil
}

// verdicts returns what launch doctor finds in a log; empty: nothing.
func verdicts(t *testing.T, file string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tools.launch, "doctor", "--json", "--log", file)
	cmd.WaitDelay = time.Second
	printed, err := cmd.Output()
	var got struct {
		Verdicts []struct{ Cause, Says string }
		Open     []struct{ Family string }
	}
	if wrong := json.Unmarshal(printed, &got); wrong != nil {
		t.Fatalf("%s: %v, %v: %s", file, err, wrong, printed)
	}
	if len(got.Verdicts)+len(got.Open) > 0 {
		return string(printed)
	}
	return ""
}
