package logs

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
)

var (
	// eventForm is a line of Kubernetes' events: of kubectl get events, which names its object, or of kubectl describe.
	eventForm = re(`^ *(?:[a-z][\w-]* +)?(?:(?P<age>\S+)(?: \(x\d+ over \S+\))? +)??(?:Normal|Warning) +[A-Z]\w+ +` +
		`(?:(?P<kind>[A-Za-z]+)/(?P<name>[a-z0-9][\w.-]*) )?`)
	// placedForm is how the scheduler reports where a pod runs.
	placedForm = re(`Successfully assigned (?:[\w.-]+/)?(?P<pod>[a-z0-9][\w.-]*) to (?P<node>[a-z0-9][\w.-]*)`)
	// nameForm begins the description of an object.
	nameForm = re(`^Name: {2,}(?P<name>[a-z0-9][\w.-]*)\s*$`)
)

// wordName is in lines of nameForm.
const wordName = "Name:  "

// ofPod gives a line of Kubernetes' events to the stream of its object, since what another one reaches does not count
// for it.
func (f *follower) ofPod(p *prefix) {
	const head = 160
	body := p.body[:min(len(p.body), head)]
	if !bytes.Contains(body, []byte("Normal ")) && !bytes.Contains(body, []byte("Warning ")) {
		return
	}
	m := eventForm().FindSubmatch(body)
	if m == nil {
		return
	}
	if bytes.Contains(p.body, []byte("Successfully assigned ")) {
		if a := placedForm().FindSubmatch(p.body); a != nil && len(f.placed) < maxStreams {
			f.assigned = string(a[1])
			f.placed[f.assigned] = string(a[2])
		}
	}
	name := cmp.Or(string(m[3]), f.described)
	switch kind := strings.ToLower(string(m[2])); {
	case kind == "node":
		p.node = name
	case kind == "pod", name == f.described: // which may be empty: the events of one pod without its name
		p.pod = cmp.Or(name, f.assigned)
	}
	if p.age = age(string(m[1])); bytes.Contains(body, []byte("Warning ")) {
		f.eventOf, f.eventAt = p.pod, f.lines
	}
	if name != "" {
		p.object = true
		p.take(0, []byte(name))
	}
}

// ofEvent notes the pod of an event of Kubernetes, or of the next lines of its message about a container.
func (f *follower) ofEvent(e *event, p *prefix) {
	const near = 4
	pod := p.pod
	if pod == "" && p.label == nil && f.lines-f.eventAt <= near && bytes.Contains(p.body, []byte("container")) {
		pod = f.eventOf
	}
	if pod != "" && e.vals["pod"] == "" {
		e.set("pod", pod)
	}
	e.age = p.age
}

// placePods gives the events of pods the nodes on which these run, and puts those of which kubectl shows the age
// into the order of their ages: it does not sort them.
func (f *follower) placePods() {
	byFile := map[int][]*event{}
	for _, e := range f.events {
		if pod := e.vals["pod"]; pod != "" && (e.node == "" || e.node == pod) {
			e.node = f.placed[pod]
		}
		if e.age > 0 {
			byFile[e.file] = append(byFile[e.file], e)
		}
	}
	for _, all := range byFile {
		slices.SortFunc(all, func(a, b *event) int { return cmp.Compare(a.order, b.order) })
		orders := finding.Map(all, func(e *event) int64 { return e.order })
		slices.SortStableFunc(all, func(a, b *event) int { return cmp.Compare(b.age, a.age) })
		for i, e := range all {
			e.order = orders[i]
		}
	}
}

// age returns what kubectl writes as 45s, 3m10s, 5h or 2d4h; 0: it is none.
func age(s string) time.Duration {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		days, rest = "0", s
	}
	d, err := time.ParseDuration(cmp.Or(rest, "0s"))
	if n := number(days); err == nil && n >= 0 {
		return d + time.Duration(n)*24*time.Hour
	}
	return 0
}

// describes notes the object to which the next lines belong.
func (f *follower) describes(body []byte) {
	if m := nameForm().FindSubmatch(body); m != nil {
		f.described = string(m[1])
	}
}

// A row of kubectl get pods: before, and after its column STATUS.
const (
	podRow  = `^(?:[a-z0-9-]+ +)?(?P<pod>[a-z0-9][\w.-]*) +\d+/\d+ +(?:Init:)?`
	podNode = ` +\d+(?: \([^)]*\))? +\S+(?: +(?:<none>|[\da-f.:]+) +(?P<node>[a-z0-9][\w.-]*))?`
)

