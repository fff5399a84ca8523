package envgen

import (
	"net/netip"
	"strings"
	"testing"
)

func frameworkCases() []planCase {
	base := machine(lo, eth0)
	tf := base.using("tensorflow").started()
	tf.World.Rank = 1
	tf.World.All = []netip.Addr{netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("fd00::5")}
	tasks := tf
	tasks.Tasks = true
	jaxes := base.using("jax", "jax.distributed.initialize()").started()
	eight := jaxes
	eight.Devices = 8
	return []planCase{
		{"JAX", base.using("jax").started(), []string{"JAX_COORDINATOR_ADDRESS=10.0.0.6:29500"}},
		{"JAX before the start", base.using("jax"), nil},
		{"TensorFlow", tf, []string{
			`TF_CONFIG={"cluster":{"worker":["10.0.0.6:29500","[fd00::5]:29500"]},"task":{"type":"worker","index":1}}`}},
		{"TensorFlow before the start", base.using("tensorflow").started(), nil},
		{"TensorFlow with several tasks on a node", tasks, nil},
		{"JAX that finds its world, on CPUs", jaxes.noGPUs(), []string{"JAX_COORDINATOR_ADDRESS=10.0.0.6:29500",
			"JAX_LOCAL_DEVICE_IDS=0"}},
		{"JAX that finds its world, with 8 GPUs", eight, []string{"JAX_COORDINATOR_ADDRESS=10.0.0.6:29500",
			"JAX_LOCAL_DEVICE_IDS=0,1,2,3,4,5,6,7"}},
		{"JAX that finds its world, with GPUs that nobody counts", jaxes,
			[]string{"JAX_COORDINATOR_ADDRESS=10.0.0.6:29500"}},
	}
}

func TestJAXWithGPUsThatAreNotCountedHasTheCallToWrite(t *testing.T) {
	in := machine(lo, eth0).using("jax", "jax.distributed.initialize()").started()
	for gpus, want := range map[int]bool{0: true, 8: false} {
		in.Devices = gpus
		for _, v := range Make(in) {
			if v.Name == "JAX_COORDINATOR_ADDRESS" && strings.Contains(v.Reason, "num_processes=int(os.environ") != want {
				t.Errorf("%d GPUs: %q", gpus, v.Reason)
			}
		}
	}
}
