package job

import (
	"errors"
	"strings"
	"testing"

	"launch/internal/exit"
	"launch/internal/launcher"
)

// pasted parses a hint as launch would: its own flags, then the command.
func pasted(t *testing.T, hint string) Input {
	t.Helper()
	hint, _, _ = strings.Cut(hint, "   #")
	words := strings.Fields(hint)
	if len(words) < 2 || words[0] != "launch" {
		t.Fatalf("%q is no line to paste", hint)
	}
	in := input("")
	at := 1
	for ; at < len(words) && strings.HasPrefix(words[at], "--"); at += 2 {
		set := map[string]func(*Flags){
			"--nnodes": func(f *Flags) { f.NNodes = flagged("--nnodes", words[at+1]) },
			"--store":  func(f *Flags) { f.Store = flagged("--store", words[at+1]) },
			"--as":     func(f *Flags) { f.As = flagged("--as", words[at+1]) },
		}[words[at]]
		if set == nil {
			t.Fatalf("%q has a flag %s that launch does not know here", hint, words[at])
		}
		in = in.with(set)
	}
	in.Argv = words[at:]
	return in
}

// aWorld checks that the line of a job makes one world of two nodes: each gets a place of its own.
func aWorld(t *testing.T, line string, j Job) {
	t.Helper()
	if j.Nodes.V < 2 || j.Store.V.Host == "" {
		t.Errorf("%s: %d nodes, store %+v", line, j.Nodes.V, j.Store.V)
	}
	var seen []string
	for rank := range 2 {
		w := launcher.World{Job: "j", RunID: "r", Nodes: launcher.Known(j.Nodes.V), NodeRank: launcher.Known(rank),
			MasterAddr: "10.0.0.1", MasterPort: launcher.Known(29500), Addr: "10.0.0." + string(rune('1'+rank))}
		e, err := j.Line.Command(w, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			return
		}
		text := strings.Join(e.Argv, " ")
		for _, v := range e.Set {
			text += " " + v.Name + "=" + v.Value
		}
		if !strings.Contains(text, "10.0.0.1") {
			t.Errorf("%s: node rank %d does not get the address of node rank 0: %s", line, rank, text)
		}
		seen = append(seen, text)
	}
	if symmetric := strings.Contains(seen[0], "symmetric-run"); seen[0] == seen[1] && !symmetric {
		t.Errorf("%s: both nodes get the same line: %s", line, seen[0])
	}
}

// Each line of two nodes that people type makes a right world, or its hint does when it is pasted.
func TestAHintIsRightWhenPasted(t *testing.T) {
	files := map[string]string{
		"root/.cache/huggingface/accelerate/default_config.yaml": "num_machines: 1\nnum_processes: 8\n"}
	for _, line := range []string{
		"accelerate launch t.py", "accelerate launch --cpu --num_processes 4 t.py",
		"accelerate launch --num_processes 3 t.py", "accelerate launch --mpirun_hostfile h t.py",
		"accelerate launch --deepspeed_multinode_launcher pdsh t.py", "accelerate launch --cpu --num_processes 3 t.py",
		"python -m accelerate.commands.launch --multi_gpu t.py", "deepspeed --num_gpus 2 t.py --x 1",
		"deepspeed --num_nodes 2 --no_ssh t.py", "torchx run -s local_cwd dist.ddp -j 2x2 --script t.py",
		"horovodrun -np 4 -H a:2,b:2 python t.py", "horovodrun --mpi -np 4 -H a:2,b:2 python t.py",
		"colossalai run --num_nodes 2 --nproc_per_node 4 t.py", "colossalai run --num_nodes 2 --nproc_per_node 4 -m t",
		"dlrover-run --nnodes 2 --nproc_per_node 2 t.py", "ft_launcher --nnodes 2 --nproc-per-node 2 t.py",
		"torchrun --standalone t.py", "torchrun --nnodes 2 t.py", "vllm serve m",
		"vllm serve m -tp 16 --distributed-executor-backend ray", "vllm serve m -dp 4 --data-parallel-start-rank 2",
		"vllm serve m -dp 4 --data-parallel-rank 0", "vllm serve m -dp 4 -dpe", "vllm serve m -tp 16 --nnodes 2",
		"python -m vllm.entrypoints.openai.api_server --model m -tp 2", "sglang serve --model-path m",
		"python -m sglang.launch_server --model-path m --tp 2", "ray start --head",
		"ray symmetric-run --min-nodes 2 -- python t.py", "fabric run t.py", "fabric run --num-nodes 2 t.py",
		"python t.py",
	} {
		for name, with := range map[string]func(*Flags){
			"no flag":  func(*Flags) {},
			"nodes":    func(f *Flags) { f.NNodes = flagged("--nnodes", "2") },
			"store":    func(f *Flags) { f.Store = flagged("--store", "h") },
			"both":     func(f *Flags) { f.NNodes, f.Store = flagged("--nnodes", "2"), flagged("--store", "h") },
			"of three": func(f *Flags) { f.NNodes, f.Store = flagged("--nnodes", "3"), flagged("--store", "h") },
		} {
			in := input(line, "HOME=/root").files(files).with(with)
			in.Own = map[string]bool{"nnodes": true, "store": true}
			for range 4 { // a hint may leave what the next one says
				_, err := Resolve(in)
				bad, refused := errors.AsType[*exit.Error](err)
				if !refused {
					break
				}
				fix := pasted(t, bad.Fix)
				fix.Env, fix.Root, fix.Own = in.Env, in.Root, in.Own
				in = fix
			}
			j, err := Resolve(in)
			switch {
			case err != nil:
				t.Errorf("%s (%s): the hint leads to an error: %v", line, name, err)
			case j.Line.Kind == launcher.Mpirun, j.Line.Starter == "horovodrun": // once, on the head node
			case j.Single && (name == "no flag" || name == "store"): // nothing says that there are several
			default:
				aWorld(t, line+" ("+name+")", j)
				if want := map[string]int{"both": 2, "of three": 3}[name]; want > 0 && j.Nodes.V != want {
					t.Errorf("%s (%s): %d nodes", line, name, j.Nodes.V)
				}
			}
		}
	}
}

func TestTheHintCorrectsAMisspeltNumberOfNodes(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun --nnods 2 t.py":                    "launch --store h torchrun --nnodes 2 t.py",
		"torchrun --nodes=2 --nproc-per-node 4 t.py": "launch --store h torchrun --nnodes=2 --nproc-per-node 4 t.py",
	} {
		_, err := Resolve(input(line).with(func(f *Flags) { f.Store = flagged("--store", "h") }))
		bad, ok := errors.AsType[*exit.Error](err)
		if !ok || bad.Fix != want {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
