package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
)

// scripted gives the two nodes of a line a script t.py.
func scripted(line, text string, env ...string) Input {
	in := two(line, env...).files(map[string]string{"w/t.py": text})
	in.Dir = "/w"
	return in
}

// Lightning starts the processes of its node, unless LOCAL_RANK says that it is one of them.
func TestLightningsScriptStartsTheProcesses(t *testing.T) {
	const fabric = "from lightning.fabric import Fabric\n"
	for text, want := range map[string]string{
		fabric + "f = Fabric(devices=2, num_nodes=2)":                          "",
		"import pytorch_lightning as pl\npl.Trainer(devices=2, num_nodes=a.n)": "",
		fabric + "f = Fabric(devices=2)  # num_nodes=2":                        "does not name num_nodes",
	} {
		j := resolve(t, scripted("python t.py", text))
		if j.Line.Spawns != "Lightning" || noted(j, "job.command", "num_nodes") == finding.Warn != (want != "") {
			t.Errorf("%s: %q %v", text, j.Line.Spawns, j.Notes)
		}
	}
	bad := refused(t, scripted("python t.py", fabric+"Fabric(num_nodes=4)"), 78,
		"t.py has num_nodes=4, but the job has 2 nodes")
	if bad.Fix != "num_nodes=2   # in t.py" {
		t.Errorf("fix %q", bad.Fix)
	}
	for _, line := range []string{"python t.py --trainer.num_nodes 2", "./t.py num_nodes=2"} {
		j := resolve(t, scripted(line, fabric))
		if j.Line.Spawns == "" || noted(j, "job.command", "num_nodes") == finding.Warn {
			t.Errorf("%s: %q %v", line, j.Line.Spawns, j.Notes)
		}
	}
	for _, line := range []string{"torchrun t.py", "accelerate launch --num_processes 2 t.py"} {
		if j := resolve(t, scripted(line, fabric)); j.Line.Spawns != "" {
			t.Errorf("%s: %q", line, j.Line.Spawns)
		}
	}
	as := scripted("python t.py", fabric).with(func(f *Flags) { f.As = flagged("--as", "program") })
	if j := resolve(t, as); j.Line.Spawns != "" {
		t.Errorf("--as program: %q", j.Line.Spawns)
	}
}

// What a program imports from its own directory counts as its script does.
func TestTheModulesOfAProgramAreRead(t *testing.T) {
	const fabric = "from lightning.fabric import Fabric\nf = Fabric(num_nodes=2)\n"
	files := map[string]string{
		"w/top.py":            "import model\n",
		"w/model.py":          fabric,
		"w/deep.py":           "from pkg.a import x\n",
		"w/pkg/__init__.py":   "",
		"w/pkg/a.py":          "from . import b, c\nfrom .d import y\n",
		"w/pkg/b.py":          "",
		"w/pkg/d.py":          "from ..model import f\n",
		"w/pkg/__main__.py":   "from .d import y\n",
		"w/helper.py":         "from lightning.fabric.utilities import rank_zero_only\n",
		"w/helped.py":         "import helper\n",
		"w/circle.py":         "import circle, other\n",
		"w/other.py":          "from circle import x\n",
		"w/tensors.py":        "import strategy\n",
		"w/strategy.py":       "import tensorflow as tf\n",
		"w/jaxed.py":          "import start\n",
		"w/start.py":          "import jax\njax.distributed.initialize()\n",
		"elsewhere/jaxed2.py": "import start\n",
	}
	for line, want := range map[string]string{
		"python top.py": "lightning", "python deep.py": "lightning", "python -m pkg": "lightning",
		"python -m top": "lightning", "python helped.py": "", "python circle.py": "", "python tensors.py": "tensorflow",
		"python jaxed.py": "jax " + jaxCall, "python /elsewhere/jaxed2.py": "", "cat top.py": "lightning",
	} {
		in := two(line).files(files)
		in.Dir = "/w"
		j := resolve(t, in)
		if got := strings.Join(j.Uses, " "); got != want {
			t.Errorf("%s uses %q, want %q", line, got, want)
		}
		spawns := strings.HasPrefix(line, "python") && want == "lightning"
		if (j.Line.Spawns != "") != spawns || noted(j, "job.command", "num_nodes") == finding.Warn {
			t.Errorf("%s: %q %v", line, j.Line.Spawns, j.Notes)
		}
	}
}

