package launcher

import (
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
)

// parseServer reads the options of a server that launch places. They may be anywhere before a "--", which
// begins a command; all other words are the server's own.
func (l *Line) parseServer(s starter) {
	l.Rest = len(l.Argv)
	table := s.options()
	for i := l.At + 1; i < len(l.Argv); i++ {
		if l.Argv[i] == "--" {
			l.Rest = min(i+1, len(l.Argv))
			break
		}
		name, value, attached := strings.Cut(l.Argv[i], "=")
		at := slices.IndexFunc(table, func(o torchOption) bool {
			return slices.Contains(o.spellings(), name) || slices.Contains(strings.Fields(o.alias), name)
		})
		if at < 0 {
			continue
		}
		o := Option{Name: table[at].dest, Value: value, At: i, Words: 1}
		if table[at].value && !attached && i+1 < len(l.Argv) {
			i++
			o.Value, o.Words = l.Argv[i], 2
		}
		l.Options = append(l.Options, o)
	}
	l.ask(s)
}

// size returns the product of options that are numbers and 1 by default.
func (l Line) size(dests ...string) int {
	size := 1
	for _, dest := range dests {
		if n, err := strconv.Atoi(l.asked(dest, nil)); err == nil && n > 0 {
			size *= n
		}
	}
	return size
}

// vllm returns vLLM's server (vllm/entrypoints/cli/serve.py, vllm/engine/arg_utils.py; older versions lack --nnodes).
// Each node runs the line. Each starts the processes of its GPUs; those of the other nodes have no HTTP
// server (--headless). The product of the sizes is the world.
func vllm() starter {
	return starter{kind: VLLM, names: "vllm vllm.entrypoints.cli.main", sub: "serve", title: "vllm serve", server: true,
		nodes: "nnodes", rank: "node_rank", addr: "master_addr", port: "master_port", options: vllmOptions}
}

// vllmServer is the server's module, which cannot run without an HTTP server.
func vllmServer() starter {
	return starter{names: "vllm.entrypoints.openai.api_server", title: "vllm.entrypoints.openai.api_server",
		alone: "vllm.entrypoints.openai.api_server has no --headless for the other nodes"}
}

func vllmOptions() []torchOption {
	all := table("nnodes node_rank master_addr master_port tensor_parallel_size pipeline_parallel_size "+
		"prefill_context_parallel_size data_parallel_size data_parallel_address data_parallel_rank "+
		"data_parallel_start_rank distributed_executor_backend data_parallel_backend api_server_count config",
		"headless data_parallel_external_lb data_parallel_hybrid_lb data_parallel_multi_port_external_lb help")
	alias := map[string]string{"nnodes": "-n", "node_rank": "-r", "tensor_parallel_size": "-tp",
		"pipeline_parallel_size": "-pp", "data_parallel_size": "-dp", "data_parallel_address": "-dpa",
		"data_parallel_rank": "-dpn", "data_parallel_start_rank": "-dpr", "prefill_context_parallel_size": "-pcp",
		"help": "-h", "data_parallel_hybrid_lb": "-dph", "data_parallel_external_lb": "-dpe",
		"data_parallel_multi_port_external_lb": "-dpm", "data_parallel_backend": "-dpb", "api_server_count": "-asc"}
	for i, o := range all {
		all[i].alias = alias[o.dest]
		all[i].perNode = slices.Contains([]string{"node_rank", "headless"}, o.dest)
	}
	return all
}

func (l Line) vllmSize() int {
	return l.size("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "data_parallel_size")
}

func (l Line) checkVLLM(nodes int) error {
	ray := l.asked("distributed_executor_backend", nil) == "ray" || l.asked("data_parallel_backend", nil) == "ray"
	switch {
	case l.has("help"):
		return nil
	case ray:
		return exit.Errorf(exit.Config, "launch runs the command on each node, but vllm serve over Ray runs once, on the "+
			"head of a Ray cluster")
	case l.has("data_parallel_rank"), l.has("data_parallel_start_rank"):
		return exit.Errorf(exit.Config, "--data-parallel-rank and --data-parallel-start-rank differ by node, but all nodes "+
			"run one line: vLLM computes them from --nnodes and --node-rank, which launch sets")
	case l.has("data_parallel_multi_port_external_lb"):
		return exit.Errorf(exit.Config, "launch cannot place vllm serve --data-parallel-multi-port-external-lb").
			Do("--data-parallel-external-lb")
	case l.has("data_parallel_external_lb") && nodes%l.size("data_parallel_size") != 0:
		return exit.Errorf(exit.Config, "--data-parallel-external-lb has one replica on a node or on several, but %d nodes "+
			"share %d replicas", nodes, l.size("data_parallel_size"))
	case !l.has("config") && l.vllmSize()%nodes != 0:
		return exit.Errorf(exit.Config, "vllm serve has %d processes by its sizes, which %d nodes cannot share", l.vllmSize(),
			nodes)
	}
	return nil
}

// vllmSettings adds what differs by node: only node rank 0 serves HTTP, unless a balancer asks each replica. Then
// the first node of each replica does. What only a node with HTTP may have is dropped on the others.
func (l Line) vllmSettings(w World, settings []option) (all []option, drop []string) {
	replicas := l.size("data_parallel_size")
	if replicas > 1 {
		settings = append(settings, option{"data_parallel_address", w.MasterAddr, "node rank 0 coordinates the replicas"})
	}
	serves := w.NodeRank == Known(0)
	if l.has("data_parallel_external_lb") || l.has("data_parallel_hybrid_lb") {
		serves = w.NodeRank.V%max(w.Nodes.V/replicas, 1) == 0
	}
	if serves {
		return settings, []string{"headless"}
	}
	return append(settings, option{"headless", "", "another node serves HTTP"}),
		[]string{"api_server_count", "data_parallel_hybrid_lb"}
}

// sglang returns SGLang's server (sglang/srt/arg_groups/fields/parallel.py of 0.5.23). Each node runs the
// line; node rank 0 serves HTTP. The GPUs of all nodes share --tp-size and --pp-size.
func sglang() starter {
	return starter{kind: SGLang, names: "sglang.launch_server", title: "sglang.launch_server", server: true,
		nodes: "nnodes", rank: "node_rank", addr: "dist_init_addr", options: func() []torchOption {
			all := table("nnodes node_rank dist_init_addr tp_size pp_size config", "help")
			alias := map[string]string{"dist_init_addr": "--nccl-init-addr --nccl_init_addr", "help": "-h",
				"tp_size": "--tensor-parallel-size --tp", "pp_size": "--pipeline-parallel-size --pp"}
			for i, o := range all {
				all[i].alias, all[i].perNode = alias[o.dest], o.dest == "node_rank"
			}
			return all
		}}
}

// sglangServe is the same under its newer name.
func sglangServe() starter {
	s := sglang()
	s.names, s.sub, s.title = "sglang sglang.cli.main", "serve", "sglang serve"
	return s
}

func (l Line) checkSGLang(nodes int) error {
	if n := l.size("tp_size", "pp_size"); !l.has("help") && !l.has("config") && n%nodes != 0 {
		return exit.Errorf(exit.Config, "%s has %d processes by its sizes, which %d nodes cannot share", l.Starter, n, nodes)
	}
	return nil
}
