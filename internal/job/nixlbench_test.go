package job

import "testing"

func TestNIXLBenchOfAnotherSizeIsRefused(t *testing.T) {
	on := func(nodes string) func(*Flags) {
		return func(f *Flags) {
			f.NNodes, f.Store = flagged("--nnodes", nodes), flagged("--store", "http://e:2379")
		}
	}
	refused(t, input("nixlbench --backend UCX").with(on("3")), 78, "waits for 2 processes", "the job has 3")
	refused(t, input("nixlbench --num_target_dev=2").with(on("2")), 78, "waits for 3 processes", "the job has 2")

	resolve(t, input("nixlbench --backend UCX").with(on("2")))
	resolve(t, input("nixlbench --num_initiator_dev 2 --num_target_dev 2").with(on("4")))
	resolve(t, input("nixlbench --mode MG --num_initiator_dev 8 --num_target_dev 8").with(on("2")))
	resolve(t, input("nixlbench --backend POSIX --filepath /x").with(on("3"))) // each works alone
	resolve(t, input("nixlbench --config_file c.toml").with(on("3")))
	resolve(t, input("nixlbench --backend UCX").with(on("2:4")))
	resolve(t, input("nixlbench --backend UCX").with(on("1")))
	roles := func(f *Flags) { on("3")(f); f.Role, f.Job = flagged("--role", "bench"), flagged("--job", "j") }
	resolve(t, input("nixlbench --backend UCX").with(roles)) // the other nodes may run something else
}