func TestAScriptThatStartsARayOnEachNodeIsNamed(t *testing.T) {
	const alone = "import ray\nray.init()\n"
	fix := "launch --nnodes 2 --store h ray symmetric-run -- python t.py"
	j := resolve(t, scripted("python t.py", alone))
	i := slices.IndexFunc(j.Notes, func(f finding.Finding) bool { return strings.Contains(f.What, "Ray cluster") })
	if i < 0 || j.Notes[i].Fix != fix {
		t.Errorf("%+v", j.Notes)
	}
	for _, in := range []Input{scripted("python t.py", "import ray\nray.init(address='auto')"),
		scripted("python t.py", alone, "RAY_ADDRESS=h:6379"), scripted("ray symmetric-run -- python t.py", alone),
		scripted("python t.py", "import torch")} {
		if j := resolve(t, in); noted(j, "job.command", "Ray cluster") == finding.Warn {
			t.Errorf("%v: %v", in.Argv, j.Notes)
		}
	}
}

// Tried with Horovod 0.28.1: each process of two nodes was a world of one, and ended well.
func TestAScriptWhoseHorovodFindsNoOtherProcessIsNamed(t *testing.T) {
	const alone = "import horovod.torch as hvd\nhvd.init()\n"
	const what = "reads no variable of launch"
	for line, want := range map[string]string{
		"python t.py --x 1":                     "python t.py --x 1",
		"torchrun --nproc-per-node 2 t.py -v":   "python t.py -v",
		"python -m torch.distributed.run t.py":  "python t.py",
		"horovodrun -np 2 -H a,b python t.py":   "",
		"mpirun -np 2 --host a,b python t.py":   "",
		"accelerate launch --cpu t.py":          "",
		"ray symmetric-run -- python t.py":      "",
		"bash t.py":                             "",
		"env HOROVOD_RANK=0 python t.py":        "",
		"python -m torch.distributed.run other": "",
	} {
		j, err := Resolve(scripted(line, alone))
		i := slices.IndexFunc(j.Notes, func(f finding.Finding) bool { return strings.Contains(f.What, what) })
		switch {
		case want == "" && i >= 0:
			t.Errorf("%s: %+v", line, j.Notes[i])
		case want != "" && (i < 0 || !strings.HasPrefix(j.Notes[i].Fix,
			"launch horovodrun -np 16 --hostfile HOSTS "+want+"   # once")):
			t.Errorf("%s: %v, %+v", line, err, j.Notes)
		}
	}
	for _, text := range []string{"import horovod.torch as hvd\n# hvd.init()\n", "import torch\nhvd.init()\n",
		"import horovod.torch as hvd\nfrom horovod.ray import RayExecutor\nhvd.init()\n",
		"if old:\n  import horovod.torch as hvd\n  hvd.init()\nelse:\n  dist.init_process_group()\n"} {
		if j := resolve(t, scripted("python t.py", text)); noted(j, "job.command", what) == finding.Warn {
			t.Errorf("%q: %v", text, j.Notes)
		}
	}
	one := scripted("python t.py", alone).with(func(f *Flags) { f.NNodes = flagged("--nnodes", "1") })
	if j := resolve(t, one); noted(j, "job.command", what) == finding.Warn {
		t.Errorf("one node: %v", j.Notes)
	}
}

