package logs

// semaphores is ENOSPC in the middle of Python's multiprocessing, which makes its locks in /dev/shm.
var semaphores = cause{
	id: "log.shm-too-small", grade: family,
	says: "{who} cannot make a semaphore: /dev/shm is full on {where}, or too small; disks may have room",
	do:   "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
	need: []string{"df -h /dev/shm and df -i /dev/shm in the container while the job runs"},
	from: "CPython multiprocessing/synchronize.py",
}

const (
	insufficient = `(?:nodes are available: (?P<why>.*?)(?:\.? preemption:.*|\.?\s*)$|` +
		`Insufficient (?P<what>[a-z0-9]+(?:[./-][\w-]+)*))`
	insufficientSays = "Kubernetes has no node with enough free resources for a pod[: {what}][: {why}]"
	insufficientDo   = "kubectl describe node shows what is allocatable and in use; where no node lists it, the device " +
		"plugin does not run. Of the other reasons: unschedulable is a node that was cordoned (kubectl uncordon NODE), a " +
		"taint needs a toleration of the pod, affinity or selector a label of the node"
)

// notDisk are words of lines about a lack of space elsewhere than on a disk.
var notDisk = []string{"shared memory", "/dev/shm", "posix_fallocate", "torch_", "joblib will", "inotify"}

