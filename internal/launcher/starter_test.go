package launcher

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/internal/exit"
	"launch/internal/setting"
)

// twoNodes returns the world of a node of two.
func twoNodes(rank int) World {
	return World{Job: "j", RunID: "run1", Nodes: Known(2), NodeRank: Known(rank), MasterAddr: "10.77.0.1",
		MasterPort: Known(29500), Addr: "10.77.0." + string(rune('1'+rank))}
}

// goldens has the lines of two nodes. In the result R is the node rank, and A this node's address.
func goldens() map[string]string {
	const placed = "--num_machines=2 --machine_rank=R --main_process_ip=10.77.0.1 --main_process_port=29500 "
	const static = "--rdzv_backend=static "
	const ft = "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=10.77.0.1:29500 --rdzv_id=run1 " +
		"--rdzv_conf=is_host=H,read_timeout=600 --local_addr=A "
	const deep = "--node_rank=R --master_addr=10.77.0.1 --master_port=29500 --no_ssh "
	const light = "--num_nodes=2 --node_rank=R --main_address=10.77.0.1 --main_port=29500 "
	const server = " --nnodes=2 --node-rank=R --master-addr=10.77.0.1 --master-port=29500"
	const sgl = " --nnodes=2 --node-rank=R --dist-init-addr=10.77.0.1:29500"
	const ray = "{0: --head --port=29500}{1: --address=10.77.0.1:29500} --node-ip-address=A "
	return map[string]string{
		"accelerate launch --multi_gpu --num_processes 16 t.py --num_machines 9"://
		"accelerate launch " + placed + static + "--multi_gpu --num_processes 16 t.py --num_machines 9",
		"accelerate launch --num_processes=4 --num-machines 2 --machine-rank 7 t.py": //
		"accelerate launch " + strings.TrimPrefix(placed, "--num_machines=2 ") + static +
			"--deepspeed_multinode_launcher=standard --num_processes=4 --num-machines 2 t.py",
		"python -m accelerate.commands.launch --use_fsdp --max_restarts 3 --num_processes 4 -m mod"://
		"python -m accelerate.commands.launch " + placed + static + "--max_restarts=0 --use_fsdp --num_processes 4 -m mod",
		"accelerate-launch --use_deepspeed --num_processes 4 t.py": //
		"accelerate-launch " + placed + static + "--deepspeed_multinode_launcher=standard --use_deepspeed " +
			"--num_processes 4 t.py",
		"nice accelerate launch --cpu t.py": "nice accelerate launch " + placed + "--num_processes=2 --cpu t.py",
		"ft_launcher --nnodes 2 --nproc-per-node 2 --ft-rank-heartbeat-timeout 60 --max-restarts 3 t.py"://
		"ft_launcher " + ft + "--nproc-per-node 2 --ft-rank-heartbeat-timeout 60 --max-restarts 3 t.py",
		"python -m nvidia_resiliency_ext.fault_tolerance.launcher --ft-cfg_path c.yaml --ft-new t.py --nnodes 2"://
		"python -m nvidia_resiliency_ext.fault_tolerance.launcher " + ft + "--ft-cfg_path c.yaml --ft-new t.py --nnodes 2",
		"deepspeed --hostfile h --num_gpus 8 t.py --deepspeed c.json"://
		"deepspeed --num_nodes=2 " + deep + "--hostfile h --num_gpus 8 t.py --deepspeed c.json",
		"deepspeed -H h --no_ssh --include w0@w1:0 --master_addr x t.py"://
		"deepspeed " + strings.TrimSuffix(deep, "--no_ssh ") + "-H h --no_ssh --include w0@w1:0 t.py",
		"fabric run --devices 2 --num-nodes 2 t.py": "fabric run " + strings.TrimPrefix(light, "--num_nodes=2 ") +
			"--devices 2 --num-nodes 2 t.py",
		"lightning run model --accelerator cpu t.py": "lightning run model " + light + "--accelerator cpu t.py",
		"fabric run model --devices 2 t.py":          "fabric run model " + light + "--devices 2 t.py",
		"vllm serve m -tp 8 -pp=2 --port 8000":       "vllm serve m -tp 8 -pp=2 --port 8000" + server + "{0:}{1: --headless}",
		"vllm serve m --data_parallel_size 16 --headless --node-rank 0 --nnodes=2": //
		"vllm serve m --data_parallel_size 16{0: --node-rank 0}{1: --headless} --nnodes=2" +
			"{1: --node-rank=1} --master-addr=10.77.0.1 --master-port=29500 --data-parallel-address=10.77.0.1",
		"vllm serve m -tp 2 -asc 1 --port 8000": "vllm serve m -tp 2{0: -asc 1} --port 8000" + server + "{1: --headless}",
		"python -m vllm.entrypoints.cli.main serve m -tp 2": "python -m vllm.entrypoints.cli.main serve m -tp 2" + server +
			"{1: --headless}",
		"vllm serve m -dp 2 --data-parallel-hybrid-lb": "vllm serve m -dp 2 --data-parallel-hybrid-lb" + server +
			" --data-parallel-address=10.77.0.1",
		"python3 -m sglang.launch_server --model-path m --tp 16 --nccl-init-addr h:1"://
		"python3 -m sglang.launch_server --model-path m --tp 16" + sgl,
		"sglang serve --model-path m --tp-size=2": "sglang serve --model-path m --tp-size=2" + sgl,
		"ray start --block": "ray start --block" + ray,
		"ray start --head --port 6379 --num-cpus 4"://
		"ray start{0: --head} --num-cpus 4" + strings.Replace(ray, " --head", "", 1),
		"ray start --address=x:6379 --block": "ray start --block" + ray,
		"ray symmetric-run --num-cpus 2 -- python t.py"://
		"ray symmetric-run --address=10.77.0.1:29500 --min-nodes=2 --num-cpus 2 -- python t.py",
	}
}