func TestAScriptThatLeavesItsProcessesToJAX(t *testing.T) {
	for text, want := range map[string]bool{
		"import jax\njax.distributed.initialize()\n":                                                                 true,
		"from jax import distributed\ndistributed.initialize( )":                                                     true,
		"import jax\njax.distributed.initialize(a, 2, 0)\n":                                                          false,
		"import jax\n# jax.distributed.initialize()\n":                                                               false,
		"import torch\nx.distributed.initialize()\n":                                                                 false,
		"import jax\njax.distributed.initialize(\n  initialization_timeout=int(t), local_device_ids=[0, 1],\n)":      true,
		"import jax\njax.distributed.initialize(initialization_timeout=f(a, (b, 2)), local_device_ids=d(')', [0]),)": true,
		"import jax\njax.distributed.initialize(\"a\", f(x, y))":                                                     false,
		"import jax\njax.distributed.initialize(initialization_timeout=f(num_processes=2))":                          true,
		"import jax\njax.distributed.initialize(initialization_timeout=a == b":                                       false,
		"import jax\njax.distributed.initialize(num_processes=2, process_id=r)":                                      false,
		"import jax\njax.distributed.initialize(**args)":                                                             false,
		"import jax\njax.distributed.initialize(cluster_detection_method='mpi4py')":                                  false,
		"from jax.distributed import initialize\ninitialize()":                                                       true,
		"import jax.distributed as jd\njd.initialize()":                                                              true,
		"from jax import distributed as dist\ndist.initialize()":                                                     true,
		"import jax\nmodel.initialize()":                                                                             false,
		"import jax\ninitialize()":                                                                                   false,
	} {
		j := resolve(t, scripted("python t.py", text))
		if j.Line.JAX != want || slices.Contains(j.Uses, jaxCall) != want {
			t.Errorf("%q: %v %v", text, j.Line.JAX, j.Uses)
		}
	}
}

func TestAShellScriptWithALauncherOfItsOwnIsNamed(t *testing.T) {
	const alone = "each node would train or wait alone"
	const torchrun = "launch --as torchrun --nnodes 2 --store h bash r.sh"
	const inside = "inside" // it is taken as a torchrun
	for text, want := range map[string]string{
		"set -e\nexec torchrun --nproc-per-node 8 t.py\n":                 inside,
		"OMP_NUM_THREADS=1 python3 -m torch.distributed.run t.py":         inside,
		"cd x && accelerate launch \\\n  t.py":                            "put launch before accelerate launch in r.sh",
		"torchrun --node_rank $NODE_RANK --master_addr $MASTER_ADDR t.py": "",
		"./prep.sh $NODE_RANK\ntorchrun --nproc-per-node 8 t.py \"$@\"":   inside,
		"./prep.sh $NODE_RANK\ntorchrun $ARGS t.py":                       "",
		"# torchrun t.py\npython t.py":                                    "",
		"torchrun --nnodes 2 --node-rank $ID --master-addr ${HEAD} t.py":  "",
		"A=(--nnodes=$N --rdzv_endpoint $H)\ntorchrun \"${A[@]}\" t.py":   "",
		"accelerate launch --config_file c.yaml t.py":                     "",
		"torchrun --nnodes 12 t.py":                                       inside,
		"torchrun --nnodes 12 --rdzv-endpoint $HEAD:1 t.py":               "",
		"torchrun --nnodes=1 --nproc-per-node 8 t.py":                     torchrun,
		"torchrun --standalone --nnodes 1 t.py":                           torchrun,
		"pip install deepspeed\npython t.py --deepspeed ds.json":          "",
	} {
		in := two("bash r.sh").files(map[string]string{"w/r.sh": text})
		in.Dir = "/w"
		j := resolve(t, in)
		if j.Line.Inside != (want == inside) {
			t.Errorf("%q: inside %v", text, j.Line.Inside)
		}
		if want == inside {
			want = ""
		}
		i := slices.IndexFunc(j.Notes, func(f finding.Finding) bool { return f.Breaks == alone })
		if (i >= 0) != (want != "") || i >= 0 && !strings.HasPrefix(j.Notes[i].Fix, want) {
			t.Errorf("%q: %+v", text, j.Notes)
		}
		if one := strings.Contains(text, "standalone") || strings.Contains(text, "nnodes=1"); i >= 0 &&
			strings.Contains(j.Notes[i].Fix, "\nremove --") != one {
			t.Errorf("%q: fix %q", text, j.Notes[i].Fix)
		}
		in.Argv = []string{"bash", "-lc", text}
		direct := slices.ContainsFunc(resolve(t, in).Notes, func(f finding.Finding) bool {
			return f.Breaks == alone && f.What == "bash -c starts accelerate launch, which does not take its place from launch"
		})
		if direct != strings.HasPrefix(want, "put") {
			t.Errorf("bash -lc %q: %v", text, direct)
		}
		in.Argv, in.Flags.As = []string{"bash", "r.sh"}, flagged("--as", "torchrun")
		if j := resolve(t, in); slices.ContainsFunc(j.Notes, func(f finding.Finding) bool { return f.Breaks == alone }) {
			t.Errorf("--as torchrun, %q: %+v", text, j.Notes)
		}
	}
}

