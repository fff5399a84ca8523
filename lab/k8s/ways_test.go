package k8s

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// way is how the pods of a Job start torchrun.
type way struct {
	name   string // as LAUNCH_K8S_WAYS has it
	title  string
	change func(l *lab, name string, n int) change
	each   time.Duration // what it waits for on purpose, for each pod
}

// bound is how long a start of n pods may take.
func (w way) bound(n int) time.Duration {
	return 2*time.Minute + time.Duration(n)*(w.each+5*time.Second)
}

// ways are launch, and what people do without it.
func ways() (all []way) {
	static := "torchrun --nnodes=%d --nproc_per_node=1 --max_restarts=10 --node_rank=$JOB_COMPLETION_INDEX " +
		"--master_addr=%s-0.%[2]s"
	for _, w := range []way{
		{"launch", "launch torchrun", func(*lab, string, int) change { return nil }, 0},
		{"c10d", "torchrun, c10d", func(l *lab, name string, n int) change {
			return l.shell(name, fmt.Sprintf("torchrun --nnodes=%d --nproc_per_node=1 --max_restarts=10 --rdzv_id=%s "+
				"--rdzv_backend=c10d --rdzv_endpoint=%[2]s-0.%[2]s:29400", n, name))
		}, 0},
		{"nslookup", "nslookup, torchrun", func(l *lab, name string, n int) change {
			start := l.shell(name, fmt.Sprintf(static, n, name))
			return func(w work) {
				start(w)
				at(w.job, "spec", "template", "spec")["initContainers"] = []any{object{
					"name": "wait", "image": "k8slab/busybox:1", "imagePullPolicy": "Never", "command": []any{"sh", "-c",
						fmt.Sprintf("until nslookup %s-0.%[1]s.default.svc.cluster.local; do sleep 2; done", name)},
				}}
			}
		}, 0},
		{"sleep", "sleep, torchrun", func(l *lab, name string, n int) change {
			return l.shell(name, "sleep $((JOB_COMPLETION_INDEX*30+30)); "+fmt.Sprintf(static, n, name))
		}, 30 * time.Second},
	} {
		if only := strings.Fields(os.Getenv("LAUNCH_K8S_WAYS")); len(only) == 0 || slices.Contains(only, w.name) {
			all = append(all, w)
		}
	}
	return all
}

// shell starts the script by a shell's line in the place of launch.
func (l *lab) shell(name, line string) change {
	return func(w work) {
		script := l.root + "/lab/k8s/testdata/step.py " + l.out + "/" + name
		w.container["command"], w.container["args"] = []any{"sh", "-c", "exec 2>&1; " + line + " " + script}, []any{}
		delete(at(w.job, "spec"), "podFailurePolicy") // its statuses are launch's
	}
}
