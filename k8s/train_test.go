package k8s_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The fields of the two kinds that the manifest uses: any other field, misspelt or
// in the wrong place, does not decode.
type (
	meta struct {
		Name string `json:"name"`
	}
	service struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   meta   `json:"metadata"`
		Spec       struct {
			ClusterIP                string            `json:"clusterIP"`
			PublishNotReadyAddresses bool              `json:"publishNotReadyAddresses"`
			Selector                 map[string]string `json:"selector"`
		} `json:"spec"`
	}
	job struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   meta   `json:"metadata"`
		Spec       struct {
			CompletionMode       string `json:"completionMode"`
			Completions          int    `json:"completions"`
			Parallelism          int    `json:"parallelism"`
			BackoffLimitPerIndex int    `json:"backoffLimitPerIndex"`
			MaxFailedIndexes     *int   `json:"maxFailedIndexes"`
			PodFailurePolicy     struct {
				Rules []rule `json:"rules"`
			} `json:"podFailurePolicy"`
			Template struct {
				Spec pod `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	rule struct {
		Action      string `json:"action"`
		OnExitCodes *struct {
			ContainerName string `json:"containerName"`
			Operator      string `json:"operator"`
			Values        []int  `json:"values"`
		} `json:"onExitCodes"`
		OnPodConditions []struct {
			Type string `json:"type"`
		} `json:"onPodConditions"`
	}
	pod struct {
		Subdomain                     string `json:"subdomain"`
		RestartPolicy                 string `json:"restartPolicy"`
		TerminationGracePeriodSeconds int    `json:"terminationGracePeriodSeconds"`
		ShareProcessNamespace         bool   `json:"shareProcessNamespace"`
		EnableServiceLinks            *bool  `json:"enableServiceLinks"`
		AutomountServiceAccountToken  *bool  `json:"automountServiceAccountToken"`
		SecurityContext               struct {
			RunAsNonRoot   bool `json:"runAsNonRoot"`
			RunAsUser      int  `json:"runAsUser"`
			RunAsGroup     int  `json:"runAsGroup"`
			FSGroup        int  `json:"fsGroup"`
			SeccompProfile struct {
				Type string `json:"type"`
			} `json:"seccompProfile"`
		} `json:"securityContext"`
		Containers []container `json:"containers"`
		Volumes    []struct {
			Name     string `json:"name"`
			EmptyDir *struct {
				Medium    string `json:"medium"`
				SizeLimit string `json:"sizeLimit"`
			} `json:"emptyDir"`
		} `json:"volumes"`
	}
	container struct {
		Name            string     `json:"name"`
		Image           string     `json:"image"`
		Command         []string   `json:"command"`
		Args            []string   `json:"args"`
		MessagePolicy   string     `json:"terminationMessagePolicy"`
		Env             []variable `json:"env"`
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `json:"readOnlyRootFilesystem"`
			Capabilities             struct {
				Drop []string `json:"drop"`
			} `json:"capabilities"`
		} `json:"securityContext"`
		VolumeMounts []struct {
			Name      string `json:"name"`
			MountPath string `json:"mountPath"`
		} `json:"volumeMounts"`
	}
	variable struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom *struct {
			FieldRef *struct {
				FieldPath string `json:"fieldPath"`
			} `json:"fieldRef"`
			SecretKeyRef *struct {
				Name     string `json:"name"`
				Key      string `json:"key"`
				Optional bool   `json:"optional"`
			} `json:"secretKeyRef"`
		} `json:"valueFrom"`
	}
)

// manifest reads train.yaml: the Service and the Job.
func manifest(t *testing.T) (service, job) {
	t.Helper()
	text, err := os.ReadFile("train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs := bytes.Split(text, []byte("\n---\n"))
	if len(docs) != 2 {
		t.Fatalf("%d documents, want a Service and a Job", len(docs))
	}
	var s service
	var j job
	for i, into := range []any{&s, &j} {
		if err := yaml.UnmarshalStrict(docs[i], into); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
	}
	if s.APIVersion+" "+s.Kind != "v1 Service" || j.APIVersion+" "+j.Kind != "batch/v1 Job" {
		t.Fatalf("documents are %s %s and %s %s", s.APIVersion, s.Kind, j.APIVersion, j.Kind)
	}
	return s, j
}

// only returns the single container of the Job.
func (j job) only(t *testing.T) container {
	t.Helper()
	if n := len(j.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers, want one", n)
	}
	return j.Spec.Template.Spec.Containers[0]
}

func (c container) variable(name string) variable {
	i := slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == name })
	if i < 0 {
		return variable{}
	}
	return c.Env[i]
}

// action returns what Kubernetes does with a pod that failed with code: the first
// matching rule, else it counts against backoffLimitPerIndex.
func (j job) action(t *testing.T, code int) string {
	t.Helper()
	for _, r := range j.Spec.PodFailurePolicy.Rules {
		e := r.OnExitCodes
		if e == nil {
			continue
		}
		if e.Operator != "In" || e.ContainerName != j.only(t).Name || !slices.IsSorted(e.Values) {
			t.Fatalf("a rule that this test does not understand: %+v", *e)
		}
		if slices.Contains(e.Values, code) {
			return r.Action
		}
	}
	return "Count"
}

// The statuses are in docs/exit-codes.md. An unfit node must not use up the retries
// of the others, and a failure that no retry fixes must end the Job. What may heal is bounded.
func TestExitStatusesMeanTheSameToKubernetes(t *testing.T) {
	_, j := manifest(t)
	want := map[int]string{
		1:   "Count",   // status of the command
		64:  "FailJob", // usage
		65:  "Count",   // this node is unfit
		66:  "Ignore",  // another node is unfit
		69:  "Count",   // the store is unreachable
		70:  "Count",   // a bug in launch
		73:  "Ignore",  // replaced by a newer pod of the same index
		75:  "Count",   // the time ran out before all nodes joined
		78:  "FailJob", // contradictory settings
		126: "FailJob", // not executable
		127: "FailJob", // not found
		130: "Count",   // interrupted
		137: "Count",   // killed, out of memory
		143: "Count",   // terminated
	}
	got := map[int]string{}
	for code := range want {
		got[code] = j.action(t, code)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("action for each exit status (-want +got):\n%s", diff)
	}
}

// Kubernetes accepts a podFailurePolicy only with restartPolicy Never. A healthy Job has no
// deadline, and one that cannot go on ends: each index has a number of pods, and none may be missing.
func TestFailuresAreBounded(t *testing.T) {
	_, j := manifest(t)
	if p := j.Spec.Template.Spec.RestartPolicy; p != "Never" {
		t.Errorf("restartPolicy %q", p)
	}
	if m := j.Spec.MaxFailedIndexes; j.Spec.BackoffLimitPerIndex < 1 || m == nil || *m != 0 {
		t.Errorf("backoffLimitPerIndex %d, maxFailedIndexes %v", j.Spec.BackoffLimitPerIndex, m)
	}
	if n, err := strconv.Atoi(j.only(t).variable("LAUNCH_RESTARTS").Value); err != nil || n < 1 {
		t.Error("a command that fails would cost new pods on all nodes: no LAUNCH_RESTARTS")
	}
	if p := j.only(t).MessagePolicy; p != "FallbackToLogsOnError" {
		t.Errorf("terminationMessagePolicy %q: kubectl describe would not show why a pod failed", p)
	}
	if j.Spec.Template.Spec.TerminationGracePeriodSeconds <= 2 { // launch takes up to 2 s to leave the store
		t.Errorf("terminationGracePeriodSeconds %d", j.Spec.Template.Spec.TerminationGracePeriodSeconds)
	}
}

func TestPodsOfTheJobFindEachOther(t *testing.T) {
	s, j := manifest(t)
	if got := j.Spec.Template.Spec.Subdomain; got != s.Metadata.Name {
		t.Errorf("subdomain %q, the Service is %q", got, s.Metadata.Name)
	}
	if s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("clusterIP %q, publishNotReadyAddresses %v: names would resolve late or never", s.Spec.ClusterIP,
			s.Spec.PublishNotReadyAddresses)
	}
	want := map[string]string{"batch.kubernetes.io/job-name": j.Metadata.Name}
	if diff := cmp.Diff(want, s.Spec.Selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
}

func TestNumberOfNodesIsTheSameEverywhere(t *testing.T) {
	_, j := manifest(t)
	if j.Spec.CompletionMode != "Indexed" {
		t.Errorf("completionMode %q", j.Spec.CompletionMode)
	}
	n := strconv.Itoa(j.Spec.Completions)
	if p := strconv.Itoa(j.Spec.Parallelism); p != n || j.Spec.Completions < 2 {
		t.Errorf("completions %s, parallelism %s", n, p)
	}
	if got := j.only(t).variable("LAUNCH_NNODES").Value; got != n {
		t.Errorf("LAUNCH_NNODES=%q, completions %s", got, n)
	}
	text, err := os.ReadFile("train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`(?m)^ +(?:completions|parallelism|value): "?`+n+`"? # NODES`).FindAll(text, -1)
	if len(marked) != 3 {
		t.Errorf("%d lines are marked NODES, want three: %q", len(marked), marked)
	}
}

func TestIdentityComesFromKubernetes(t *testing.T) {
	_, j := manifest(t)
	c := j.only(t)
	if strings.Join(c.Command, " ") != "launch" || len(c.Args) == 0 {
		t.Errorf("command %q, args %q", c.Command, c.Args)
	}
	uid := c.variable("JOB_UID")
	if uid.ValueFrom == nil || uid.ValueFrom.FieldRef == nil ||
		uid.ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/controller-uid']" {
		t.Errorf("JOB_UID %+v", uid)
	}
	token := c.variable("LAUNCH_TOKEN")
	if token.Value != "" || token.ValueFrom == nil || token.ValueFrom.SecretKeyRef == nil ||
		!token.ValueFrom.SecretKeyRef.Optional {
		t.Errorf("LAUNCH_TOKEN %+v: want a Secret that may be absent", token)
	}
}

