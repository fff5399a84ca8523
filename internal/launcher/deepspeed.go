package launcher

import "launch/internal/exit"

// deepspeed returns DeepSpeed's launcher (deepspeed/launcher/runner.py). By default it starts the hosts
// of its hostfile itself. With --no_ssh (0.14.5 and later) each node runs the line with its --node_rank,
// but only the hostfile says how many nodes there are: without one, each is a world of its own.
func deepspeed() starter {
	return starter{kind: DeepSpeed, names: "deepspeed ds deepspeed.launcher.runner", title: "deepspeed",
		nodes: "num_nodes", rank: "node_rank", addr: "master_addr", port: "master_port",
		options: func() []torchOption {
			return shorts(table("hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus "+
				"num_accelerators master_port master_addr node_rank launcher launcher_args enable_each_rank_log "+
				"autotuning comment account bind_core_list ssh_port venv_script",
				"help module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training "+
					"bind_cores_to_rank"), map[string]byte{"hostfile": 'H', "include": 'i', "exclude": 'e'})
		}}
}

func (l Line) checkDeepSpeed() error {
	switch {
	case l.has("help"):
		return nil
	case !l.Hostfile.Set:
		return exit.Errorf(exit.Config, "launch runs the command on each node, but deepspeed without --hostfile knows "+
			"only its own node, so each node would train alone")
	case l.has("elastic_training"), l.has("autotuning"):
		return exit.Errorf(exit.Config, "launch runs the command on each node, but deepspeed with --elastic_training or "+
			"--autotuning starts the other nodes itself")
	}
	return nil
}

// deepspeedSettings adds --no_ssh. --num_nodes does not go with --include and --exclude.
func (l Line) deepspeedSettings(settings []option) []option {
	if l.has("include") || l.has("exclude") {
		settings = settings[1:]
	}
	return append(settings, option{"no_ssh", "", "each node runs the line, so none has to start the others"})
}
