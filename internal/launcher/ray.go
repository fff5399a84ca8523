package launcher

// Ray starts (ray/scripts/scripts.py and symmetric_run.py of 2.60). With ray start node rank 0 becomes the head
// of a cluster, and the other nodes join it; only --block keeps the command running. With ray symmetric-run
// each node runs the line: it starts Ray everywhere and then the command after "--" on the head alone.

func rayStart() starter {
	return starter{kind: Ray, names: "ray", sub: "start", title: "ray start", server: true, addr: "address",
		options: func() []torchOption {
			all := table("address port node_ip_address", "head block help")
			for i, o := range all {
				all[i].perNode = o.dest == "head" || o.dest == "address" || o.dest == "port" || o.dest == "node_ip_address"
			}
			return all
		}}
}

func raySymmetric() starter {
	return starter{kind: Ray, names: "ray", sub: "symmetric-run", title: "ray symmetric-run", server: true,
		nodes: "min_nodes", addr: "address", options: func() []torchOption { return table("address min_nodes", "help") }}
}

func (l Line) raySettings(w World) (settings []option, drop []string) {
	const (
		head = "the address of node rank 0, so that no name has to resolve"
		own  = "the address of this node for the others"
	)
	s, _ := l.starter()
	at := bracketed(w.MasterAddr) + ":" + w.MasterPort.String()
	switch {
	case s.nodes != "":
		return []option{{"address", at, head}, {s.nodes, w.Nodes.String(), "the command waits for all nodes"}}, nil
	case w.NodeRank == Known(0):
		return []option{{"head", "", "node rank 0 is the head"}, {"port", w.MasterPort.String(), "reserved for this job"},
			{"node_ip_address", w.MasterAddr, own}}, []string{"address"}
	}
	return []option{{"address", at, head}, {"node_ip_address", w.Addr, own}}, []string{"head", "port"}
}