// An unprivileged pod with a read-only root needs a place for the store
// (rendezvous: TMPDIR, else /tmp) and more shared memory than the container's
// default of 64 MiB.
func TestPodNeedsNoRights(t *testing.T) {
	_, j := manifest(t)
	p, c := j.Spec.Template.Spec, j.only(t)
	sc := c.SecurityContext
	if !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser == 0 || !sc.ReadOnlyRootFilesystem ||
		sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
		!slices.Equal(sc.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("pod %+v, container %+v", p.SecurityContext, sc)
	}
	medium := map[string]string{} // by volume
	for _, v := range p.Volumes {
		if v.EmptyDir != nil {
			medium[v.Name] = "emptyDir " + v.EmptyDir.Medium
		}
	}
	got := map[string]string{}
	for _, m := range c.VolumeMounts {
		got[m.MountPath] = medium[m.Name]
	}
	if diff := cmp.Diff(map[string]string{"/tmp": "emptyDir ", "/dev/shm": "emptyDir Memory"}, got); diff != "" {
		t.Errorf("where the pod can write (-want +got):\n%s", diff)
	}
}

// The commands in README.md use the names of the manifest.
func TestReadmeNamesWhatTheManifestHas(t *testing.T) {
	_, j := manifest(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := j.only(t)
	token := c.variable("LAUNCH_TOKEN").ValueFrom.SecretKeyRef
	for _, want := range []string{
		"-t " + c.Image + " ",
		"batch.kubernetes.io/job-name=" + j.Metadata.Name,
		"secret generic " + token.Name + " --from-literal=" + token.Key + "=",
		"job/" + j.Metadata.Name,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("README.md does not contain %q", want)
		}
	}
}
