package diagnose

import (
	"testing"
	"time"

	"launch/diagnose/scene"
)

const (
	wrapped = "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)"
	script  = "<module> (train.py:20)"
)

// atFutex returns a rank of Gloo whose main thread waits on a futex at these frames.
func atFutex(runs bool, timed bool, values map[string]string, frames ...string) *scene.Proc {
	return &scene.Proc{Comm: "python", Syscall: &scene.Syscall{Name: "futex", Timed: timed}, Wchan: "futex_do_wait",
		Threads: []scene.Thread{{Name: "pt_gloo_runloop", Wchan: "futex_do_wait", Timed: runs, State: "S", Count: 1}},
		Stacks:  []scene.Stack{{Thread: "MainThread", Frames: frames, Values: values}}}
}

// TestOperationsByTheirStacks has the stacks of ranks of torch 2.15 that hung, by py-spy, shortened.
func TestOperationsByTheirStacks(t *testing.T) {
	const c10d = " (torch/distributed/distributed_c10d.py:4181)"
	for name, tt := range map[string]struct {
		proc *scene.Proc
		want string
		kind opKind
	}{
		"a collective": {atFutex(true, false, nil, "all_reduce"+c10d, wrapped, script), "all_reduce", ofAll},
		"of objects": {atFutex(true, false, nil, "broadcast"+c10d, wrapped, "broadcast_object_list"+c10d, wrapped, script),
			"broadcast", ofAll},
		"recv": {atFutex(false, true, map[string]string{"src": "0", "tag": "2"}, "recv"+c10d, wrapped, script),
			"recv from rank 0, tag 2", ofPair},
		"DTensor": {atFutex(true, false, map[string]string{"current": "Shard", "target": "Replicate"},
			"OpOverload.redispatch (torch/_ops.py:926)",
			"make_autograd_impl.<locals>.autograd_impl (torch/_library/autograd.py:147)",
			"wait_tensor (torch/distributed/_functional_collectives.py:143)",
			"redistribute_local_tensor (torch/distributed/tensor/_redistribute.py:1841)",
			"DTensor.full_tensor (torch/distributed/tensor/_api.py:813)", script), "all_gather (DTensor.full_tensor)", ofAll},
		"functional": {atFutex(true, false, nil, "OpOverloadPacket.__call__ (torch/_ops.py:1350)",
			"wait_tensor (torch/distributed/_functional_collectives.py:143)", script), "wait_tensor", ofAll},
		"pipeline": {atFutex(false, true, map[string]string{"works": "0"},
			"_wait_batch_p2p (torch/distributed/pipelining/schedules.py:958)",
			"ScheduleGPipe._step_microbatches (torch/distributed/pipelining/schedules.py:1321)",
			"PipelineScheduleSingle.step (torch/distributed/pipelining/schedules.py:1190)", script),
			"recv from rank 0 (PipelineScheduleSingle.step)", ofPair},
		"made DDP": {atFutex(true, false, nil, "_verify_param_shape_across_processes (torch/distributed/utils.py:299)",
			"DistributedDataParallel.__init__ (torch/nn/parallel/distributed.py:1076)", script),
			"all_gather (DistributedDataParallel.__init__)", ofAll},
		"buckets of DDP": {atFutex(true, false, nil,
			"DistributedDataParallel._pre_forward (torch/nn/parallel/distributed.py:1797)",
			"DistributedDataParallel.forward (torch/nn/parallel/distributed.py:1908)",
			"Module._call_impl (torch/nn/modules/module.py:1798)", script),
			"broadcast (DistributedDataParallel.forward)", ofAll},
		"buffers of DDP": {&scene.Proc{Stacks: []scene.Stack{{Thread: "MainThread", Frames: []string{
			"DistributedDataParallel._distributed_broadcast_coalesced (torch/nn/parallel/distributed.py:2385)", script}}}},
			"broadcast", ofAll},
		"ZeRO": {atFutex(true, false, nil,
			"ZeroRedundancyOptimizer._sync_params (torch/distributed/optim/zero_redundancy_optimizer.py:826)",
			"ZeroRedundancyOptimizer.step (torch/distributed/optim/zero_redundancy_optimizer.py:1151)",
			"Optimizer.profile_hook_step.<locals>.wrapper (torch/optim/optimizer.py:567)", script),
			"broadcast (ZeroRedundancyOptimizer.step)", ofAll},
		"backward": {atFutex(true, false, nil, "_engine_run_backward (torch/autograd/graph.py:900)",
			"Tensor.backward (torch/_tensor.py:600)", script), "all_reduce (Tensor.backward)", ofAll},
		"asynchronous": {atFutex(true, false, nil, script), "Work.wait (a collective that it has started)", ofAll},
		"irecv":        {atFutex(false, true, nil, script), "Work.wait (a send or recv that it has started)", ofPair},
		"new_group": {atFutex(false, false, nil, "barrier"+c10d, "new_group"+c10d, wrapped, script), "new_group",
			ofMaker},
		"rpc": {atFutex(false, false, map[string]string{"to": "w1"}, "rpc_sync (torch/distributed/rpc/api.py:842)",
			"_require_initialized.<locals>.wrapper (torch/distributed/rpc/api.py:99)", script), "rpc_sync to w1", ofCall},
	} {
		v := &view{}
		s := &seat{proc: tt.proc, node: &node{scene: &scene.Scene{Span: 3 * time.Second}}}
		got := v.opOf(s)
		text := ""
		if got.kind != noOp {
			text = got.whole(true)
		}
		if got.kind != tt.kind || text != tt.want {
			t.Errorf("%s: %q of kind %d, want %q of kind %d", name, text, got.kind, tt.want, tt.kind)
		}
		tt.proc.Moved.CPU = time.Second
		if got := v.opOf(s); got.kind != noOp && len(tt.proc.Threads) > 0 && namedOp(got.stack).kind == noOp {
			t.Errorf("%s, and it computes: %q", name, got.name)
		}
	}
}

// TestStacksOfNoOperation has waits that no other rank ends.
func TestStacksOfNoOperation(t *testing.T) {
	for name, frames := range map[string][]string{
		"a lock of the script":     {script},
		"a queue":                  {"Queue.get (queue.py:171)", script},
		"an import":                {"<module> (torch/distributed/distributed_c10d.py:9)", script},
		"backward that computes":   {"_engine_run_backward (torch/autograd/graph.py:900)", script},
		"a file of a checkpoint":   {"write (torch/distributed/checkpoint/filesystem.py:9)", script},
		"a forward of one process": {"Linear.forward (torch/nn/modules/linear.py:9)", script},
		"init": {"barrier (torch/distributed/distributed_c10d.py:6614)",
			"init_process_group (torch/distributed/distributed_c10d.py:2721)", wrapped, script},
	} {
		s := &seat{proc: atFutex(false, false, nil, frames...), node: &node{scene: &scene.Scene{Span: 3 * time.Second}}}
		if got := (&view{}).opOf(s); got.kind != noOp {
			t.Errorf("%s: %q", name, got.name)
		}
	}
}
