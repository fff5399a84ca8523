package logs

import (
	"bytes"
	"cmp"
)

var (
	// eventForm is a line of Kubernetes' events: of kubectl get events, which names its object, or of kubectl describe.
	eventForm = re(`^ *(?:[a-z][\w-]* +)?(?:\S+(?: \(x\d+ over \S+\))? +)??(?:Normal|Warning) +[A-Z]\w+ +` +
		`(?:[A-Za-z]+/(?P<name>[a-z0-9][\w.-]*) )?`)
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
	if m := eventForm().FindSubmatch(body); m != nil {
		if name := cmp.Or(string(m[1]), f.described); name != "" {
			p.object = true
			p.take(0, []byte(name))
		}
	}
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
