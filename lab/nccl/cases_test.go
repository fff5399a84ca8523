package nccl

import (
	"os"

	"launch/lab/netns"
)

// one is a start of two hosts. NCCL itself says by the plain start whether it does harm.
type one struct {
	name   string
	both   []string // variables of both hosts
	odd    []string // and of host1
	per    int      // ranks a host, 1 if zero
	before func(hosts []*netns.Host)
}

// of sets one variable on host1.
func of(name, variable string) one { return one{name: name, odd: []string{variable}} }

// everywhere sets one on both hosts.
func everywhere(name, variable string) one { return one{name: name, both: []string{variable}} }

// prepared runs a shell command in host1's mount namespace before the job.
func prepared(name, command string) one {
	return one{name: name, before: func(h []*netns.Host) { h[1].Prepare = append(h[1].Prepare, command) }}
}

func all() []one {
	syn := "tcp flags & (syn | ack) == syn drop"
	return []one{
		{name: "healthy"},
		of("no such interface", "NCCL_SOCKET_IFNAME=docker9"),
		of("interface =eth", "NCCL_SOCKET_IFNAME==eth"),
		of("loopback here", "NCCL_SOCKET_IFNAME=lo"),
		everywhere("loopback", "NCCL_SOCKET_IFNAME=lo"),
		everywhere("all but eth", "NCCL_SOCKET_IFNAME=^eth"),
		everywhere("all but docker", "NCCL_SOCKET_IFNAME=^docker"),
		of("IB without HCA", "NCCL_NET=IB"),
		of("net of no name", "NCCL_NET=nosuch"),
		of("plugin is missing", "NCCL_NET_PLUGIN=nosuch"),
		everywhere("plugin is missing on both", "NCCL_NET_PLUGIN=nosuch"),
		of("no such GPU", "CUDA_VISIBLE_DEVICES=5"),
		of("no GPU", "CUDA_VISIBLE_DEVICES="),
		of("no such uuid", "CUDA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-000000000000"),
		of("GPU twice", "CUDA_VISIBLE_DEVICES=0,0"),
		{name: "two ranks for one GPU", per: 2},
		everywhere("algorithm of no name", "NCCL_ALGO=Rings"),
		everywhere("protocol of no name", "NCCL_PROTO=LL256"),
		everywhere("debug file in no folder", "NCCL_DEBUG_FILE=/nosuch/log"),
		{name: "debug in no folder", both: []string{"NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=/nosuch/log"}},
		of("topology is missing", "NCCL_TOPO_FILE=/nosuch.xml"),
		of("graph is missing", "NCCL_GRAPH_FILE=/nosuch.xml"),
		everywhere("one host id", "NCCL_HOSTID=same"),
		{name: "host ids", both: []string{"NCCL_HOSTID=a"}, odd: []string{"NCCL_HOSTID=b"}},
		prepared("GPU node is closed", "mount --bind /dev/null /dev/nvidia0"),
		prepared("uvm node is closed", "mount --bind /dev/null /dev/nvidia-uvm"),
		prepared("control node is closed", "mount --bind /dev/null /dev/nvidiactl"),
		prepared("shm of 64k", "mount -t tmpfs -o size=64k tmpfs /dev/shm"),
		prepared("nofile 64", "ulimit -n 64"),
		prepared("memlock 64", "ulimit -l 64"),
		prepared("read-only tmp", "mount --bind -o ro /usr /tmp"),
		everywhere("IPv6 only", "NCCL_SOCKET_FAMILY=AF_INET6"),
		everywhere("root given by hand", "NCCL_COMM_ID=10.77.0.1:29611"),
		of("algorithm differs", "NCCL_ALGO=Tree"),
		of("ring here", "NCCL_ALGO=Ring"),
		of("protocol differs", "NCCL_PROTO=LL"),
		of("channels differ", "NCCL_MIN_NCHANNELS=8"),
		of("most channels differ", "NCCL_MAX_NCHANNELS=1"),
		of("buffers differ", "NCCL_BUFFSIZE=1048576"),
		of("sockets differ", "NCCL_NSOCKS_PERTHREAD=4"),
		of("threads differ", "NCCL_NTHREADS=128"),
		of("cuMem differs", "NCCL_CUMEM_ENABLE=0"),
		of("IB off here", "NCCL_IB_DISABLE=1"),
		of("P2P off here", "NCCL_P2P_DISABLE=1"),
		of("shm off here", "NCCL_SHM_DISABLE=1"),
		of("runtime connect differs", "NCCL_RUNTIME_CONNECT=0"),
		of("RAS off here", "NCCL_RAS_ENABLE=0"),
		of("cross NIC differs", "NCCL_CROSS_NIC=1"),
		of("launch order differs", "NCCL_LAUNCH_ORDER_IMPLICIT=1"),
		of("family differs", "NCCL_SOCKET_FAMILY=AF_INET6"),
		of("debug differs", "NCCL_DEBUG=INFO"),
		of("chunk size differs", "NCCL_P2P_NET_CHUNKSIZE=65536"),
		of("topology dump", "NCCL_TOPO_DUMP_FILE=/nosuch/x"),
		everywhere("tuner is missing", "NCCL_TUNER_PLUGIN=nosuch"),
		everywhere("profiler is missing", "NCCL_PROFILER_PLUGIN=nosuch"),
		everywhere("no launch mode", "NCCL_LAUNCH_MODE=nosuch"),
		everywhere("blocking launches", "CUDA_LAUNCH_BLOCKING=1"),
		of("CUDA order", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
		of("RAS address is taken", "NCCL_RAS_ADDR=192.0.2.1:28028"),
		everywhere("blocking wait", "TORCH_NCCL_BLOCKING_WAIT=1"),
		{name: "ports dropped", before: func(h []*netns.Host) {
			h[1].Filter("input", "iifname eth0 tcp dport 32768-60999 "+syn)
		}},
		{name: "ports dropped on rank 0's host", before: func(h []*netns.Host) {
			h[0].Filter("input", "iifname eth0 tcp dport 32768-60999 "+syn)
		}},
		{name: "ports refused", before: func(h []*netns.Host) {
			h[1].Filter("input", "iifname eth0 tcp dport 32768-60999 reject with tcp reset")
		}},
		{name: "long packets vanish", before: func(h []*netns.Host) {
			for _, x := range h {
				x.Run("", "ip", "link", "set", "eth0", "gso_max_segs", "1")
			}
			h[1].Filter("input", "iifname eth0 meta length > 1000 drop")
		}},
		{name: "a network of no one", before: func(h []*netns.Host) {
			for _, x := range h {
				x.Decoy("ens9", "10.99.0.1/24")
			}
		}},
		{name: "a network with one address for all", before: func(h []*netns.Host) {
			for _, x := range h {
				x.NIC("eth1", "192.168.50.1/24")
			}
		}},
		{name: "networks of their own", before: func(h []*netns.Host) {
			h[0].Decoy("ens9", "10.98.0.1/24")
			h[1].Decoy("ens9", "10.99.0.1/24")
		}},
		{name: "virbr0", before: func(h []*netns.Host) {
			for _, x := range h {
				x.Decoy("virbr0", "192.168.122.1/24")
			}
		}},
		{name: "a network of host1", before: func(h []*netns.Host) { h[1].Decoy("ens9", "10.99.0.1/24") }},
	}
}

// record is the folder that keeps what the starts print.
var record = os.Getenv("LAUNCH_NCCL_RECORD")
