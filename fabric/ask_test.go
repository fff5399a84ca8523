package fabric

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"launch/fabric/gpu"
	"launch/internal/child"
)

func TestAskingThisMachineEndsWithExactlyOneOutcome(t *testing.T) {
	g := AskGPU(t.Context(), Live(), gpu.Question{})
	if n := count(g.Present, g.Absent != "", g.Err != ""); n != 1 {
		t.Errorf("GPU facts %+v have %d outcomes, want 1", g, n)
	}
	v := AskVerbs(t.Context(), Live())
	if n := count(v.Present, v.Absent != "", v.Err != ""); n != 1 {
		t.Errorf("verbs facts %+v have %d outcomes, want 1", v, n)
	}
	t.Logf("GPUs: %+v; verbs: %+v", g, v)
}

func TestAskedChildrenAnswer(t *testing.T) {
	m := newMachine("gpu-1")
	files(m.proc, "driver/nvidia", map[string]string{"version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " +
		"535.183.01  Sun May 12 19:39:15 UTC 2024"})
	files(m.dev, "", map[string]string{"nvidiactl": ""})
	g := AskGPU(t.Context(), m.roots(m.sys), gpu.Question{})
	if n := count(g.Present, g.Absent != "", g.Err != ""); n != 1 || g.Driver == "" {
		t.Errorf("GPU facts = %+v, want one outcome and a driver", g)
	}
	m = eightGPUs()
	v := AskVerbs(t.Context(), m.roots(m.sys))
	if n := count(v.Present, v.Absent != "", v.Err != ""); n != 1 {
		t.Errorf("verbs facts = %+v, want one outcome", v)
	}
	t.Logf("GPUs: %+v; verbs: %+v", g, v)
}

func TestGPUsThatAreAwakeHaveLessTime(t *testing.T) {
	gpus := fstest.MapFS{}
	for i := range 8 {
		gpus[fmt.Sprintf("driver/nvidia/gpus/0000:%02x:00.0/information", i)] = &fstest.MapFile{}
	}
	for root, want := range map[string]time.Duration{"etc/hosts": 27 * time.Second, persistenced: 7 * time.Second} {
		roots := Roots{Proc: gpus, Root: fstest.MapFS{root: &fstest.MapFile{}}}
		if got := gpuLimit(roots.filled()); got != want {
			t.Errorf("with /%s %v, want %v", root, got, want)
		}
	}
}

func TestASilentDriverIsReportedInOneLine(t *testing.T) {
	timeout := &child.TimeoutError{Name: gpuChild, Limit: gpuBudget, PID: 77}
	if got, want := unanswered("NVML", timeout), "NVML did not answer within 3s"; got != want {
		t.Errorf("unanswered = %q, want %q", got, want)
	}
	timeout.Abandoned = true
	if got, want := unanswered("NVML", timeout), "NVML did not answer within 3s; process 77 hangs in the kernel "+
		"and cannot be killed"; got != want {
		t.Errorf("unanswered = %q, want %q", got, want)
	}
	crash := &child.CrashError{Name: gpuChild, Code: 127, Stderr: "symbol lookup error: undefined symbol: nvmlInit_v2\n"}
	if got := unanswered("NVML", crash); !strings.Contains(got, "status 127: symbol lookup error") {
		t.Errorf("unanswered = %q, want the crash in it", got)
	}
}

func count(outcomes ...bool) (n int) {
	for _, o := range outcomes {
		if o {
			n++
		}
	}
	return n
}