// A torchrun in a script without a name of a shell, with comments that are none, takes its place; an mpirun has none.
func TestAShellScriptIsRead(t *testing.T) {
	for text, want := range map[string][2]bool{ // inside, a warning
		"#!/bin/bash\necho $# \"#\" # x\ntorchrun --nproc-per-node 8 t.py '#' \"$@\"\n": {true, false},
		"#!/usr/bin/env bash\ntorchrun t.py":                                            {true, false},
		"#!/usr/bin/env python3\ntorchrun t.py":                                         {},
		"\x7fELF torchrun t.py":                                                         {},
		"#!/bin/sh\nmpirun -np 4 --host a,b ./x":                                        {false, true},
		"#!/bin/sh\nexec mpirun -np 4 ./x":                                              {false, true},
		"#!/bin/sh\nmpirun --version\n./x":                                              {},
		"#!/bin/sh\n[ $NODE_RANK = 0 ] && mpirun -np 4 ./x":                             {},
		"#!/bin/sh\nlaunch torchrun t.py":                                               {},
		"#!/bin/sh\nsrun torchrun t.py":                                                 {},
		"#!/bin/sh\nsingularity exec x.sif torchrun t.py":                               {true, false},
		"#!/bin/sh\nif [ -n \"$A\" ]; then\n torchrun a.py\nfi\n\n":                     {true, false},
	} {
		in := two("/w/run --lr 1").files(map[string]string{"w/run": text})
		j := resolve(t, in)
		warned := slices.ContainsFunc(j.Notes, func(f finding.Finding) bool { return f.ID == "job.command" })
		if j.Line.Inside != want[0] || warned != want[1] {
			t.Errorf("%q: inside %v, %+v", text, j.Line.Inside, j.Notes)
		}
	}
}

// A program that hands a script over to other nodes, or only reads it, starts no torchrun here.
func TestAScriptThatAnotherProgramReadsIsNotRead(t *testing.T) {
	for line, want := range map[string]bool{"bash r.sh": true, "./r.sh": true, "tini bash r.sh": true,
		"flock /tmp/l ./r.sh": true, "ksh -e r.sh": true, "ssh b r.sh": false, "sbatch r.sh": false, "srun -N2 r.sh": false,
		"docker exec r.sh": false, "python t.py r.sh": false, "cat r.sh": false} {
		in := two(line).files(map[string]string{"w/r.sh": "torchrun t.py"})
		in.Dir = "/w"
		if j := resolve(t, in); j.Line.Inside != want || len(j.Notes) > 0 {
			t.Errorf("%s: inside %v, %+v", line, j.Line.Inside, j.Notes)
		}
	}
}

// What one node alone starts takes no place in the job, and an mpirun of it is right.
func TestAScriptWhoseNodesDiffer(t *testing.T) {
	for text, want := range map[string][2]bool{ // inside, a warning
		"if [ $NODE_RANK = 0 ]; then torchrun prep.py; fi\ntorchrun t.py":                  {},
		"(( NODE_RANK == 0 )) && torchrun prep.py\ntorchrun t.py":                          {},
		"[ $NODE_RANK = 0 ] && echo $X\ntorchrun t.py":                                     {true, false},
		"if [ $NODE_RANK = 0 ]; then torchrun a.py; else torchrun b.py; fi":                {true, false},
		"if [ $NODE_RANK = 0 ]; then torchrun a.py; elif [ $A ]; then torchrun b.py; fi":   {true, false},
		"if [ $A ]; then X=1; elif [ $NODE_RANK = 0 ]; then torchrun b.py; fi":             {},
		"if [ $JOB_COMPLETION_INDEX = 0 ]; then mpirun -np 4 ./x; else sleep infinity; fi": {},
		"case $(hostname) in\na) mpirun -np 4 ./x;;\nesac":                                 {},
		"if [ $HOSTNAME != a ]; then exec sleep infinity; fi\nmpirun -np 4 ./x":            {},
		"if [ -f $HOSTFILE ]; then mpirun -np 4 ./x; fi":                                   {false, true},
		"case $1 in\na) torchrun a.py;;\nb) torchrun b.py;;\nesac":                         {true, false},
	} {
		in := two("bash r.sh").files(map[string]string{"w/r.sh": text})
		in.Dir = "/w"
		j := resolve(t, in)
		warned := slices.ContainsFunc(j.Notes, func(f finding.Finding) bool { return f.ID == "job.command" })
		if j.Line.Inside != want[0] || warned != want[1] {
			t.Errorf("%q: inside %v, %+v", text, j.Line.Inside, j.Notes)
		}
	}
}