// podCauses are states of pods, as kubectl shows them: in a table, or why a container waits to start.
var podCauses = []cause{
	{
		id: "log.k8s-volume", grade: decisive, soft: true, words: []string{"persistentvolumeclaim \""},
		form: re(`persistentvolumeclaim "(?P<volume>[\w.-]+)" (?P<why>not found|is being deleted|bound to non-existent.*)`),
		says: "no pod can start that asks for the volume claim {volume}: {why}",
		do: "kubectl get pvc in the pod's namespace: create the claim {volume} there, or correct its name in the pod " +
			"(volumes: persistentVolumeClaim.claimName)",
		from: "kubernetes scheduler volumebinding",
	}, {
		id: "log.container-start", grade: decisive, soft: true, words: []string{"secret \"", "configmap \"",
			"serviceaccount \"", "priorityclass \"", "runtimeclass \"", "resourceclaim \""},
		form: re(`(?i)(?P<kind>secret|configmap|serviceaccount|priorityclass|runtimeclass|resourceclaim) ` +
			`"(?P<name>[\w./-]+)" not found`),
		not:  []string{"MountVolume"},
		says: "a pod asks for the {kind} {name}, which does not exist in its namespace",
		do:   "create it there, or correct its name in the pod: kubectl get {kind} -n NAMESPACE",
		from: "kubernetes kubelet, scheduler",
	}, {
		id: "log.k8s-unschedulable", grade: open, soft: true, words: []string{"nodes are available: "},
		form: re(`\d+/\d+ nodes are available: (?P<why>.*)`),
		says: "Kubernetes has no node for a pod: {why}",
		need: []string{"kubectl describe pod: what it asks for", "kubectl describe nodes: labels, taints, what is in use"},
		from: "kubernetes scheduler",
	}, {
		id: "log.k8s-lost", grade: family, soft: true, words: []string{"NodeNotReady", "TaintManagerEviction"},
		form: re(`NodeNotReady\s.*\sNode is not ready|TaintManagerEviction\s.*\sMarking for deletion `),
		says: "{where}, where the pod[ {pod}] ran, no longer answers Kubernetes (NodeNotReady): it failed, lost its " +
			"network, or its kubelet ended; the pod is lost with it",
		do: "leave that node out (kubectl cordon), and look at its conditions (kubectl describe node) and its console; the " +
			"job needs another node, or this one back",
		need: []string{"kubectl describe node: the first condition that changed", "the events of the cloud for that machine"},
		from: "kubernetes node lifecycle controller",
	}, {
		id: "log.k8s-lost", grade: maybe, soft: true, words: []string{"status is now: NodeNotReady"},
		form: re(`Node (?P<node>[\w.-]+) status is now: NodeNotReady`),
		says: "Kubernetes reports that {where} no longer answers (NodeNotReady)",
		need: []string{"did a pod of the job run there: kubectl get pods -o wide", "kubectl describe node: its conditions"},
		from: "kubernetes node lifecycle controller",
	}, {
		id: "log.k8s-probe", grade: open, soft: true, words: []string{" probe failed: "},
		form: re(`(?P<kind>Startup|Readiness|Liveness) probe failed: (?P<why>.+)`),
		says: "the {kind} probe of a pod[, {pod},] fails: {why}",
		need: []string{"kubectl logs {pod}: what it does, and does it listen at that port",
			"where it only needs longer to start: a startupProbe with a higher failureThreshold"},
		from: "kubernetes prober.go",
	}, {
		id: "log.k8s-evicted", grade: decisive, words: []string{"node had condition: [", "low on resource: ephemeral-"},
		form: re(`condition: \[(?P<what>DiskPressure)\]|on resource: (?P<what>ephemeral-storage)`),
		says: "Kubernetes has removed a pod[, {pod},] of the job from {where}, whose disk was full ({what})",
		do: "free that disk (images, logs, folders of pods: kubectl describe node, df -h there), and let the pod write to " +
			"a volume, or ask for ephemeral-storage, so that it is placed on a node with room",
		from: "kubernetes kubelet eviction",
	}, {
		id: "log.k8s-sandbox", grade: decisive, soft: true, words: []string{"no runtime for \"", "find runtime handler "},
		form: re(`no runtime for "(?P<name>[\w.-]+)" is configured|to find runtime handler (?P<name>[\w.-]+)`),
		says: "the container engine of {where} has no runtime {name}, for which a pod asks (runtimeClassName)",
		do: "on that node: nvidia-ctk runtime configure --runtime=containerd (or crio) for the runtime nvidia, and restart " +
			"the engine; with the GPU operator look at its pods of that node (nvidia-container-toolkit)",
		from: "containerd, cri-o, NVIDIA/nvidia-container-toolkit",
	}, {
		id: "log.no-gpu-slots", grade: decisive, words: []string{"no-gpu-has-"},
		form: re(`no-gpu-has-(?P<size>\d+\w*)-to-run`),
		says: "the device plugin that shares GPUs found no GPU of {where} with {size} of memory free for a container, and " +
			"gives that as the name of a device",
		do: "compare what the pod asks for with what is free (kubectl inspect gpushare, kubectl describe node); the pod " +
			"must be placed by the scheduler that belongs to the plugin (its extender): look at its output",
		from: "AliyunContainerService/gpushare-device-plugin",
	}, {
		id: "log.k8s-evicted", grade: family, soft: true, words: []string{" Evicted"},
		form: re(podRow + `Evicted` + podNode + `|^\s*[Rr]eason: +Evicted`),
		says: "Kubernetes has removed a pod[, {pod},] from {where}",
		do:   "kubectl describe pod says which resource: raise its request, or give the pod a higher priority",
		need: []string{"kubectl describe pod {pod}: its message", "kubectl describe node: its conditions and events"},
	}, {
		id: "log.image-pull", grade: decisive,
		words: []string{"InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
			"trying and failing to pull image", "waiting to start: image can't be pulled"},
		form: opt(`in pod "(?P<pod>[\w.-]+)"|` + podRow),
		says: "a node cannot pull the image of a pod[, {pod}]",
		do:   "kubectl describe pod has the reason: the image's name, the pull secret, or the way to the registry",
		from: "kubernetes kubelet_pods.go",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"CreateContainerConfigError"},
		form: opt(`in pod "(?P<pod>[\w.-]+)"|` + podRow),
		says: "Kubernetes cannot make a container of a pod[, {pod}]: its settings name something that is missing",
		do: "kubectl describe pod names it: a ConfigMap, a Secret, a key of them, or a user for an image that runs " +
			"as root",
		from: "kubernetes kuberuntime_container.go",
	}, {
		id: "log.container-start", grade: decisive, wraps: true, words: []string{"StartError", "ContainerCannotRun"},
		form: re(podRow + `(?:StartError|ContainerCannotRun) |^\s*[Rr]eason: +(?:StartError|ContainerCannotRun)`),
		says: "the container engine cannot start a container of a pod[, {pod}]",
		do:   "kubectl describe pod has the reason: a program that the image lacks, a mount, or a device",
	}, {
		id: "log.no-gpu-slots", grade: decisive, words: []string{" OutOf", "UnexpectedAdmissionError"},
		form: re(podRow + `(?:OutOf(?P<what>\w[\w./-]*)|UnexpectedAdmissionError) |` +
			`^\s*[Rr]eason: +(?:OutOf(?P<what>\w[\w./-]*)|UnexpectedAdmissionError)`),
		says: "a node refuses a pod[, {pod},] for what it asks for[: {what}]",
		do: "kubectl describe node shows what is allocatable and in use; after a restart of the device plugin delete the " +
			"pod, so that it is placed again",
		from: "kubernetes kubelet lifecycle",
	}, {
		id: "log.k8s-lost", grade: ended, soft: true, words: []string{"ContainerStatusUnknown", "NodeLost", " Unknown "},
		form: re(podRow + `(?:ContainerStatusUnknown|NodeLost|Unknown)` + podNode),
		says: "Kubernetes knows nothing of a pod[, {pod},] on {where}: that node failed, or evicted it",
		need: []string{"kubectl describe node: its conditions and events", "kubectl describe pod: its message"},
	}, {
		id: "log.exited", grade: ended, soft: true, words: []string{" Error ", ":Error "},
		form: re(podRow + `Error` + podNode),
		says: "a container of the pod {pod} ended with an error; its output is not in these logs",
		need: []string{"kubectl logs {pod} --all-containers --previous",
			"kubectl describe pod: the last state of each container"},
	},
}
