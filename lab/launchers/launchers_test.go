package launchers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// start is a line that people type, on two hosts.
type start struct {
	of      string // the package, perhaps with its version; "": .venv has it
	line    string // the same on both hosts; %s is the directory testdata
	world   int    // the processes that must count each other
	refused bool   // launch must refuse it, and the line that it prints instead makes the world
}

func starts() []start {
	return []start{
		{"", "torchrun --nproc-per-node 2 %s/sum.py", 4, false},
		{"", "python -m torch.distributed.run --nproc-per-node 2 %s/sum.py", 4, false},
		{"", "python -m torch.distributed.launch --nproc-per-node 2 %s/sum.py", 4, false},
		{"", "python %s/sum.py", 2, false},
		{"accelerate", "accelerate launch --cpu %s/accelerated.py", 2, false},
		{"accelerate", "accelerate launch --cpu --num_processes 4 %s/accelerated.py", 4, true},
		{"accelerate", "accelerate-launch --cpu %s/accelerated.py", 2, false},
		{"accelerate", "python -m accelerate.commands.launch --cpu %s/accelerated.py", 2, false},
		{"colossalai", "colossalai run --nproc_per_node 2 --host host0,host1 %s/colossal.py", 4, true},
		{"deepspeed", "deepspeed --hostfile %s/hosts %s/deep.py", 4, false},
		{"deepspeed", "deepspeed --num_gpus 2 %s/deep.py", 4, true},
		{"deepspeed", "deepspeed --no_ssh --hostfile %s/hosts %s/deep.py", 4, false},
		{"dlrover", "dlrover-run --nnodes 2 --nproc_per_node 2 %s/sum.py", 4, true},
		{"jax", "python %s/jaxed.py", 2, false},
		{"lightning", "fabric run --devices 2 --accelerator cpu %s/fabric.py", 4, false},
		{"lightning", "fabric run --devices 2 --num-nodes 2 --accelerator cpu %s/fabric.py", 4, false},
		{"lightning-2.2.5", "lightning run model --devices 2 --accelerator cpu %s/fabric.py", 4, false},
		{"lightning-2.2.5", "fabric run model --devices 2 --accelerator cpu %s/fabric.py", 4, false},
		{"lightning", "python %s/trainer.py", 4, false},
		{"lightning", "python %s/split.py", 4, false},
		{"nvidia-resiliency-ext", "ft_launcher --nproc-per-node 2 %s/sum.py", 4, false},
		{"ray", "ray symmetric-run -- python %s/tasks.py", 2, false},
		{"tensorflow-cpu", "python %s/tensors.py", 2, false},
		{"torchx", "torchx run -s local_cwd dist.ddp -j 2x2 --script %s/sum.py", 4, true},
	}
}

// Each line makes one world: one line of each package, or all (make launchers).
func TestOneWorld(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	lines := starts()
	for _, i := range programs.Draw(t, len(lines), func(i int) string { return lines[i].of }) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			s := lines[i]
			t.Log(strings.ReplaceAll(s.line, "%s/", ""))
			h := hosts{lab: netns.New(t, 2), path: installed(t, s.of), temp: temp(t)}
			h.lab.MayLeave("torchelastic_*", "torchinductor_*", "pymp-*", "ray*", "plasma*", "tmp*")
			line := []string{launchBin, "--nnodes", "2", "--store", "host0"}
			line = append(line, strings.Fields(strings.ReplaceAll(s.line, "%s", data))...)
			said := h.run(t, line)
			if s.refused {
				line = refusal(t, said)
				t.Logf("the line to type: %s", strings.Join(line, " "))
				said = h.run(t, line)
			}
			counted(t, s.world, said)
		})
	}
}

// With ray start the nodes are one cluster, and node rank 0 is its head.
func TestRayStartMakesOneCluster(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	h := hosts{lab: netns.New(t, 2), path: installed(t, "ray"), temp: temp(t)}
	h.lab.MayLeave("ray*", "plasma*", "tmp*")
	done := filepath.Join(h.temp, "done")
	counted(t, 2, h.run(t, []string{"sh", "-c", launchBin + " --nnodes 2 --store host0 ray start --num-cpus 2 || exit\n" +
		"if [ $(hostname) = host1 ]; then while [ ! -e " + done + " ]; do sleep 0.2; done; exit; fi\n" +
		"RAY_ADDRESS=auto python " + data + "/tasks.py; r=$?; touch " + done + "; exit $r"}))
}

