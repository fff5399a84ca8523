package logs

// facts are lines that some causes need.
var facts = []cause{
	{id: "nccl.version", grade: fact, words: []string{
		"NCCL version "}, form: re(`NCCL version (?P<v>\d+\.\d+\.\d+)`),
	},
	{id: "nccl.cuda", grade: fact, words: []string{
		"NCCL version "}, form: re(`NCCL version (?P<v>[\d.]+\+cuda[\d.]+)`),
	},
	{id: "nccl.ifname", grade: fact, words: []string{"NCCL_SOCKET_IFNAME set "},
		form: re(`NCCL_SOCKET_IFNAME set (?:by environment )?to (?P<v>\S+)`)},
	{id: "nccl.loopback", grade: fact, words: []string{"Using interface lo:127", "Bootstrap : Using lo:127",
		"Bootstrap: Using lo:127", "[0]lo:127"}, form: re(`(?P<v>lo:127[\d.]+)`)},
	{id: "nccl.host-only", grade: fact, words: []string{" : Using [0]", ": Using [0]"},
		form: re(`Using (?P<v>\[0\].*\[\d+\]` + hostOnly + `[\w.-]*:|\[0\]` + hostOnly + `[\w.-]*:\S+ \[1\])`)},
	{id: "nccl.link-local", grade: fact, words: []string{":fe80:"},
		form: re(`Bootstrap ?: Using (?:\[0\])?(?P<v>[\w.-]+):fe80:`)},
	{id: "rdma.gid-change", grade: fact, words: []string{"GID table change"}, form: re(`(?P<v>GID table change)`)},
	{id: "mpi.tcp", grade: fact, words: []string{"failed to TCP connect", "lost communication with a remote daemon"},
		form: re(`(?P<v>TCP connect|remote daemon)`)},
	{id: "mpi.program", grade: fact, words: []string{"unable to find the specified executable",
		"could not find an executable", "unable to launch the specified application"}, form: re(`(?P<v>unable|could not)`)},
	{id: "mpi.cuda-note", grade: fact, words: []string{"open the following supporting CUDA libraries"},
		form: re(`(?P<v>supporting CUDA)`)},
	{id: "nccl.shm-cuda", grade: fact, words: []string{"shmutils.cc"}, form: re(`WARN (?P<v>Cuda failure)`)},
	{id: "ray.client", grade: fact, words: []string{"ray://"}, form: re(`ray://[\w.-]+:(?P<v>\d+)`),
		test: func(v map[string]string) bool { return v["v"] != "10001" }},
	{id: "nccl.last-error", grade: fact, words: []string{"Last error:"}, form: re(`(?P<v>Last error)`)},
	{id: "gloo.loopback", grade: fact, words: []string{"Using the loopback address as fallback"},
		form: re(`(?P<v>loopback)`)},
}
