package launcher

import (
	"strconv"

	"launch/internal/exit"
	"launch/internal/setting"
)

// accelerate returns the launcher of Hugging Face Accelerate (accelerate/commands/launch.py of 1.15). An
// option of the line goes before its configuration file. With several GPUs it runs torchrun inside, with
// --num_processes divided by --num_machines. With --cpu, or one GPU and no --multi_gpu, it starts one
// process, which reads RANK and WORLD_SIZE.
func accelerate() starter {
	return starter{kind: Accelerate, names: "accelerate accelerate.commands.accelerate_cli", sub: "launch",
		title: "accelerate launch", nodes: "num_machines", rank: "machine_rank", addr: "main_process_ip",
		port: "main_process_port", options: accelerateOptions}
}

// accelerateAlias is the same under its other names.
func accelerateAlias() starter {
	s := accelerate()
	s.names, s.sub = "accelerate-launch accelerate.commands.launch", ""
	return s
}

func accelerateOptions() []torchOption {
	return shorts(table(accelerateValues, accelerateFlags), map[string]byte{"quiet": 'q', "module": 'm', "tee": 't'})
}

const accelerateFlags = "help quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic " +
	"dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm same_network " +
	"module no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 fp8_use_autocast_during_eval debug"

const accelerateValues = "config_file mixed_precision num_processes num_machines num_cpu_threads_per_process " +
	"dynamo_backend dynamo_mode gpu_ids machine_rank main_process_ip main_process_port tee log_dir role rdzv_backend " +
	"rdzv_conf max_restarts monitor_interval vm env main_training_function deepspeed_config_file zero_stage " +
	"offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path " +
	"gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile " +
	"deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher " +
	"deepspeed_moe_layer_cls_names fsdp_version fsdp_offload fsdp_offload_params fsdp_min_num_params " +
	"fsdp_sharding_strategy " +
	"fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch " +
	"fsdp_backward_prefetch_policy fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params " +
	"fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing " +
	"fsdp_activation_checkpointing_offload megatron_lm_tp_degree megatron_lm_use_custom_fsdp " +
	"megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d " +
	"megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer " +
	"megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches " +
	"megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer " +
	"megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method " +
	"megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size " +
	"megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout " +
	"megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size " +
	"megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings fp8_backend fp8_margin " +
	"fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level " +
	"fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim aws_access_key_id aws_secret_access_key mpirun_hostfile " +
	"mpirun_ccl parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size " +
	"parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy " +
	"parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length " +
	"parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation"

// checkAccelerate returns the error of a line that would start another world on several nodes.
func (l Line) checkAccelerate(nodes int) error {
	const what = "accelerate launch"
	each := l.asked("deepspeed_multinode_launcher", nil)
	switch {
	case l.has("help"):
		return nil
	case l.has("tpu"), l.has("tpu_cluster"):
		return exit.Errorf(exit.Config, "%s --tpu: launch cannot place TPU hosts, so each node would train alone", what).
			Do("run the line without launch")
	case l.has("mpirun_hostfile"):
		return exit.Errorf(exit.Config, "%s --mpirun_hostfile starts mpirun on each node, and each would start all hosts",
			what).Do("drop --mpirun_hostfile, or launch mpirun -np N --hostfile FILE python train.py")
	case each != "" && each != "standard":
		return exit.Errorf(exit.Config, "%s --deepspeed_multinode_launcher %s starts all hosts itself, but launch runs "+
			"the line on each node", what, each).Do("--deepspeed_multinode_launcher standard")
	}
	return l.checkTotal(nodes)
}

// checkTotal checks --num_processes, the total of all nodes.
func (l Line) checkTotal(nodes int) error {
	total, err := strconv.Atoi(l.NP.Value)
	switch {
	case !l.NP.Set && l.has("cpu"):
		return nil
	case !l.NP.Set:
		return exit.Errorf(exit.Config, "accelerate launch has no --num_processes, the total of all nodes: it would "+
			"divide the GPUs of one node among %d nodes", nodes).
			Do("--num_processes %d   # after accelerate launch: %d nodes with %d processes each", l.Each()*nodes, nodes,
				l.Each())
	case err != nil:
		return exit.Errorf(exit.Usage, "%s %q is not a number", l.NP.From, l.NP.Value).
			Do("--num_processes %d", l.Each()*nodes)
	case l.has("cpu") && total != nodes:
		return exit.Errorf(exit.Config, "accelerate launch --cpu starts one process on each node, not %d on %d nodes",
			total, nodes).Do("--num_processes %d, or torchrun --nproc-per-node %d train.py", nodes, max(1, total/nodes))
	case total < nodes || total%nodes != 0:
		return exit.Errorf(exit.Config, "%s %d is the total of all nodes, and not a multiple of %d nodes", l.NP.From, total,
			nodes).Do("--num_processes %d   # %d on each node", l.Each()*nodes, l.Each())
	}
	return nil
}

// torchrunInside reports whether accelerate is sure to start torchrun.
func (l Line) torchrunInside() bool {
	return !l.has("cpu") && (l.has("multi_gpu") || l.has("use_fsdp") || l.has("use_megatron_lm") || l.has("use_deepspeed"))
}

func (l Line) accelerateSettings(w World) []option {
	var out []option
	if l.has("cpu") {
		out = append(out, option{"num_processes", w.Nodes.String(), "--cpu: one process on each node"})
	} else {
		out = append(out, option{"rdzv_backend", "static", "the ranks are known; a configuration file may have another"})
	}
	if n, _ := strconv.Atoi(l.asked("max_restarts", nil)); n > 0 {
		out = append(out, option{"max_restarts", "0", "torchrun's own restarts reuse a store with stale keys"})
	}
	if l.has("use_deepspeed") || !l.torchrunInside() && !l.has("cpu") {
		out = append(out, option{"deepspeed_multinode_launcher", "standard",
			"with DeepSpeed, torchrun on each node; the default starts all hosts over pdsh"})
	}
	return out
}

// accelerateVars returns the variables for the one process that accelerate starts without torchrun;
// torchrun replaces them.
func (l Line) accelerateVars(w World) []setting.Var {
	if l.torchrunInside() {
		return nil
	}
	w.Task = Task{}
	return l.program(w, nil, nil).Set
}
