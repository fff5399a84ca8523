package start

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"launch/cmd/internal/storeaddr"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/setting"
	"launch/rendezvous"
)

// The remedies of a pod name what kubectl takes.
func TestPodsRemediesSpeakKubernetes(t *testing.T) {
	p := job.Pod{Name: "train-1", Service: "train", Namespace: "ml", Owner: "job/train",
		Selector: "batch.kubernetes.io/job-name=train"}
	j := job.Job{Nodes: setting.Value[int]{V: 4, From: setting.Source{Name: "LAUNCH_NNODES"}}}
	const pods = "kubectl -n ml get pods -l batch.kubernetes.io/job-name=train"
	for _, tc := range []struct {
		err  error
		code int
		want []string
	}{
		{&storeaddr.NameError{Host: "train-0.train", Err: errors.New("no such host")}, exit.Unreachable,
			[]string{pods, "get service train -o yaml", "selector: batch.kubernetes.io/job-name: train"}},
		{exit.Errorf(exit.Missing, "only 3 of 4 nodes joined"), exit.Missing,
			[]string{pods, "Completed one does not come back", "kubectl get job/train", "LAUNCH_NNODES is 4", "completions"}},
		{&rendezvous.OtherStoreError{Job: "old"}, exit.Unreachable, []string{pods, "Job of the same name"}},
		{fmt.Errorf("x: %w", rendezvous.ErrForeign), exit.Unreachable, []string{pods, "LAUNCH_TOKEN"}},
		{fmt.Errorf("x: %w", rendezvous.ErrUnreachable), exit.Unreachable, []string{pods, "networkpolicy"}},
		{exit.Errorf(exit.Unfit, "this node is unfit"), exit.Unfit, nil},
	} {
		got := podFix(p, j, tc.err, tc.code)
		if tc.want == nil && got != "" {
			t.Errorf("%v: %q", tc.err, got)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v: %q does not contain %q", tc.err, got, want)
			}
		}
	}
	j.Store.V.Shared, j.Index.From.Name = true, "JOB_COMPLETION_INDEX"
	alone := podFix(p, j, exit.Errorf(exit.Missing, "only 1 of 4 nodes joined"), exit.Missing)
	if want := "JOB_COMPLETION_INDEX 0 in other pods"; !strings.Contains(alone, want) {
		t.Errorf("a pod that hosts the store for its index: %q does not contain %q", alone, want)
	}
	host := podFix(job.Pod{Name: "node-a"}, j, &storeaddr.NameError{Host: "train-0.train"}, exit.Unreachable)
	if !strings.Contains(host, "ClusterFirstWithHostNet") {
		t.Errorf("a pod of the host's network: %q", host)
	}
}
