package faultbench

import "strings"

// envFaults returns faults in the environment of the sick host, or in a file that a library
// reads. All of it is real.
func envFaults() []fault {
	onGPUs := func(env ...string) func(*trial) {
		return func(tr *trial) {
			tr.equip(onIB)
			tr.sick.env = append(tr.sick.env, env...)
		}
	}
	onCPUs := func(env ...string) func(*trial) {
		return func(tr *trial) { tr.sick.env = append(tr.sick.env, env...) }
	}
	// withDocker adds the bridge of a container engine to the sick host.
	withDocker := func(inject func(*trial)) func(*trial) {
		return func(tr *trial) {
			tr.sick.Decoy("docker0", "172.17.0.1/16")
			inject(tr)
		}
	}
	all := []fault{
		{name: "NCCL_SOCKET_IFNAME of another machine", ci: true, inject: onGPUs("NCCL_SOCKET_IFNAME=ens99"),
			want: []string{"env.ifname.nccl"}},
		{name: "NCCL_SOCKET_IFNAME excludes all", inject: onGPUs("NCCL_SOCKET_IFNAME=^e,l,bond,docker"),
			want: []string{"env.ifname.nccl"}},
		{name: "NCCL_SOCKET_IFNAME is loopback", inject: onGPUs("NCCL_SOCKET_IFNAME=lo"),
			want: []string{"env.ifname.loopback"}},
		{name: "NCCL_SOCKET_IFNAME is docker0", runs: true, inject: withDocker(onGPUs("NCCL_SOCKET_IFNAME=docker0")),
			want: []string{"env.ifname.virtual"}},
		{name: "GLOO_SOCKET_IFNAME of another machine", ci: true, inject: onCPUs("GLOO_SOCKET_IFNAME=ens99"),
			want: []string{"env.ifname.gloo"}},
		{name: "GLOO_SOCKET_IFNAME is docker0", runs: true, inject: withDocker(onCPUs("GLOO_SOCKET_IFNAME=docker0")),
			want: []string{"env.ifname.virtual"}},
		{name: "GLOO_SOCKET_IFNAME is loopback", inject: onCPUs("GLOO_SOCKET_IFNAME=lo"),
			want: []string{"env.ifname.loopback"}},
		{name: "NCCL_BUFFSIZE on one node only", inject: onGPUs("NCCL_BUFFSIZE=8388608"), want: []string{"same.env"}},
		{name: "another NCCL_PROTO", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) { h.env = append(h.env, "NCCL_PROTO=LL128,Simple") })
			tr.sick.env = append(tr.sick.env, "NCCL_PROTO=Simple")
		}, want: []string{"same.env"}},
		{name: "NCCL_IB_DISABLE on one node only", ci: true, inject: onGPUs("NCCL_IB_DISABLE=1"), want: []string{"same.env"}},
		{name: "a variable that turns the watch off", runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) { h.env = append(h.env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=0") })
		}, want: []string{"env.torch-async"}, shared: true},
		{name: "NCCL_TOPO_FILE of another machine", runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.write(tr, "topo.xml",
				`<system version="1"><cpu numaid="0"><pci busid="0000:0b:00.0" class="0x030200"/></cpu></system>`)
			tr.sick.env = append(tr.sick.env, "NCCL_TOPO_FILE="+tr.sick.file("topo.xml"))
		}, want: []string{"env.topo-file"}},
		{name: "NCCL_GRAPH_FILE that is not there", inject: onGPUs("NCCL_GRAPH_FILE=/etc/graph.xml"),
			want: []string{"fail env.graph-file /etc/graph.xml"}},
		{name: "NCCL_NET=IB, and no device can be opened", inject: func(tr *trial) {
			onGPUs("NCCL_NET=IB")(tr)
			tr.sick.write(tr, "lib/verbs.txt", strings.ReplaceAll(tr.sick.read(tr, "lib/verbs.txt"), "\n", " open 13\n"))
		}, want: []string{"fail env.net NCCL_NET=IB"}},
		{name: "NCCL_NET_PLUGIN that is not there", runs: true, inject: func(tr *trial) {
			onGPUs("NCCL_NET_PLUGIN=ofi-other")(tr)
			tr.each(func(h *host) { h.venv(tr, "2.9.0+cu128", "12.8", "2.27.5"); h.nccl(tr, "2.27.5+cuda12.8") })
		}, want: []string{"warn env.net-plugin ofi-other"}},
		{name: "NCCL_SOCKET_IFNAME leaves loopback", inject: onGPUs("NCCL_SOCKET_IFNAME=^docker0"),
			want: []string{"env.ifname.loopback"}},
		{name: "NCCL_SOCKET_FAMILY is no family", runs: true, inject: onGPUs("NCCL_SOCKET_FAMILY=IPv6"),
			want: []string{"env.ifname.family"}},
		{name: "NCCL_IB_DISABLE is a word", runs: true, inject: onGPUs("NCCL_IB_DISABLE=false"),
			want: []string{"env.number"}},
		{name: "NCCL_P2P_LEVEL is no level", runs: true, inject: onGPUs("NCCL_P2P_LEVEL=NVLINK"),
			want: []string{"env.level"}},
		{name: "NCCL_DEBUG_FILE in a directory that is not there", runs: true,
			inject: onGPUs("NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=/no/such/nccl.%h"),
			want:   []string{"env.debug-file"}},
		{name: "NCCL_HOSTID is one for all", shared: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) { h.env = append(h.env, "NCCL_HOSTID=node") })
		}, want: []string{"same.hostid"}},
		{name: "UCX_NET_DEVICES of another machine", runs: true, inject: onGPUs("UCX_NET_DEVICES=mlx5_99:1"),
			want: []string{"env.ucx-devices"}},
		{name: "an nccl.conf on one node", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.write(tr, "etc/nccl.conf", "NCCL_IB_DISABLE=1\n")
			tr.sick.overlayEtc()
		}, want: []string{"same.env"}},
		{name: "NCCL_CONF_FILE on one node", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.write(tr, "nccl.conf", "NCCL_SOCKET_IFNAME=ens99\n")
			tr.sick.env = append(tr.sick.env, "NCCL_CONF_FILE="+tr.sick.file("nccl.conf"))
		}, want: []string{"env.ifname.nccl"}},
		{name: "MASTER_ADDR is localhost", shared: true, inject: func(tr *trial) {
			tr.each(func(h *host) {
				h.env = append(h.env, "MASTER_ADDR=localhost")
				h.wrap = []string{"sh", "-c", `launch=$1; shift 3; exec "$launch" "$@"`, "sh"} // without --store host0
			})
		}, want: []string{"78 MASTER_ADDR"}},
	}
	for i := range all {
		all[i].group, all[i].real = "env", "all is real"
	}
	return all
}

// overlayEtc adds the files of the host's etc to /etc, where ip-netns(8) can only
// replace existing files.
func (h *host) overlayEtc() {
	h.Prepare = append(h.Prepare,
		`cp /etc/hosts /etc/resolv.conf "$0/etc"`, `mkdir -p "$0/etc.work"`,
		`mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/etc.work" overlay /etc`)
}
