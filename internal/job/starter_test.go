package job

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
)

// two gives a line the flags for two nodes.
func two(line string, env ...string) Input {
	return input(line, env...).with(func(f *Flags) {
		f.NNodes, f.Store = flagged("--nnodes", "2"), flagged("--store", "h")
	})
}

// files adds files to the node.
func (in Input) files(texts map[string]string) Input {
	root := fstest.MapFS{}
	for name, text := range texts {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	in.Root = root
	return in
}

func TestALauncherNamesItsPlaceInTheJob(t *testing.T) {
	j := resolve(t, input("accelerate launch --num_machines 2 --machine_rank 1 --main_process_ip h1 "+
		"--main_process_port 29600 --num_processes 4 t.py"))
	if j.Nodes.V != 2 || j.Nodes.From.Name != "accelerate launch --num_machines" || j.Index.V != 1 ||
		j.Store.V.Host != "h1" || j.MasterPort.V != 29600 {
		t.Errorf("%+v", j)
	}
	j = resolve(t, input("ft_launcher --nnodes 2 --rdzv-endpoint h2:29400 --node-rank 0 t.py"))
	if j.Line.Kind != launcher.Torchrun || j.Nodes.V != 2 || j.Store.V.Host != "h2" || j.Index.Set {
		t.Errorf("ft_launcher ignores --node-rank: %+v", j)
	}
}

func TestARefusedLauncherNamesTheLineToType(t *testing.T) {
	const program = "   # or --as program, if each node runs it as typed"
	for line, want := range map[string]string{
		"deepspeed --num_gpus 2 t.py -x": "launch --nnodes 2 --store h torchrun --nproc-per-node 2 t.py -x" + program,
		"torchx run -s local_cwd dist.ddp -j 2x2 --script t.py"://
		"launch --nnodes 2 --store h torchrun --nproc-per-node 2 t.py" + program,
		"horovodrun -np 2 python t.py":       "launch horovodrun -np 2 python t.py   # once, on the head node",
		"horovodrun --mpi -np 2 python t.py": "launch mpirun -np 2 python t.py   # once, on the head node",
	} {
		if bad := refused(t, two(line), 78, "launch runs the command on each node, but "); bad.Fix != want {
			t.Errorf("%s: fix %q, want %q", line, bad.Fix, want)
		}
	}
	// Pasted, it has to be one node also where a variable says several.
	variables := input("horovodrun -np 2 -H a,b python t.py").with(func(f *Flags) {
		f.NNodes, f.Store = flagged("LAUNCH_NNODES", "2"), flagged("LAUNCH_STORE", "h")
	})
	if bad := refused(t, variables, 78, "horovodrun"); bad.Fix !=
		"launch --nnodes 1 horovodrun -np 2 -H a,b python t.py   # once, on the head node" {
		t.Errorf("fix %q", bad.Fix)
	}
	// Without a number of nodes the one of the line counts, and no node is started.
	store := input("colossalai run --num_nodes 2 --nproc_per_node 4 t.py").
		with(func(f *Flags) { f.Store = flagged("--store", "h") })
	if bad := refused(t, store, 78, "colossalai run"); bad.Fix !=
		"launch --nnodes 2 --store h torchrun --nproc-per-node 4 t.py"+program {
		t.Errorf("fix %q", bad.Fix)
	}
	if j := resolve(t, input("torchx run dist.ddp --script t.py")); !j.Single {
		t.Errorf("one node: %+v", j)
	}
	if j := resolve(t, two("torchx run dist.ddp --script t.py").
		with(func(f *Flags) { f.As = flagged("--as", "program") })); j.Line.Kind != launcher.Program {
		t.Errorf("--as program: %+v", j)
	}
}

func TestAccelerateReadsItsConfigurationFile(t *testing.T) {
	const yaml = "compute_environment: LOCAL_MACHINE\nnum_machines: 2\nnum_processes: 16\n" +
		"main_process_ip: h1\nmachine_rank: 0\nmain_process_port: null\n"
	files := map[string]string{"w/c.yaml": yaml, "root/.cache/huggingface/accelerate/default_config.yaml": yaml}
	for _, line := range []string{"accelerate launch --config_file /w/c.yaml t.py", "accelerate launch t.py"} {
		j := resolve(t, input(line, "HOME=/root").files(files))
		if j.Nodes.V != 2 || j.Store.V.Host != "h1" || j.Line.NP.Value != "16" || j.Index.Set {
			t.Errorf("%s: %+v", line, j)
		}
	}
	four := two("accelerate launch t.py", "HOME=/root").files(files).
		with(func(f *Flags) { f.NNodes = flagged("--nnodes", "4") })
	bad := refused(t, four, 78, "default_config.yaml has num_processes 16 for num_machines 2, but the job has 4 nodes")
	if !strings.Contains(bad.Fix, "--num_processes 32 t.py   # the total, 8 on each node") {
		t.Errorf("fix %q", bad.Fix)
	}
	files["root/.cache/huggingface/accelerate/default_config.yaml"] = "num_machines: 1\nnum_processes: 8\n"
	refused(t, two("accelerate launch t.py", "HOME=/root").files(files), 78, "for num_machines 1")
	if j := resolve(t, two("accelerate launch --num_processes 16 t.py", "HOME=/root").files(files)); j.Nodes.V != 2 {
		t.Errorf("%+v", j)
	}
	if j := resolve(t, input("accelerate launch t.py", "HOME=/root").files(files)); !j.Single {
		t.Errorf("the file is for one node: %+v", j)
	}
}

// A line to type has as many processes as this node has GPUs, or as the file has for each machine.
func TestALineToTypeCountsTheGPUsOfThisNode(t *testing.T) {
	gpus := map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""}
	const file = "root/.cache/huggingface/accelerate/default_config.yaml"
	one := map[string]string{"dev/nvidia0": "", file: "num_processes: 3"}
	manual := map[string]string{file: "num_processes: -1"}
	for _, tt := range []struct {
		line, env string
		files     map[string]string
		want      string
	}{
		{"accelerate launch t.py", "A=b", gpus, "--num_processes 4 t.py"},
		{"accelerate launch t.py", "CUDA_VISIBLE_DEVICES=3,5,6", gpus, "--num_processes 6 t.py"},
		{"accelerate launch t.py", "CUDA_VISIBLE_DEVICES=-1", gpus, "--num_processes 4 t.py"},
		{"accelerate launch t.py", "CUDA_VISIBLE_DEVICES=NoDevFiles", gpus, "--num_processes 4 t.py"},
		{"accelerate launch t.py", "CUDA_VISIBLE_DEVICES=GPU-1a,3,4,-1,5", gpus, "--num_processes 6 t.py"},
		{"accelerate launch t.py", "A=b", nil, "--num_processes 16 t.py"},
		{"accelerate launch t.py", "A=b", one, "--num_processes 6 t.py"},
		{"accelerate launch t.py", "A=b", manual, "--num_processes 16 t.py"},
		{"deepspeed t.py", "A=b", gpus, "torchrun --nproc-per-node 2 t.py"},
		{"deepspeed --num_gpus 4 t.py", "A=b", gpus, "torchrun --nproc-per-node 4 t.py"},
	} {
		in := two(tt.line, "HOME=/root", tt.env).files(tt.files)
		if bad := refused(t, in, 78); !strings.Contains(bad.Fix, tt.want) {
			t.Errorf("%s, %s: fix %q, want %q", tt.line, tt.env, bad.Fix, tt.want)
		}
	}
}

