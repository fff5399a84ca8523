package launcher

// fabricRun returns the launcher of Lightning Fabric (lightning_fabric/cli.py of 2.x). It runs torchrun
// inside; --devices is the number of processes on each node.
func fabricRun() starter {
	return starter{kind: Lightning, names: "fabric lightning_fabric.cli lightning.fabric.cli", sub: "run",
		title: "fabric run", nodes: "num_nodes", rank: "node_rank", addr: "main_address", port: "main_port",
		options: func() []torchOption {
			return table("accelerator strategy devices num_nodes node_rank main_address main_port precision", "help")
		}}
}

// lightningRun is its older name, until 2.2, and fabricRunModel its name in 2.2.
func lightningRun() starter {
	s := fabricRun()
	s.names, s.sub, s.title = "lightning", "run model", "lightning run model"
	return s
}

func fabricRunModel() starter {
	s := fabricRun()
	s.sub, s.title = "run model", "fabric run model"
	return s
}