// One node needs no hint, unless the torchrun may run on others.
func TestOneNodeNeedsNoHint(t *testing.T) {
	const text = "bash -c|torchrun --standalone t.py"
	for _, tc := range []struct {
		line, nodes string
		want        bool
	}{{text, "1", false}, {text, "", false}, {text, "2", true}, {"srun|torchrun|t.py", "1", false},
		{"srun|torchrun|t.py", "", true}} {
		in := input("x").with(func(f *Flags) {
			if tc.nodes != "" {
				f.NNodes = flagged("--nnodes", tc.nodes)
			}
			if tc.nodes == "2" {
				f.Store = flagged("--store", "h")
			}
		})
		in.Argv = strings.Split(strings.Replace(tc.line, " ", "|", 1), "|")
		if j := resolve(t, in); (noted(j, "job.command", "--as torchrun") == finding.Warn) != tc.want {
			t.Errorf("%+v: %+v", tc, j.Notes)
		}
	}
}

func TestWhatTheTextOfAProgramSays(t *testing.T) {
	files := map[string]string{
		"w/top.py": "import sys; sys.path.insert(0, '/opt/code'); import mymodel, torch, near\nopen('ckpt/step')\n" +
			"open('out/log', 'w')\nopen('/abs/x')\nopen('plain')\nopen('a/%d' % i)\ntorch.load('w/m.pt', map_location='cpu')",
		"w/near.py":             "",
		"w/empty.py":            "import far\nx = 1",
		"opt/code/mymodel.py":   "import far\n",
		"py/far.py":             "x = 1\n",
		"py/dist-packages/a.py": "",
		"w/spawn.py":            "import torch.multiprocessing as mp\nmp.spawn(f, nprocs=len(os.sched_getaffinity(0)))",
		"w/pool.py":             "import multiprocessing as mp\nmp.Pool(mp.cpu_count())",
		"w/gpus.py":             "mp.spawn(f, nprocs=torch.cuda.device_count())",
	}
	for line, want := range map[string]Program{
		"torchrun top.py": {Modules: []string{"/opt/code/mymodel.py", "/py/far.py"}, Imports: []string{"sys", "torch"},
			Reads: []string{"ckpt/step", "w/m.pt"}},
		"python empty.py":               {Modules: []string{"/py/far.py"}},
		"python spawn.py":               {Spawns: true, Counts: CountsAffinity, Imports: []string{"torch"}},
		"python pool.py":                {Imports: []string{"multiprocessing"}},
		"python spawn.py --nproc 2":     {Spawns: true, Imports: []string{"torch"}},
		"python spawn.py --node-rank 2": {Spawns: true, Counts: CountsAffinity, Imports: []string{"torch"}},
		"python gpus.py":                {Spawns: true, Counts: CountsGPUs},
		"sleep 1":                       {},
	} {
		in := two(line, "PYTHONPATH=/py:/py/dist-packages:relative").files(files)
		in.Dir = "/w"
		if diff := cmp.Diff(want, resolve(t, in).Program); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestFilesWithWindowsLineEndsThatAShellReads(t *testing.T) {
	for text, want := range map[string]string{
		"set -a; . $ENVF; set +a\n":         "/w/job.env",
		"source \"${ENVF}\"\n":              "/w/job.env",
		"if x; then . good.env; fi\n":       "",
		". job.env\r\n":                     "r.sh job.env",
		"source <(tr -d '\\r' < job.env)\n": "",
		"cat job.env; ./job.env\n":          "",
		"# . job.env\n":                     "",
	} {
		in := two("bash r.sh", "ENVF=/w/job.env").files(map[string]string{"w/r.sh": text, "w/job.env": "A=1\r\n",
			"w/good.env": "A=1\n"})
		in.Dir = "/w"
		if got := strings.Join(resolve(t, in).Windows, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