func TestDeepSpeedNeedsAHostForEachNode(t *testing.T) {
	in := func(hosts string) Input {
		return two("deepspeed --hostfile /w/hosts t.py").files(map[string]string{"w/hosts": hosts})
	}
	refused(t, in("a slots=8\n"), 78, "/w/hosts, which lists 1 of the 2 nodes")
	if j := resolve(t, in("a slots=8\nb slots=8\n")); j.Line.Kind != launcher.DeepSpeed {
		t.Errorf("%+v", j)
	}
}

func TestAnUnknownProgramThatLooksLikeALauncherIsNamed(t *testing.T) {
	for line, want := range map[string]bool{
		"mylaunch --nnodes 2 t.py":                      true,
		"ptrun --num-machines=2 t.py":                   true,
		"tool launch --node_rank 0 t.py":                true,
		"env A=b trainrunner --hostfile h x":            true,
		"composer -n 2 --node_rank 0 t.py":              true,
		"composer -n 2 t.py --node_rank 0":              false,
		"mylaunch t.py --nnodes 2":                      false,
		"python train.py --nnodes 2":                    false,
		"python3 -m pkg.launch --nnodes 2":              false,
		"python -u -m mypkg.launch --nnodes 2 t.py":     true,
		"/opt/bin/python3 -m my.run --num_nodes=2 t.py": true,
		"python -m mypkg.train --nnodes 2 t.py":         false,
		"python -m mypkg.launch t.py --nnodes 2":        false,
		"python x.py -m mypkg.launch --nnodes 2 t.py":   false,
		"bash run.sh --nnodes 2":                        false,
		"./launch_training.sh --nnodes 2":               false,
		"./run_all --nnodes 2":                          false,
		"uv run train.py --nnodes 2":                    false,
		"srun --nodelist h --nnodes 2 ./a.out":          false,
		"poetry run train --nnodes 2":                   false,
		"docker run img train --nnodes 2":               false,
		"singularity run img.sif --nnodes 2":            false,
		"torchrun --nnodes 2 t.py":                      false,
		"ft_launcher --nnodes 2 t.py":                   false,
		"accelerate launch --num_processes 2 t.py":      false,
		"mytrain --nnodes 2":                            false,
		"mylaunch --steps 2":                            false,
		"singularity exec img.sif mylaunch --nnodes2":   false,
	} {
		j := resolve(t, two(line))
		if got := noted(j, "job.command", "looks like a launcher") == finding.Warn; got != want {
			t.Errorf("%s: warning %v, want %v: %v", line, got, want, j.Notes)
		}
	}
	as := two("mylaunch --nnodes 2 t.py").with(func(f *Flags) { f.As = flagged("--as", "program") })
	if noted(resolve(t, as), "job.command", "looks like a launcher") == finding.Warn {
		t.Error("--as program does not silence the warning")
	}
}

