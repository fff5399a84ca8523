package logs

const driDo = "give the container the GPUs' device files with their names: docker --device /dev/dri " +
	"-v /dev/dri/by-path:/dev/dri/by-path (Kubernetes: a hostPath), and the group render. With --cap-add " +
	"SYS_PTRACE oneCCL " +
	"takes pidfd, which needs no such files"

var driNeed = []string{"ls -l /dev/dri /dev/dri/by-path and id, as the job sees them"}

// onecclCauses are errors of Intel's oneCCL, and of memory that GPUs share by file descriptors.
var onecclCauses = []cause{
	{
		id: "log.oneccl", grade: family, words: []string{"ze_ipc_exchange", "CCL_ZE_IPC_EXCHANGE"},
		form: re(`condition .*ze_ipc_exchange.* failed|set CCL_ZE_IPC_EXCHANGE=\w+`),
		not:  []string{"CCL_WARN", "CCL_INFO"},
		says: "oneCCL of {who} gets no local rank from a launcher, which its exchange of the GPUs' memory handles needs",
		do: "set CCL_ZE_IPC_EXCHANGE=sockets for all ranks; or start with mpirun, or set CCL_LOCAL_RANK and " +
			"CCL_LOCAL_SIZE (with CCL_PROCESS_LAUNCHER=none)",
		need: []string{"env | grep CCL_ of a rank"},
		from: "oneCCL global.cpp",
	}, {
		id: "log.oneccl", grade: family, words: []string{"could not open device directory"},
		form: re(`opendir failed: could not open device directory`),
		says: "oneCCL of {who} cannot read /dev/dri/by-path, which the container lacks",
		do:   driDo, need: driNeed, from: "oneCCL ze_fd_manager.cpp",
	}, {
		id: "log.oneccl", grade: family, words: []string{"ze_fd_manager.cpp"},
		form: re(`ze_fd_manager\.cpp:\d+ (?:fill_device_fds|init_device_fds): (?:EXCEPTION: |condition )?(?:.*open failed: ` +
			`.*errno: (?P<why>\w.*)|fds\[|device names are empty)`),
		later: []string{"open failed: fd: "},
		more:  re(`open failed: fd: -?\d+, errno: (?P<why>\w.*)`),
		says: "oneCCL of {who} cannot open the device files of the GPUs that /dev/dri/by-path names[ ({why})]: the " +
			"container lacks them, or the user has no right to them",
		do: driDo, need: driNeed, from: "oneCCL ze_fd_manager.cpp",
	}, {
		id: "log.gpu-ipc", grade: family, words: []string{"pidfd_getfd: ", "pidfd_getfd failed: ", "pidfd_open: "},
		form: re(`pidfd_(?:getfd|open)(?::| failed:).*?(?P<why>Operation not permitted|Permission denied|Function not ` +
			`implemented|No such process|Bad file descriptor)`),
		not: []string{"CCL_WARN", "CCL_INFO", "CCL_DEBUG", " WARN", "[WARN", "WARNING", "arning: ", "[W]", " INFO ",
			"fallback", "all back", "alling back", "alls back"},
		says: "{who} may not take over a file descriptor of another process (pidfd_getfd: {why}), by which GPU memory " +
			"is shared between the ranks of a host",
		do: "start the container with --cap-add SYS_PTRACE, and all ranks of a host in one, or with --pid=host (where " +
			"seccomp " +
			"forbids the call: --security-opt seccomp=unconfined); without a container: sysctl kernel.yama.ptrace_scope=0. " +
			"torch goes without it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False. oneCCL: CCL_ZE_IPC_EXCHANGE=sockets",
		need: []string{"capsh --print and sysctl kernel.yama.ptrace_scope in the container",
			"are the ranks of one host in one container"},
		from: "torch CUDACachingAllocator.cpp, pidfd_getfd(2)",
	}, {
		id: "log.oneccl", grade: open, words: []string{"|CCL_ERROR|"},
		form: opt(`\|CCL_ERROR\| (?P<why>.*)`),
		says: "oneCCL of {who} reports an error: {why}",
		need: []string{"a run with CCL_LOG_LEVEL=info", "CCL_WORKER_AFFINITY and the CPUs that the process may use"},
	},
}
