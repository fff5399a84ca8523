package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
)

// onGPU returns a test whose leading end uses memory of the GPU of these tests, and
// more of it than is compared in one piece.
func onGPU(g *verbs.GPU) verbs.Test {
	return verbs.Test{Device: "fake0", GID: 1, GPU: g, Lead: true, QPs: 2, Depth: 8,
		Sizes: []int{1, 200, 4096, 100_001, 5 << 20}, Iterations: 6, BothWays: true}
}

func TestMemoryOfAGPUIsSentAndReceived(t *testing.T) {
	one, other := &verbs.GPU{PCI: fakeGPU}, &verbs.GPU{PCI: fakeGPU, Peermem: true}
	for _, tt := range []struct {
		name, mode    string
		lead, follow  *verbs.GPU
		local, remote string
	}{
		{"both by DMA-BUF", "", one, other, verbs.ByDMABuf, verbs.ByDMABuf},
		{"one alone", "", one, nil, verbs.ByDMABuf, ""},
		{"the other one alone", "", nil, one, "", verbs.ByDMABuf},
		{"a driver without DMA-BUF", "dmabuf 0 peermem 1", other, other, verbs.ByPeermem, verbs.ByPeermem},
		{"a driver that does not know it", "cuda-old 1 peermem 1", other, nil, verbs.ByPeermem, ""},
		{"an HCA without DMA-BUF", "mr-dmabuf 95 peermem 1", nil, other, "", verbs.ByPeermem},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake(t, tt.mode)
			follow := follower
			follow.GPU = tt.follow
			r := runPair(t, onGPU(tt.lead), follow)
			if r.LeadErr != nil || r.OtherErr != nil {
				t.Fatalf("errors %v and %v", r.LeadErr, r.OtherErr)
			}
			if len(r.Lead.Out) != 5 || len(r.Lead.Back) != 5 || r.Lead.Out[4].Messages != 6 {
				t.Errorf("streams %+v and %+v", r.Lead.Out, r.Lead.Back)
			}
			ends := func(r verbs.Result) [2]string { return [2]string{r.Local.Memory, r.Remote.Memory} }
			if diff := cmp.Diff([2]string{tt.local, tt.remote}, ends(r.Lead)); diff != "" {
				t.Errorf("memory as the lead reports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([2]string{tt.remote, tt.local}, ends(r.Other)); diff != "" {
				t.Errorf("memory as the other end reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachFailingStepOfAGPUIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	here := verbs.GPU{PCI: fakeGPU}
	peermem := verbs.GPU{PCI: fakeGPU, Peermem: true}
	for _, tt := range []struct {
		mode  string
		gpu   verbs.GPU
		cause verbs.Cause
		texts []string
	}{
		{"cuda-init 100", here, verbs.NoGPU, []string{"cuInit: CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"}},
		{"cuda-init 34", here, verbs.NoCUDA, []string{"CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"}},
		{"cuda-init 802", here, verbs.GPUFailed, []string{"CUDA_ERROR_SYSTEM_NOT_READY", "nvidia-fabricmanager"}},
		{"cuda-init 803", here, verbs.GPUFailed, []string{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"}},
		{"cuda-init 777", here, verbs.GPUFailed, []string{"GPU 0000:1b:00.0: cuInit: CUDA error 777"}},
		{"", verbs.GPU{PCI: "0000:3d:00.0"}, verbs.NoGPU,
			[]string{"GPU 0000:3d:00.0: cuDeviceGetByPCIBusId: CUDA_ERROR_INVALID_DEVICE"}},
		{"cuda-retain 46", here, verbs.GPUBusy, []string{"cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE",
			"nvidia-smi -c 0"}},
		{"cuda-retain 2", here, verbs.GPUBusy, []string{"CUDA_ERROR_OUT_OF_MEMORY"}},
		{"cuda-alloc 2", here, verbs.GPUBusy, []string{"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi"}},
		{"cuda-export 801", here, verbs.NoGPUDirect, []string{"cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED",
			"modprobe nvidia_peermem"}},
		{"dmabuf 0", here, verbs.NoGPUDirect, []string{"open kernel modules", "modprobe nvidia_peermem"}},
		{"mr-dmabuf 95", here, verbs.NoGPUDirect, []string{"fake0 or its driver does not support it",
			"modprobe nvidia_peermem"}},
		{"mr-dmabuf 12", here, verbs.NoGPUDirect, []string{"register it: cannot allocate memory"}},
		{"mr-dmabuf 93", peermem, verbs.NoGPUDirect, []string{"protocol not supported",
			"through nvidia_peermem: bad address"}},
		{"cuda-write 700", here, verbs.GPUFailed, []string{"cuMemcpyHtoD: CUDA_ERROR_ILLEGAL_ADDRESS"}},
		{"cuda-read 700", here, verbs.GPUFailed, []string{"cuMemcpyDtoH: CUDA_ERROR_ILLEGAL_ADDRESS"}},
		{"cuda-synchronize 700", here, verbs.GPUFailed, []string{"cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"}},
		{"corrupt 8", here, verbs.Corrupt, []string{"in the memory of GPU 0000:1b:00.0"}},
	} {
		t.Run(fmt.Sprintf("%s %v", tt.mode, tt.gpu), func(t *testing.T) {
			fake(t, tt.mode)
			lead := onGPU(&tt.gpu)
			follow := follower
			follow.GPU = &tt.gpu
			r := runPair(t, lead, follow)
			for _, e := range []*verbs.Error{r.LeadErr, r.OtherErr} {
				if e == nil || e.Cause != tt.cause {
					t.Errorf("error %v, want cause %q", e, tt.cause)
					continue
				}
				for _, text := range tt.texts {
					if !strings.Contains(e.Text, text) {
						t.Errorf("text %q, want %q", e.Text, text)
					}
				}
			}
		})
	}
}

// If one end's GPU fails, the other end gets the reason.
func TestTheOtherEndLearnsThatAGPUIsMissing(t *testing.T) {
	fake(t, "")
	follow := follower
	follow.GPU = &verbs.GPU{PCI: "0000:3d:00.0"}
	r := runPair(t, onGPU(nil), follow)
	if e := r.LeadErr; e == nil || e.Cause != verbs.NoGPU || !e.Peer {
		t.Errorf("lead: %v, want the other end's %q", e, verbs.NoGPU)
	}
	if e := r.OtherErr; e == nil || e.Cause != verbs.NoGPU || e.Peer {
		t.Errorf("other end: %v, want %q", e, verbs.NoGPU)
	}
}

func TestMemoryOfAGPUHasNoPings(t *testing.T) {
	fake(t, "")
	lead := onGPU(nil)
	lead.PingSizes = []int{8}
	follow := follower
	follow.GPU = &verbs.GPU{PCI: fakeGPU}
	r := runPair(t, lead, follow)
	for _, e := range []*verbs.Error{r.LeadErr, r.OtherErr} {
		if e == nil || e.Cause != verbs.Wrong {
			t.Errorf("error %v, want %q", e, verbs.Wrong)
		}
	}
}

func TestACUDAThatHangsOrCrashesEndsAtTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	for mode, want := range map[string]verbs.Cause{"cuda-hangs 1": verbs.Stuck, "cuda-crashes 1": verbs.Crashed} {
		t.Run(mode, func(t *testing.T) {
			fake(t, mode)
			follow := follower
			follow.GPU = &verbs.GPU{PCI: fakeGPU}
			a, b := ends()
			var errA, errB error
			begun := time.Now()
			var both sync.WaitGroup
			both.Go(func() { _, errA = confine.Run(t.Context(), onGPU(nil), 4*time.Second, a) })
			both.Go(func() { _, errB = confine.Run(t.Context(), follow, 2*time.Second, b) })
			both.Wait()
			if e := verbs.AsError(errA); e == nil || e.Cause != want || !e.Peer {
				t.Errorf("lead: %v, want the other end's %q", errA, want)
			}
			if e := verbs.AsError(errB); e == nil || e.Cause != want {
				t.Errorf("end with the GPU: %v, want %q", errB, want)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestALibraryWithoutMemoryOfGPUsIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	here, peermem := &verbs.GPU{PCI: fakeGPU}, &verbs.GPU{PCI: fakeGPU, Peermem: true}
	old := func(t *testing.T, lib, source string, args ...string) {
		t.Helper()
		if err := os.Remove(lib); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(compiler(), append([]string{"-shared", "-fPIC", "-O1", "-o", lib, source},
			args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("build a library: %v\n%s", err, out)
		}
	}
	for _, tt := range []struct {
		name   string
		make   func(t *testing.T, dir string)
		gpu    *verbs.GPU
		cause  verbs.Cause // "": peermem works
		text   string
		memory string
	}{
		{"no libcuda", func(t *testing.T, dir string) {
			// An invalid one hides this machine's own.
			lib := filepath.Join(dir, "libcuda.so.1")
			if err := os.Remove(lib); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(lib, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, here, verbs.NoCUDA, "libcuda.so.1: file too short: NVIDIA's driver installs it", ""},
		{"a libcuda of something else", func(t *testing.T, dir string) {
			source := filepath.Join(dir, "other.c")
			if err := os.WriteFile(source, []byte("int cuInit(unsigned f) { return f; }\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			old(t, filepath.Join(dir, "libcuda.so.1"), source)
		}, here, verbs.NoCUDA, "it lacks cuGetErrorName", ""},
		{"a driver before 11.3", func(t *testing.T, dir string) {
			old(t, filepath.Join(dir, "libcuda.so.1"), "testdata/cuda.c", "-DOLD")
		}, here, verbs.NoGPUDirect, "the driver does not support it", ""},
		{"a driver before 11.3, with peermem", func(t *testing.T, dir string) {
			old(t, filepath.Join(dir, "libcuda.so.1"), "testdata/cuda.c", "-DOLD")
		}, peermem, "", "", verbs.ByPeermem},
		{"an old libibverbs", func(t *testing.T, dir string) {
			old(t, filepath.Join(dir, "libibverbs.so.1"), "testdata/fake.c", "-DOLD",
				"-Wl,--version-script="+filepath.Join(os.Getenv(varFake), "versions"))
		}, here, verbs.NoGPUDirect, "libibverbs is older than rdma-core 34", ""},
		{"an old libibverbs, with peermem", func(t *testing.T, dir string) {
			old(t, filepath.Join(dir, "libibverbs.so.1"), "testdata/fake.c", "-DOLD",
				"-Wl,--version-script="+filepath.Join(os.Getenv(varFake), "versions"))
		}, peermem, "", "", verbs.ByPeermem},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.make(t, fake(t, "peermem 1"))
			r := runPair(t, onGPU(tt.gpu), follower)
			if tt.cause == "" {
				if r.LeadErr != nil || r.Lead.Local.Memory != tt.memory {
					t.Errorf("memory %q, error %v; want %q", r.Lead.Local.Memory, r.LeadErr, tt.memory)
				}
				return
			}
			if e := r.LeadErr; e == nil || e.Cause != tt.cause || !strings.Contains(e.Text, tt.text) {
				t.Errorf("error %v, want %q and %q", e, tt.cause, tt.text)
			}
		})
	}
}

// gpu.h is written by hand, so this compares it with CUDA's own header.
func TestCUDAMatchesItsHeader(t *testing.T) {
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("needs a C compiler: %v", err)
	}
	var found []string
	for _, where := range []string{"/usr/local/cuda*/include", "/usr/include",
		"../../.venv/lib/python3*/site-packages/triton/backends/nvidia/include",
		"../../.venv/lib/python3*/site-packages/nvidia/*/include"} {
		headers, err := filepath.Glob(filepath.Join(where, "cuda.h"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, headers...)
	}
	if len(found) == 0 {
		t.Skip("needs CUDA's cuda.h: in the wheel of triton, or the package cuda-cudart-dev")
	}
	out, err := exec.Command(compiler(), "-Wall", "-c", "-I", filepath.Dir(found[0]), "-o",
		filepath.Join(t.TempDir(), "layout.o"), "testdata/cuda_layout.c").CombinedOutput()
	if err != nil {
		t.Errorf("a name or value differs from %s: %v\n%s", found[0], err, out)
	}
}