// A hint leaves an option that the launcher has itself in its place.
func TestAHintKeepsTheLaunchersOwnOption(t *testing.T) {
	for line, want := range map[string]string{
		"mylaunch --nnodes 2 t.py":    "launch --nnodes 2 --store h mylaunch --nnodes 2 t.py",
		"mylaunch --num_nodes 3 t.py": "launch --nnodes 3 --store h mylaunch --num_nodes 3 t.py",
		"python t.py --nnodes 2":      "launch --nnodes 2 --store h python t.py",
	} {
		in := input(line).with(func(f *Flags) { f.Store = flagged("--store", "h") })
		in.Own = map[string]bool{"nnodes": true, "store": true}
		if bad := refused(t, in, 78, "the number of nodes is not set"); bad.Fix != want {
			t.Errorf("%s: fix %q, want %q", line, bad.Fix, want)
		}
	}
	bad := refused(t, input("ft_launcher --nnodes 2 --ft-log-level DEBUG t.py"), 78, "no store address")
	if want := "launch --store HOST ft_launcher --nnodes 2 --ft-log-level DEBUG t.py"; !strings.HasPrefix(bad.Fix, want) {
		t.Errorf("fix %q", bad.Fix)
	}
}

// A program that starts the command in another session or on another machine: launch goes there.
func TestLaunchGoesWhereTheCommandStarts(t *testing.T) {
	const ours, or = "launch --nnodes 2 --store h ", "   # or --as program, if each node runs it as typed"
	for line, want := range map[string]string{
		"tmux new-session -d -s x torchrun t.py":       "tmux new-session -d -s x " + ours + "torchrun t.py",
		"screen -dmS x torchrun t.py":                  "screen -dmS x " + ours + "torchrun t.py",
		"ssh g torchrun --nnodes=2 --node-rank=1 t.py": "",
		"ssh gpu1 python3 t.py":                        "ssh gpu1 " + ours + "python3 t.py",
		"kubectl exec p -- accelerate launch t.py":     "kubectl exec p -- " + ours + "accelerate launch t.py",
		"systemd-run --user torchrun t.py":             "systemd-run --user " + ours + "torchrun t.py",
		"systemd-run --scope torchrun t.py":            "",
		"ssh gpu1 nvidia-smi":                          "",
		"ssh gpu1 launch torchrun t.py":                "",
		"tmux attach":                                  "",
		"tmux new -s torchrun -d ./run.sh":             "",
		"systemd-run --unit python ./run.sh":           "",
		"ssh gpu1 which torchrun":                      "",
		"ssh gpu1 systemd-run --scope torchrun t.py":   "ssh gpu1 systemd-run --scope " + ours + "torchrun t.py",
		"kubectl exec -c python p -- ./run.sh":         "",
		"kubectl run torchrun --image i -- ./run.sh":   "",
	} {
		j, err := Resolve(two(line))
		bad, _ := errors.AsType[*exit.Error](err)
		if (bad == nil) != (want == "") || bad != nil && bad.Fix != want+or {
			t.Errorf("%s: %v %+v, want %q", line, j.Notes, bad, want)
		}
	}
	in := two("")
	for text, want := range map[string]string{
		"cd x && torchrun t.py":                       "cd x && " + ours + "torchrun t.py",
		"cd launch && A=0 torchrun t.py | tee log":    "cd launch && A=0 " + ours + "torchrun t.py | tee log",
		"accelerate launch t.py":                      ours + "accelerate launch t.py",
		"uv run torchrun t.py":                        ours + "uv run torchrun t.py",
		`bash -lc "torchrun t.py"`:                    ours + `bash -lc "torchrun t.py"`,
		"set -e; /opt/launch --store h torchrun t.py": "",
		"./torchrun.sh; echo torchrun t.py":           "",
		"mpirun -np 2 ./a":                            "",
	} {
		in.Argv = []string{"tmux", "new", "-d", text}
		_, err := Resolve(in)
		bad, _ := errors.AsType[*exit.Error](err)
		if (bad == nil) != (want == "") || bad != nil && bad.Fix != launcher.Quote([]string{"tmux", "new", "-d", want})+or {
			t.Errorf("%s: %+v, want %q", text, bad, want)
		}
	}
	in.Argv = []string{"tmux", "new", "-d", "torchrun t.py"}
	typed, one := in, in
	typed.Flags.As, one.Flags.NNodes = flagged("--as", "program"), flagged("--nnodes", "1")
	for _, in := range []Input{typed, one} {
		if _, err := Resolve(in); err != nil {
			t.Errorf("%+v: %v", in.Flags, err)
		}
	}
}