// onNode returns a golden for a node rank: {0:words} is for node rank 0 alone.
func onNode(golden string, w World) string {
	h := map[int]string{0: "1", 1: "0"}[w.NodeRank.V]
	for rank := range 2 {
		mark := "{" + Known(rank).String() + ":"
		for strings.Contains(golden, mark) {
			before, rest, _ := strings.Cut(golden, mark)
			words, after, _ := strings.Cut(rest, "}")
			if rank != w.NodeRank.V {
				words = ""
			}
			golden = before + words + after
		}
	}
	return strings.NewReplacer("=R ", "="+w.NodeRank.String()+" ", "=A ", "="+w.Addr+" ", "=H,", "="+h+",").
		Replace(golden + " ")
}

func TestALauncherGetsItsPlaceOnBothNodes(t *testing.T) {
	for line, want := range goldens() {
		for rank := range 2 {
			w := twoNodes(rank)
			e := command(t, line, w)
			if diff := cmp.Diff(strings.Fields(onNode(want, w)), e.Argv); diff != "" {
				t.Errorf("%s, node rank %d (-want +got):\n%s", line, rank, diff)
			}
			if e := command(t, line, World{Nodes: Known(1), Single: true}); strings.Join(e.Argv, " ") != line {
				t.Errorf("%s on one node: %q", line, e.Argv)
			}
		}
	}
}

