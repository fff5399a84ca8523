package job

// nixlbench refuses a nixlbench of several nodes without an etcd that they share: a store that a node hosts takes no
// keys of other programs, and each nixlbench would look for an etcd on its own node.
func (r *resolver) nixlbench() error {
	b, ok := r.line.NIXLBench()
	if !ok || !r.job.Several() || b.Endpoints != "" || !r.job.Store.V.Embedded {
		return nil
	}
	return contradiction("launch --store http://HOST:2379 … nixlbench …   # on HOST: etcd --listen-client-urls "+
		"http://0.0.0.0:2379 --advertise-client-urls http://HOST:2379",
		"nixlbench on %d nodes needs an etcd: the store on %s takes no keys of other programs, and without "+
			"--etcd_endpoints each nixlbench looks for one on its own node", r.job.Nodes.V, r.job.Store.V.Host)
}
