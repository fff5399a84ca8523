package job

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"launch/internal/setting"
)

func pod(index int, hosts string, env ...string) Input {
	in := input("torchrun t.py", append(env, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index))...)
	in.Hostname = fmt.Sprintf("train-%d", index)
	in.Root = fstest.MapFS{"etc/hosts": {Data: []byte(hosts)}}
	return in
}

const podHosts = "# Kubernetes-managed hosts " +
	"file.\n127.0.0.1\tlocalhost\n10.244.0.7\ttrain-2.svc.ns.svc.cluster.local\ttrain-2\n"

func nnodes(n string) func(*Flags) { return func(f *Flags) { f.NNodes = flagged("LAUNCH_NNODES", n) } }

func TestPodZeroOfAnIndexedJobIsTheStoreHost(t *testing.T) {
	j := resolve(t, pod(2, podHosts).with(nnodes("4")))
	if j.Nodes.V != 4 || j.Index.V != 2 || j.Vouch != Scheduled ||
		j.Store.V.Endpoints[0] != "train-0.svc.ns.svc.cluster.local:29377" || j.Store.From.Tier != setting.Scheduler {
		t.Errorf("%+v", j)
	}
	if j.ID.V != "train.svc.ns.svc.cluster.local" || j.ID.From.Tier != setting.Scheduler {
		t.Errorf("id %+v", j.ID)
	}
	if j = resolve(t, pod(2, podHosts, "JOB_UID=0a1b").with(nnodes("4"))); j.ID.V != "0a1b" ||
		j.ID.From.Name != "JOB_UID" {
		t.Errorf("id %+v", j.ID)
	}
}

func TestIndexedJobTakesTheCountOfTheLine(t *testing.T) {
	in := pod(2, podHosts)
	in.Argv = strings.Fields("torchrun --nnodes 3 t.py")
	if j := resolve(t, in); j.Nodes.V != 3 || j.Nodes.From.Tier != setting.Line {
		t.Errorf("%+v", j)
	}
}

func TestIndexedJobWithAFullHostName(t *testing.T) {
	in := pod(2, "").with(nnodes("4"))
	in.Hostname = "train-2.svc.ns.svc.cluster.local"
	if j := resolve(t, in); j.Store.V.Host != "train-0.svc.ns.svc.cluster.local" {
		t.Errorf("%+v", j.Store)
	}
	in.Hostname, in.Env = "", append(in.Env, "HOSTNAME=train-2.svc")
	if j := resolve(t, in); j.Store.V.Host != "train-0.svc" {
		t.Errorf("from HOSTNAME: %+v", j.Store)
	}
}

func TestIndexWithoutACountIsRefused(t *testing.T) {
	bad := refused(t, pod(0, podHosts), 78, "node 0 (JOB_COMPLETION_INDEX)", "do not see its completions")
	if !strings.Contains(bad.Fix, "LAUNCH_NNODES") {
		t.Errorf("fix %q", bad.Fix)
	}
	refused(t, input("torchrun t.py").with(func(f *Flags) { f.NodeRank = flagged("--node-rank", "0") }), 78,
		"node 0 (--node-rank)", "number of nodes is not set")
	refused(t, input("torchrun --node-rank 1 t.py"), 78, "node 1 (torchrun --node-rank)")
	refused(t, input("torchrun t.py", "NODE_RANK=3"), 78, "node 3 (NODE_RANK)")
}

func TestIndexedJobWithoutAHeadlessServiceIsRefused(t *testing.T) {
	bad := refused(t, pod(2, "127.0.0.1 localhost\n10.1.1.1 train-2\n").with(nnodes("4")), 78,
		"4 nodes (LAUNCH_NNODES)", "train-2")
	if !strings.Contains(bad.Fix, "subdomain:") {
		t.Errorf("fix %q", bad.Fix)
	}
	in := pod(2, "").with(nnodes("4"))
	in.Hostname = "node-a"
	bad = refused(t, in, 78, `"node-a" does not have the form of an Indexed Job's pod`)
	if !strings.Contains(bad.Fix, "LAUNCH_STORE") || !strings.Contains(bad.Fix, "hostNetwork") {
		t.Errorf("fix %q", bad.Fix)
	}
	in.Root = fs.FS(nil)
	refused(t, in, 78, "node-a")
}