// hostCauses are errors of Slurm, Kubernetes and the host.
var hostCauses = []cause{
	{
		id: "log.host-oom", grade: decisive,
		words: []string{
			"OOMKilled",
			"oom-kill event",
			"oom_kill event",
			"Out of memory: Killed process",
			"Out of memory: Kill process",
			"Memory cgroup out of memory",
			"Out Of Memory",
			"OOM Killed",
			"exceeded memory limit",
		},
		form: opt(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)`),
		not:  []string{"CUDA", "GPU"},
		says: "the kernel killed a process[ of {of}] on {where}, since the host or the container ran out of memory",
		do:   "give the job more memory (--mem, limits.memory), or use fewer DataLoader workers and less pinned memory",
	}, {
		id: "log.host-oom", grade: family, words: []string{"DefaultCPUAllocator: ", "MemoryError: Unable to allocate "},
		form: re(`you tried to allocate (?P<size>\d+ bytes)|MemoryError: Unable to allocate (?P<size>[\d.]+ ?\w+)`),
		says: "{who} gets no more memory of the host: it asks for {size} at once",
		do: "a size that is too large for the host is an error of the program or its data; else give the job more " +
			"memory, or start fewer processes and DataLoader workers on the host; ulimit -v must say unlimited",
		need: []string{"free -g of that node, the memory limit of the job or container, and ulimit -v"},
		from: "torch c10/core/CPUAllocator, numpy",
	}, {
		id: "log.host-oom", grade: family, words: []string{"std::bad_alloc"},
		form: re(`instance of 'std::bad_alloc'`), // what() has it for other kinds, also of a GPU
		says: "{who} gets no more memory of the host (std::bad_alloc)",
		do: "give the job more memory, or start fewer processes and DataLoader workers on the host; ulimit -v must say " +
			"unlimited",
		need: []string{"free -g of that node, the memory limit of the job or container, and ulimit -v"},
		from: "C++ operator new",
	}, {
		id: "log.host-oom", grade: decisive, words: []string{"init was OOM-killed"},
		says: "the memory limit of a container is too low even to start it: its first process was killed on {where}",
		do:   "raise the limit of that container (limits.memory; the unit may be missing: 512 are bytes, 512Mi not)",
		from: "runc",
	}, {
		id: "log.shm-too-small", grade: family, soft: true, words: []string{"joblib will operate in serial mode"},
		form: re(`No space left`),
		says: semaphores.says, do: semaphores.do, need: semaphores.need,
	}, {
		id: "log.disk-full", grade: decisive, words: []string{"Disk quota exceeded", "disk quota exceeded"},
		says: "{who} may write no more: the quota of the user, the group or the folder is used up; the disk may have room",
		do: "quota -s, or lfs quota -h -u $USER DIR, shows it, also the number of files; free space, write elsewhere, or " +
			"ask for more",
		from: "Linux EDQUOT",
	}, {
		id: "log.inotify", grade: family, soft: true,
		words: []string{"inotify watch limit reached", "inotify_add_watch", "inotify_init", "inotify instance",
			"inotify watches"},
		form: re(`limit|No space left|Too many open files`),
		not:  []string{"vfs_fuse.c"}, // UCX goes on without it
		says: "{who} may watch no more files: a limit of inotify on {where} is reached; disks may have room",
		do:   "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl) on that node",
		need: []string{"sysctl fs.inotify of that node"},
		from: "inotify(7)",
	}, {
		id: "log.disk-full", grade: decisive, words: []string{"No space left on device"},
		form: re(`(?:^|[\s'"=(])/[\w.+-]+(?:/|['":]).*No space left|No space left on device:? ['"(]?/|` +
			`[Ww]rite (?:failed|error)|[Ee]rror writing|annot (?:write|create)`),
		not:  notDisk,
		says: "a disk of {where} is full",
		do:   "free space, or write elsewhere: df -h on that node",
	}, {
		id: "log.shm-too-small", grade: family, with: "shm.writer", words: []string{"No space left on device"}, not: notDisk,
		says: "/dev/shm is full on {where}, or too small: {who} passes data between processes there[ ({fact})]; disks may " +
			"have room",
		do:   semaphores.do + ", or let the library write to a disk (pandarallel use_memory_fs=False, JOBLIB_TEMP_FOLDER)",
		need: semaphores.need,
	}, {
		id: "log.disk-full", grade: family, words: []string{"No space left on device"}, not: notDisk,
		says: "a disk of {where} is full, or /dev/shm: the line of {who} names no file",
		do:   "df -h on that node, also of /dev/shm and TMPDIR: free space, raise /dev/shm, or write elsewhere",
		need: []string{"df -h and df -i on that node, in the job's container", "which file the program writes at this point"},
	}, {
		id: "log.file-permission", grade: family, words: []string{"PermissionError: [Errno 13] Permission denied: '"},
		form: re(`Permission denied: '(?P<file>/[^']*)'`),
		says: "{who} may not use {file}: it runs as a user that has no right there",
		do: "run as another user (docker --user, runAsUser, fsGroup), or write elsewhere: HOME, TMPDIR, HF_HOME, " +
			"TORCH_HOME and the working folder",
		need: []string{"id, and ls -ld of {file} and the folders above, as the job sees them"},
		from: "Linux EACCES",
	}, {
		id: "log.file-permission", grade: family, soft: true, quiet: true, words: []string{"mkdir: cannot create " +
			"directory "},
		form: re(`mkdir: cannot create directory ['\x60‘](?P<file>[^'’]+)['’]: ` +
			`(?P<why>Permission denied|Read-only file system|Operation not permitted)`),
		says: "{who} cannot make the folder {file} ({why})",
		do: "have a folder made there that this user may write, or name another: for enroot ENROOT_RUNTIME_PATH, " +
			"ENROOT_CACHE_PATH, ENROOT_DATA_PATH and ENROOT_TEMP_PATH in enroot.conf, each with the user's id; else " +
			"TMPDIR or HOME",
		need: []string{"id, and ls -ld of {file} and the folders above, as the job sees them"},
		from: "coreutils mkdir, Linux EACCES",
	}, {
		id: "log.disk-full", grade: family, soft: true, quiet: true, words: []string{"% full, available space"},
		form: re(`(?P<dir>/\S+) is over (?P<part>[\d.]+%) full`),
		says: "the disk below {dir} of {where} is over {part} full, and Ray makes no more objects there",
		do:   "free space, or move Ray's folder: ray start --temp-dir=DIR; local_fs_capacity_threshold is the limit",
		need: []string{"df -h of that folder on that node"},
		from: "ray file_system_monitor.cc",
	}, {
		id: "log.no-gpu-slots", grade: decisive, soft: true,
		words: []string{"Insufficient cpu", "Insufficient memory"},
		form:  opt(insufficient), says: insufficientSays, do: insufficientDo,
	}, {
		id: "log.no-gpu-slots", grade: decisive, soft: true, but: "k8s.plugin-fails",
		words: []string{"Insufficient nvidia.com/", "Insufficient amd.com/", "Insufficient rdma/",
			"Insufficient vpc.amazonaws.com/", "Insufficient habana.ai/", "Insufficient huawei.com/",
			"Insufficient google.com/", "Insufficient gpu.intel.com/", "Insufficient aws.amazon.com/"},
		form: opt(insufficient), says: insufficientSays, do: insufficientDo,
	}, {
		id: "log.image-pull", grade: decisive, soft: true,
		words: []string{"ErrImagePull", "ImagePullBackOff", "Failed to pull image"},
		says:  "a node cannot pull the image of {who}",
		do: "check the image's name (for pyxis a file begins with / or ./), the pull secret or credentials, and the " +
			"folders of enroot",
	}, {
		id: "log.slurm-time", grade: decisive, words: []string{"DUE TO TIME LIMIT", "DUE to TIME LIMIT"},
		says: "Slurm ended the job at its time limit",
		do:   "ask for more time (--time)",
	}, {
		id: "log.slurm-node", grade: decisive, words: []string{"DUE TO NODE FAILURE", "NODE FAILURE", "Node failure on "},
		form: re(`NODE FAILURE|Node failure on (?P<node>[\w.-]+)`),
		says: "Slurm ended the job, since a node failed",
		do:   "look at sinfo -R and leave that node out (--exclude)",
	}, {
		id: "log.slurm-cancelled", grade: ended, words: []string{"*** JOB", "*** STEP", "CANCELLED AT"},
		form: re(`CANCELLED`),
		says: "Slurm cancelled the job",
		need: []string{"who cancelled it: sacct -j JOB --format=State,ExitCode,Comment"},
	}, {
		id: "log.command-missing", grade: open, soft: true, words: []string{": command not found", ": not found"},
		form: re(`(?:^|[\s:/])(?:ba|z|da|k|a)?sh: (?:line \d+: |\d+: )?(?P<tool>[\w./-]+): (?:command )?not found|` +
			`(?:^|\s)\S+: line \d+: (?P<tool>[\w./-]+): command not found|zsh: command not found: (?P<tool>\S+)`),
		says: "the shell of {who} does not find {tool}",
		need: []string{"PATH there, as a shell without login sees it: ssh HOST env"},
	}, {
		id: "log.k8s-api", grade: open, words: []string{"dial tcp ", "Unable to connect to the server: "},
		form: re(`dial tcp \S+ (?P<why>.*)|connect to the server: (?P<why>.*)`),
		not:  []string{"retry", "seen ", " probe failed: "},
		says: "{who} cannot connect: {why}",
		need: []string{"does the pod have a sidecar (Istio) that starts later", "the network policies of the namespace"},
	}, {
		id: "log.name-lookup", grade: open, words: []string{"*** Can't find "},
		says: "a look-up of a name failed on {where}, which may be the tool's fault",
		need: []string{"the same look-up by getent hosts in another image"},
	},
}
