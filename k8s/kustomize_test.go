package k8s_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// render returns the objects of train.yaml with components, as kubectl makes them.
func render(t *testing.T, components ...string) [][]byte {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [train.yaml]\ncomponents: [" +
		strings.Join(components, ", ") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(kubectl, "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", components, err, out)
	}
	return bytes.Split(out, []byte("\n---\n"))
}

// Each component changes what it is for, all together can be applied, and kustomization.yaml names all.
func TestComponentsChangeTheManifest(t *testing.T) {
	dirs, err := filepath.Glob("components/*")
	if err != nil || len(dirs) < 7 {
		t.Fatalf("%q, %v", dirs, err)
	}
	list, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := render(t)
	for _, dir := range dirs {
		if !strings.Contains(string(list), "# - "+dir+" ") {
			t.Errorf("kustomization.yaml does not name %s", dir)
		}
		changed := render(t, dir)
		if len(changed) != 2 || bytes.Equal(changed[1], plain[1]) && bytes.Equal(changed[0], plain[0]) {
			t.Errorf("%s changes nothing", dir)
		}
	}
	// One of these two brings launch.
	for other, inits := range map[string]int{"components/image-volume": 1, "components/init": 0} {
		together(t, inits, slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == other }))
	}
}

// together checks the Job with all these components.
func together(t *testing.T, inits int, dirs []string) {
	t.Helper()
	for _, doc := range render(t, dirs...) {
		var o struct {
			Kind string `json:"kind"`
			Spec struct {
				Template struct {
					Spec struct {
						Containers, InitContainers []container
						Volumes                    []struct{ Name string }
					}
				}
			}
		}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "Job" {
			continue
		}
		pod := o.Spec.Template.Spec
		if len(pod.Containers) != 1 || pod.Containers[0].Command[0] != "/opt/launch/launch" ||
			len(pod.InitContainers) != inits {
			t.Errorf("containers %+v, init containers %+v", pod.Containers, pod.InitContainers)
		}
		for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
			for _, m := range c.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(v struct{ Name string }) bool { return v.Name == m.Name }) {
					t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
				}
			}
		}
	}
}

// objects returns the documents of a file.
func objects(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o map[string]any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
	return all
}

// Indexed Jobs of the gate and the examples: as many pods as LAUNCH_NNODES says, and names that resolve.
func TestOtherManifestsCountTheirPods(t *testing.T) {
	files, err := filepath.Glob("../examples/kubernetes/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("%q, %v", files, err)
	}
	jobs := 0
	for _, file := range append(files, "check.yaml") {
		names := map[string]bool{} // of Services
		for _, o := range objects(t, file) {
			if o["kind"] == "Service" {
				names[o["metadata"].(map[string]any)["name"].(string)] = true
			}
			if o["apiVersion"] != "batch/v1" {
				continue
			}
			jobs++
			text, _ := yaml.Marshal(o)
			var j job
			if err := yaml.Unmarshal(text, &j); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c := j.only(t)
			if n := c.variable("LAUNCH_NNODES").Value; n != strconv.Itoa(j.Spec.Completions) || j.Spec.Parallelism !=
				j.Spec.Completions || j.Spec.CompletionMode != "Indexed" {
				t.Errorf("%s: LAUNCH_NNODES %s, completions %d, parallelism %d", file, n, j.Spec.Completions, j.Spec.Parallelism)
			}
			if s := j.Spec.Template.Spec.Subdomain; s != "" && !names[s] || s == "" && c.variable("LAUNCH_STORE").Value == "" {
				t.Errorf("%s: subdomain %q is none of its Services %v", file, s, names)
			}
			for _, code := range []int{64, 66, 73, 78, 126, 127} {
				_, train := manifest(t)
				if len(j.Spec.PodFailurePolicy.Rules) > 0 && j.action(t, code) != train.action(t, code) {
					t.Errorf("%s: status %d is another one's than in train.yaml", file, code)
				}
			}
		}
	}
	if jobs < 3 {
		t.Errorf("%d Jobs", jobs)
	}
}
