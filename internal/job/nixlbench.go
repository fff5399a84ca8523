package job

import "launch/internal/exit"

// nixlbench refuses a nixlbench of several nodes that waits for another number of processes, or has no etcd that they
// share: a store that a node hosts takes no keys of other programs, and each nixlbench looks for an etcd on its node.
func (r *resolver) nixlbench() error {
	b, ok := r.line.NIXLBench()
	if !ok || !r.job.Several() {
		return nil
	}
	one := r.job.Min == 0 && r.job.Spares == 0 && r.job.Tasks == (Tasks{}) && !r.job.Role.Set
	if nodes := r.job.Nodes.V; one && b.Processes != nodes {
		return wrongNumber(b.Processes, nodes)
	}
	if b.Endpoints != "" || !r.job.Store.V.Embedded {
		return nil
	}
	return contradiction("launch --store http://HOST:2379 … nixlbench …   # on HOST: etcd --listen-client-urls "+
		"http://0.0.0.0:2379 --advertise-client-urls http://HOST:2379",
		"nixlbench on %d nodes needs an etcd: the store on %s takes no keys of other programs, and without "+
			"--etcd_endpoints each nixlbench looks for one on its own node", r.job.Nodes.V, r.job.Store.V.Host)
}

// wrongNumber refuses a number of nodes with one process each. A process too many fails, and removes
// the count of the others; with too few, all wait for 3 minutes, and fail.
func wrongNumber(processes, nodes int) *exit.Error {
	return contradiction("nixlbench --num_initiator_dev N --num_target_dev M …   # N + M is the number of nodes",
		"nixlbench waits for %d processes (--num_initiator_dev and --num_target_dev, 1 each by default; 2 with --mode MG), "+
			"and the job has %d, one on each node", processes, nodes)
}
