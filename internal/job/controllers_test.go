package job

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"launch/internal/exit"
	"launch/internal/finding"
)

// inPod makes the input of a pod: its full host name, which the kubelet writes into /etc/hosts.
func inPod(full, line string, env ...string) Input {
	name := short(full)
	in := input(line, append(env, "KUBERNETES_SERVICE_HOST=10.96.0.1", "HOSTNAME="+name)...)
	in.Hostname = name
	names := full + "\t" + name
	if full == name {
		names = name
	}
	in.Root = fstest.MapFS{
		"etc/hosts":        {Data: []byte(managedHosts + ".\n127.0.0.1\tlocalhost\n10.244.1.7\t" + names + "\n")},
		"etc/mpi/hostfile": {Data: []byte("j-worker-0.j.default.svc slots=8\nj-worker-1.j.default.svc slots=8\n")}}
	for _, kv := range env { // as the flags' variables do it
		if v, ok := strings.CutPrefix(kv, "LAUNCH_NNODES="); ok {
			in.Flags.NNodes = flagged("LAUNCH_NNODES", v)
		}
		if v, ok := strings.CutPrefix(kv, "LAUNCH_STORE="); ok {
			in.Flags.Store = flagged("LAUNCH_STORE", v)
		}
		if v, ok := strings.CutPrefix(kv, "LAUNCH_ROLE="); ok {
			in.Flags.Role = flagged("LAUNCH_ROLE", v)
		}
	}
	return in
}

// world returns what Resolve makes of a pod, as a line.
func world(in Input) string {
	j, err := Resolve(in)
	if bad, ok := errors.AsType[*exit.Error](err); ok {
		return fmt.Sprintf("%d: %s => %s", bad.Code, bad.What, strings.ReplaceAll(bad.Fix, "\n", " || "))
	}
	index := "by arrival"
	if j.Index.Set {
		index = fmt.Sprint(j.Index.V)
	}
	text := fmt.Sprintf("%d nodes, index %s, store %s, id %s", j.Nodes.V, index, j.Store.V.Host, j.ID.V)
	if j.Role.Set {
		text += fmt.Sprintf(", role %s by %s", j.Role.V, j.Role.From.Name)
	}
	if j.Single {
		text = "single"
	}
	for _, n := range j.Notes {
		if n.Status == finding.Warn {
			text += " ! " + n.What
		}
	}
	return text
}

// Each controller's pods get a right world, or a refusal with a line to paste: testdata/controllers.txt.
func TestControllersPods(t *testing.T) {
	const golden = "testdata/controllers.txt"
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var line string
	var common []string
	cases := 0
	for text := range strings.Lines(string(data)) {
		text = strings.TrimSuffix(text, "\n")
		key, rest, _ := strings.Cut(text, " ")
		switch key {
		case "==":
			line, common = "", nil
		case "line":
			line = rest
		case "env":
			common = strings.Fields(rest)
		case "pod":
			words := strings.Fields(rest)
			cases++
			fmt.Fprintf(&out, "%s\n  %s\n", text, world(inPod(words[0], line, append(common, words[1:]...)...)))
			continue
		}
		if !strings.HasPrefix(text, "  ") {
			out.WriteString(text + "\n")
		}
	}
	if cases < 20 {
		t.Errorf("%d pods in %s", cases, golden)
	}
	if got := out.String(); got != string(data) {
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("UPDATE=1 go test ./internal/job -run Controllers writes %s; now:\n%s", golden, got)
	}
}