// installed returns the PATH with a package's launchers, as tools/launchers.sh installs them.
func installed(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Dir(programs.CurrentTorch(t).Python)
	if name != "" {
		folder := name
		if last := name[len(name)-1]; last < '0' || last > '9' { // without its version: the newest
			folder += "-[0-9]*"
		}
		found, err := filepath.Glob(filepath.Join("..", "..", "bin", "launchers", folder, "whole"))
		if err != nil || len(found) == 0 {
			t.Skipf("needs %s: tools/launchers.sh", name)
		}
		if dir, err = filepath.Abs(filepath.Join(filepath.Dir(found[len(found)-1]), "bin")); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":/usr/sbin:/usr/bin:/sbin:/bin"
}

// temp returns a directory whose path is short: the path of a launcher's socket in it has at most 107 bytes.
func temp(t *testing.T) string {
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hosts run the same line, each as a person at its terminal would.
type hosts struct {
	lab  *netns.Lab
	path string // PATH
	temp string // the directory of their TMPDIRs
}

// said is what a line printed on one host.
type said struct {
	host, out, errs string
	code            int
}

// patience is several times what the slowest launcher takes on two busy cores.
const patience = 3 * time.Minute

func (h hosts) run(t *testing.T, line []string) []said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := make([]said, len(h.lab.Hosts))
	var wg sync.WaitGroup
	for i, host := range h.lab.Hosts {
		cmd := h.command(ctx, t, host, line)
		wg.Go(func() { out[i] = ran(host.Name, cmd) })
	}
	wg.Wait()
	return out
}

// command returns a line as a command on one host.
func (h hosts) command(ctx context.Context, t *testing.T, host *netns.Host, line []string) *exec.Cmd {
	t.Helper()
	// With process ids of its own: ray stop ends all that it sees.
	own := append(strings.Fields("unshare --pid --fork --kill-child --mount-proc"), line...)
	cmd := host.Command(ctx, host.Named(own...)...)
	temp := filepath.Join(h.temp, host.Name)
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "PATH="+h.path, "TMPDIR="+temp, "OMP_NUM_THREADS=1",
		"PYTHONDONTWRITEBYTECODE=1")
	cmd.Dir = host.Dir()
	return cmd
}

func ran(host string, cmd *exec.Cmd) said {
	var out, errs netns.Output
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return said{host, out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// hint is the line to type of an error.
var hint = regexp.MustCompile(`(?m)^launch: hint: +(launch .*)$`)

// refusal returns the line that launch prints where it refuses one, the same on both hosts.
func refusal(t *testing.T, all []said) (line []string) {
	t.Helper()
	for _, s := range all {
		m := hint.FindStringSubmatch(s.errs)
		if s.code != 78 && s.code != 64 || m == nil {
			t.Fatalf("%s ended with %d, want 78 and a line to type:\n%s%s", s.host, s.code, s.out, s.errs)
		}
		typed, _, _ := strings.Cut(m[1], "   #")
		words := strings.Fields(typed)
		words[0] = launchBin
		if line != nil && !slices.Equal(line, words) {
			t.Fatalf("two lines to type: %q and %q", line, words)
		}
		line = words
	}
	return line
}

var counts = regexp.MustCompile(`rank (\d+) of (\d+) counts (\d+)`)

// counted checks that each process of one world has counted all of them.
func counted(t *testing.T, world int, all []said) {
	t.Helper()
	var ranks []int
	for _, s := range all {
		for _, m := range counts.FindAllStringSubmatch(s.out+s.errs, -1) {
			rank, _ := strconv.Atoi(m[1])
			ranks = append(ranks, rank)
			if want := strconv.Itoa(world); m[2] != want || m[3] != want {
				t.Errorf("%s: %s, want %s processes", s.host, m[0], want)
			}
		}
		if s.code != 0 {
			t.Errorf("%s ended with %d", s.host, s.code)
		}
	}
	slices.Sort(ranks)
	want := make([]int, world)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(ranks, want) {
		t.Errorf("ranks %v, want %v", ranks, want)
	}
	if t.Failed() {
		for _, s := range all {
			t.Logf("%s:\n%s%s", s.host, s.out, s.errs)
		}
	}
}