// Accelerate's one process without torchrun reads the variables; torchrun's workers do not.
func TestAccelerateGetsVariablesUnlessItStartsTorchrun(t *testing.T) {
	for line, want := range map[string]string{
		"accelerate launch --num_processes 2 t.py": "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 " +
			"NNODES=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500",
		"accelerate launch --cpu --num_processes 2 t.py": "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 " +
			"NODE_RANK=1 NNODES=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500",
		"accelerate launch --multi_gpu --num_processes 2 t.py": "",
		"fabric run t.py":         "",
		"vllm serve m -tp 2":      "VLLM_HOST_IP=10.77.0.2",
		"sglang serve --tp 2":     "SGLANG_HOST_IP=10.77.0.2",
		"ray start":               "",
		"deepspeed -H hosts t.py": "",
	} {
		var got []string
		for _, v := range command(t, line, twoNodes(1)).Set {
			got = append(got, v.Name+"="+v.Value)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestLinesThatMakeNoWorldOfTwoNodesAreErrors(t *testing.T) {
	for line, want := range map[string]string{
		"accelerate launch t.py":                                      "no --num_processes",
		"accelerate launch --num_processes 3 t.py":                    "not a multiple of 2 nodes",
		"accelerate launch --num_processes 1 t.py":                    "not a multiple of 2 nodes",
		"accelerate launch --num_processes x t.py":                    "is not a number",
		"accelerate launch --cpu --num_processes 4 t.py":              "one process on each node",
		"accelerate launch --tpu t.py":                                "each node would train alone",
		"accelerate launch --mpirun_hostfile h --num_processes 4 t.p": "each would start all hosts",
		"accelerate launch --deepspeed_multinode_launcher pdsh t.py":  "starts all hosts itself",
		"deepspeed --num_gpus 2 t.py":                                 "each node would train alone",
		"deepspeed --num_nodes 2 --no_ssh t.py":                       "each node would train alone",
		"deepspeed -H h --elastic_training t.py":                      "starts the other nodes itself",
		"torchx run -s local_cwd dist.ddp -j 2x2 --script t.py":       "each node would train alone",
		"python -m torchx.cli run dist.ddp --script t.py":             "each node would train alone",
		"horovodrun -np 4 -H a:2,b:2 python t.py":                     "a job of its own",
		"ray job submit -- python t.py":                               "a job of its own",
		"colossalai run --nproc_per_node 2 t.py":                      "each node would train alone",
		"dlrover-run --nnodes 2 --nproc_per_node 2 t.py":              "each node would train alone",
		"vllm serve m": "1 processes by its sizes",
		"vllm serve m -tp 16 --distributed-executor-backend ray": "on the head of a Ray cluster",
		"vllm serve m -dp 4 --data-parallel-start-rank 2":        "differ by node",
		"python -m vllm.entrypoints.openai.api_server --model m": "no --headless",
		"vllm serve m -tp 8 -dpb ray":                            "on the head of a Ray cluster",
		"vllm serve m -dp 4 -dpe":                                "2 nodes share 4 replicas",
		"sglang serve --model-path m --tp 1":                     "1 processes by its sizes",
	} {
		l := parse(t, line)
		_, err := l.Command(twoNodes(0), nil, nil)
		bad, ok := errors.AsType[*exit.Error](err)
		if !ok || bad.Code != 78 && bad.Code != 64 || !strings.Contains(bad.What, want) {
			t.Errorf("%s: %v, want an error with %q", line, err, want)
		}
		if argv, _, _ := l.Instead(2); ok && bad.Fix == "" && argv == nil {
			t.Errorf("%s: the error has no fix: %v", line, bad)
		}
		if e := command(t, line, World{Nodes: Known(1), Single: true}); strings.Join(e.Argv, " ") != line {
			t.Errorf("%s on one node: %q", line, e.Argv)
		}
	}
}

// No known launcher starts a world on each of two nodes in silence: its line gets the number of nodes and
// a place of its own, or an error.
func TestNoKnownLauncherMakesWorldsOfOne(t *testing.T) {
	placed := slices.Collect(maps.Keys(goldens()))
	for _, s := range starters() {
		for name := range strings.FieldsSeq(s.names) {
			typed := name
			if strings.Contains(name, ".") {
				typed = "python -m " + name
			}
			line := strings.TrimSpace(typed+" "+s.sub) + " t.py"
			if s.kind == Ray {
				line = strings.Replace(line, "t.py", "-- t.py", 1)
			}
			one, err := parse(t, line).Command(twoNodes(0), nil, nil)
			if err != nil {
				continue
			}
			two := command(t, line, twoNodes(1))
			text := strings.Join(two.Argv, " ")
			address := strings.Contains(text, "10.77.0.1")
			counted := s.nodes == "" || strings.Contains(text, s.flag(s.nodes)+"=2")
			ranked := s.rank == "" || strings.Contains(text, s.flag(s.rank)+"=1") && !slices.Equal(one.Argv, two.Argv)
			if !address || !counted || !ranked {
				t.Errorf("%s: %q and %q", line, one.Argv, two.Argv)
			}
		}
		if s.alone == "" && !slices.ContainsFunc(placed, func(line string) bool { return parse(t, line).Kind == s.kind }) {
			t.Errorf("%s has no golden", s.title)
		}
	}
}

// A library that starts the processes of its node itself must not take its process for one of them.
func TestLightningInAScriptStartsTheProcesses(t *testing.T) {
	l := parse(t, "python t.py")
	l.Spawns = "Lightning"
	e, err := l.Command(twoNodes(1), nil, []string{"LOCAL_RANK=0", "HOME=/h"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("NODE_RANK=1 NNODES=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500")
	if diff := cmp.Diff(want, assignments(e.Set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"LOCAL_RANK=0"}, assignments(e.Unset)); diff != "" {
		t.Errorf("unset (-want +got):\n%s", diff)
	}
	w := twoNodes(0)
	w.Task = Task{Rank: 1, Size: 4, Local: 1, LocalSize: 2}
	if e, _ := l.Command(w, nil, nil); !slices.Contains(assignments(e.Set), "LOCAL_RANK=1") {
		t.Errorf("a task of several on its node: %v", e.Set)
	}
}

// jax.distributed.initialize() without arguments reads what Slurm would set, and no program sees it by accident.
func TestJAXFindsItsProcessesByItself(t *testing.T) {
	l := parse(t, "python t.py")
	l.JAX = true
	plan := []setting.Var{{Name: "JAX_LOCAL_DEVICE_IDS", Value: "0"}}
	want := strings.Fields("SLURM_JOB_ID=0 SLURM_STEP_NODELIST=10.77.0.1 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0")
	for _, tt := range []struct {
		plan []setting.Var
		env  []string
		want []string
	}{
		{plan, nil, want},
		{nil, []string{"JAX_LOCAL_DEVICE_IDS=0,1"}, want},
		{nil, nil, nil}, // it would take one GPU of several
		{plan, []string{"SLURM_JOB_ID=7"}, nil},
		{plan, []string{"OMPI_MCA_orte_hnp_uri=1.0;tcp://h:1"}, nil},
	} {
		e, err := l.Command(twoNodes(1), tt.plan, tt.env)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, assignments(e.Set)[8:], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt, diff)
		}
	}
}

// Only a line that asks for MPI may become mpirun: under mpirun a Horovod without MPI has worlds of one.
func TestHorovodrunRunsOnceOnTheHead(t *testing.T) {
	for line, want := range map[string]string{
		"horovodrun -np 4 -H a:2,b:2 python t.py -v":                          "",
		"horovodrun --verbose --gloo --hosts=a:1,b:1 -np 2 python t.py --mpi": "",
		"horovodrun --mpi -np 4 -H a:2,b:2 python t.py -v":                    "mpirun -np 4 -H a:2,b:2 python t.py -v",
		"horovodrun --verbose --mpi --hosts=a:1,b:1 -p 22 -np 2 python t.py":  "mpirun -H a:1,b:1 -np 2 python t.py",
		"horovodrun --hostfile h --num-proc 2 --start-timeout 9 --mpi ./a":    "mpirun --hostfile h -np 2 ./a",
		"horovodrun --mpi -np 2 --reset-limit 3 -H a,b ./a.out":               "mpirun -np 2 -H a,b ./a.out",
		"horovodrun --mpi --blacklist-cooldown-range 60 300 -np 2 ./a.out 1":  "mpirun -np 2 ./a.out 1",
		"horovodrun -np 2 --log-hide-timestamp --mpi-args=--bind-to=none ./a": "mpirun -np 2 --bind-to=none ./a",
	} {
		argv, once, program := parse(t, line).Instead(2)
		if want == "" {
			want = line
		}
		if got := strings.Join(argv, " "); got != want || !once || program {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestAModuleStaysAModuleUnderTorchrun(t *testing.T) {
	for line, want := range map[string]string{
		"colossalai run --nproc_per_node 4 -m a.b --x 1":       "torchrun --nproc-per-node 4 -m a.b --x 1",
		"torchx run -s local_cwd dist.ddp -j 2x2 -m a.b -- -v": "torchrun --nproc-per-node 2 -m a.b -v",
		"dlrover-run --nproc_per_node=2 -m a.b t.py":           "torchrun --nproc-per-node 2 -m a.b t.py",
		"colossalai run --nproc_per_node 4":                    "torchrun --nproc-per-node 4 train.py",
	} {
		argv, once, program := parse(t, line).Instead(2)
		if got := strings.Join(argv, " "); got != want || once || !program {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestAsProgramLeavesALauncherAlone(t *testing.T) {
	for _, line := range []string{"torchx run dist.ddp --script t.py", "accelerate launch t.py", "deepspeed t.py"} {
		l, err := Parse(strings.Fields(line), "program")
		if err != nil {
			t.Fatal(err)
		}
		e, err := l.Command(twoNodes(1), nil, nil)
		if err != nil || strings.Join(e.Argv, " ") != line || len(e.Set) != 8 || l.Kind != Program {
			t.Errorf("%s: %v, %v", line, e, err)
		}
	}
}

func TestNamesThatAreNoLaunchersStayPrograms(t *testing.T) {
	for _, line := range []string{"accelerate config", "fabric", "torchx status", "colossalai check", "./train.sh",
		"python train.py --num_machines 2", "python deepspeed_train.py"} {
		if l := parse(t, line); l.Kind != Program || l.Starter != "" {
			t.Errorf("%s: %s %q", line, l.Kind, l.Starter)
		}
	}
}

func TestLinesThatDifferByNodeRankAreTheSameEverywhere(t *testing.T) {
	l := parse(t, "accelerate launch --machine_rank 1 --num_processes 4 t.py")
	if got := strings.Join(l.Everywhere(), " "); got != "accelerate launch --num_processes 4 t.py" {
		t.Errorf("%q", got)
	}
}

// The server's module takes the model as an option, anywhere.
func TestTheModelOfAServerIsKept(t *testing.T) {
	for line, want := range map[string]string{
		"--model m -tp 16":            "vllm serve m -tp 16",
		"--model=m -tp 16":            "vllm serve m -tp 16",
		"-tp 16 --model m":            "vllm serve m -tp 16",
		"--model m -tp=16":            "vllm serve m -tp=16",
		"--model m -tp 2 --port 8000": "vllm serve m -tp 2 --port 8000",
		"-tp 2":                       "vllm serve MODEL -tp 2",
	} {
		l := parse(t, "python -m vllm.entrypoints.openai.api_server "+line)
		if got := strings.Join(l.insteadServer(), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