func TestIndexedJobOfSingleNodeWorldsIsLeftAlone(t *testing.T) {
	in := pod(5, podHosts)
	in.Argv = strings.Fields("torchrun --standalone t.py")
	if j := resolve(t, in); !j.Single || j.Index.V != 0 || noted(j, "job.index", "JOB_COMPLETION_INDEX=5") == "" {
		t.Errorf("%+v", j)
	}
}

// The secret of a job is taken from what named the job, and only where it is random.
func TestTheSecretIsOfWhoeverNamedTheJob(t *testing.T) {
	const uid = "6f1c9b0e-5d3a-4c7e-9f10-aa55d0c3b1e2"
	if j := resolve(t, pod(2, podHosts, "JOB_UID="+uid).with(nnodes("4"))); j.Secret.V != uid ||
		j.Secret.From.Name != "JOB_UID" {
		t.Errorf("a pod: %+v", j.Secret)
	}
	if j := resolve(t, pod(2, podHosts, "JOB_UID=my-training-run-of-today").with(nnodes("4"))); j.Secret.Set {
		t.Errorf("an id that a person made up: %+v", j.Secret)
	}
	in := pod(2, podHosts, "JOB_UID="+uid).with(nnodes("4"))
	in.Flags.Job = flagged("--job", "mine") // it may have nodes elsewhere
	if j := resolve(t, in); j.Secret.Set {
		t.Errorf("a job that a person named: %+v", j.Secret)
	}
	const key = "5c7ec551bc545d47-4717a77ffe5a657e"
	mpi := input("./train", append(ompi4(1), "OMPI_MCA_orte_precondition_transports="+key)...)
	mpi.Flags.Store = flagged("--store", "a")
	if j := resolve(t, mpi); j.Secret.V != key {
		t.Errorf("mpirun: %+v", j.Secret)
	}
	b, err := json.Marshal(resolve(t, mpi))
	if err != nil || strings.Contains(string(b), key) {
		t.Errorf("the record has the secret: %s (%v)", b, err)
	}
}

// A store that is named by a Service of all pods is on node 0; one that is named by a pod or a machine is there.
func TestANameOfAllPodsIsShared(t *testing.T) {
	const full = "train-1.train.ns.svc.cluster.local"
	index := "JOB_COMPLETION_INDEX=1"
	for _, tc := range []struct {
		full, store string
		env         []string
		shared      bool
	}{
		{full, "train", []string{index}, true},
		{full, "train.ns.svc.cluster.local", []string{index}, true},
		{"train-1", "all-pods", []string{index}, true},
		{"trainer-b", "trainers", []string{"NODE_RANK=1"}, true},
		{full, "train-0.train", []string{index}, false},
		{full, "train-1.train", []string{index}, false},
		{full, "other-0-0.train", []string{index}, false},
		{full, "10.0.0.7", []string{index}, false},
		{"gpu-07", "gpu-03", []string{"JOB_COMPLETION_INDEX=0"}, false}, // a variable from elsewhere
		{"trainer-b", "trainers", nil, false},                           // ranks by arrival: as anywhere
		{"mnist-worker-0", "mnist-master-0", []string{"MASTER_ADDR=mnist-master-0", "RANK=1"}, false},
	} {
		in := inPod(tc.full, "torchrun t.py", append(tc.env, "LAUNCH_NNODES=3", "LAUNCH_STORE="+tc.store)...)
		j := resolve(t, in)
		if j.Store.V.Shared != tc.shared {
			t.Errorf("%s names %s (%v): shared %v", tc.full, tc.store, tc.env, j.Store.V.Shared)
		}
		// Two nodes that have the same variable from elsewhere do not replace each other.
		if stray := tc.full == "gpu-07"; stray && j.Vouch != Typed {
			t.Errorf("%s: its index is %q", tc.full, j.Vouch)
		}
	}
	in := inPod("gpu-07", "torchrun t.py", index, "LAUNCH_NNODES=3", "LAUNCH_STORE=gpu-03")
	in.Root = fstest.MapFS{"etc/hosts": {Data: []byte(managedHosts + " (host network).\n10.0.0.7 gpu-07\n")}}
	if j := resolve(t, in); j.Store.V.Shared || j.Vouch != Scheduled {
		t.Errorf("a machine's name, in a pod of the host's network: shared %v, index %q", j.Store.V.Shared, j.Vouch)
	}
}
