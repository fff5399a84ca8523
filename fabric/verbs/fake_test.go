package verbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"launch/internal/child"
)

// ample is for a child that answers at once, on a busy machine.
const ample = 30 * time.Second

func ask(t *testing.T) Facts {
	t.Helper()
	var f Facts
	if err := child.Ask(t.Context(), askChild, nil, &f, ample); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDevicesAreAskedAboutThemselvesAndTheirPorts(t *testing.T) {
	fake(t, "devices 64 speed 256")
	f := ask(t)
	if !f.Present || len(f.Devices) != 64 {
		t.Fatalf("answer = %+v, want 64 devices", f)
	}
	d := f.Devices[63]
	if d.Name != "fake63" || !d.Opens || d.Firmware != strings.Repeat("f", 64) || d.GUID != "0200:0000:0000:0001" || d.MaxQP != 100 {
		t.Errorf("device %+v", d)
	}
	p, ok := f.Port("fake63", 1)
	if !ok || p.ActiveMTU != 1024 || p.MaxMTU != 4096 || p.Rate != 800 || p.Lanes != 4 || p.Link != "Ethernet" || !p.Active() {
		t.Errorf("port %+v, want XDR's 800 Gb/s", p)
	}
}

func TestAHostileLibraryCostsNothing(t *testing.T) {
	for _, tt := range []struct{ mode, want string }{
		{"devices 0", "true 0 "},
		{"list 38", "false 0 the kernel has no RDMA stack"},
		{"list 13", "false 0 list RDMA devices: permission denied"},
		{"devices 2 claims 1000000", "true 2 "},
		{"devices 3 claims 1", "true 1 "},
		{"devices 2 claims 4294967291", "true 0 "},
		{"nameless 1", "true 1 "},
		{"open 13", "true 1 open fake0: permission denied"},
		{"open 0", "true 1 open fake0: input/output error"},
		{"query-device 5", "true 1 query device: input/output error"},
		{"query-port 5", "true 1 query port 1: input/output error"},
		{"ports 255", "true 1 query port 8: invalid argument"},
		{"many 1000000", "true 1 "},
		{"old 1", "true 1 "},
		{"mtu 77 speed 3", "true 1 "},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			fake(t, tt.mode)
			f := ask(t)
			got := fmt.Sprintf("%v %d %s", f.Present, len(f.Devices), f.Err)
			if len(f.Devices) == 1 {
				got += f.Devices[0].Err + f.Devices[0].Unknown
			}
			if !strings.HasPrefix(got, tt.want) || tt.want[len(tt.want)-1] == ' ' && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEachFailingCallIsNamed(t *testing.T) {
	for _, tt := range []struct {
		mode, text string
		cause      Cause
	}{
		{"", "", ""},
		{"inline 0", "", ""},
		{"link 1", "", ""},
		{"tableless 1", "", ""},
		{"old 1", "", ""},
		{"list 38", "no RDMA stack", NoStack},
		{"devices 0", `does not list "fake0"`, NoNode},
		{"open 2", "its file below /dev/infiniband is missing", NoNode},
		{"open 13", "the mode of its file", Permission},
		{"open 1", "RDMA namespace", Permission},
		{"open 19", "removed", Gone},
		{"open 5", "firmware or hardware", Faulty},
		{"open 95", "do not match", Provider},
		{"query-port 5", "query fake0: input/output error", Gone},
		{"state 1", "fake0 port 1 is down", PortDown},
		{"state 2", "not configured (INIT)", PortDown},
		{"link 1 lid 0", "no subnet manager", NoLID},
		{"gidless 1", "has no GID at index 1; set are none", NoGID},
		{"pkey 1", "no partition key at index 0", NoPKey},
		{"pd 12", "allocate a protection domain", Memlock},
		{"mr 12", "would have to be locked, and RLIMIT_MEMLOCK is 64 KiB", Memlock},
		{"mr 1", "operation not permitted", Permission},
		{"cq 12", "the memory of its queues would have to be locked", Memlock},
		{"qp 95", "no reliable connections", NoRC},
		{"qp 5", "removed", Gone},
		{"init 22", "partition key", NoPKey},
		{"rtr 19", "another network namespace", NotHere},
		{"rtr 22", "there is no way", NoGID},
		{"rtr 110", "does not resolve from fake0 port 1 (RoCE v2 10.9.0.1, index 1)", Unreachable},
		{"rtr 22 negative 1", "there is no way", NoGID},
		{"rts 5", "removed", Gone},
		{"rts 200", "errno 200", Other},
		{"post 5", "post a message", Gone},
		{"post 12", "post a message", Resources},
		{"wc 12", "nothing arrives", Unreachable},
		{"wc 10", "protects its memory from the request (REM_ACCESS_ERR), vendor error 0x81", Rejected},
		{"wc 19", "the device has failed", Gone},
		{"wc 77", "status 77", Other},
		{"wc 12 falls 1", "fake0 port 1 is down", PortDown},
		{"wc 5 later 5", "fake0 no longer answers", Gone},
		{"corrupt 1", "a message of 64 bytes arrived with another byte at 32", Corrupt},
		{"short 1", "another length", Corrupt},
		{"garbage 1000", "no longer tells", Gone},
		{"deaf 1", "no longer tells", Gone},
		{"crashes 1", "ended the process that did", Crashed},
		{"exits 1", "exited with status 3", Crashed},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			fake(t, tt.mode)
			r, err := LoopInChild(t.Context(), LoopTest{Device: "fake0", GID: 1}, ample)
			if tt.cause == "" {
				if err != nil || len(r.Sizes) != 2 || r.Sizes[1].Speed <= 0 || r.Sizes[0].Write.Pings != 100 {
					t.Errorf("result %+v, error %v", r, err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want cause %q", err, tt.cause)
			}
			text := e.Text
			if tt.cause == Memlock { // where these tests run without a limit
				text = strings.ReplaceAll(text, "RLIMIT_MEMLOCK is "+size(memlock(t)), "RLIMIT_MEMLOCK is 64 KiB")
				if memlock(t) == ^uint64(0) {
					if e.Cause != Resources {
						t.Errorf("cause %q without a limit, want %q", e.Cause, Resources)
					}
					return
				}
			}
			if e.Cause != tt.cause || !strings.Contains(text, tt.text) {
				t.Errorf("cause %q: %s; want %q and %q", e.Cause, e.Text, tt.cause, tt.text)
			}
		})
	}
}

// memlock is this process' limit, as /proc tells it.
func memlock(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "Max locked memory")
	var n uint64
	if _, err := fmt.Sscan(strings.Fields(rest)[0], &n); err != nil {
		return ^uint64(0)
	}
	return n
}

func TestADriverThatHangsCostsItsLimit(t *testing.T) {
	for _, mode := range []string{"hangs 1", "silent 1"} {
		t.Run(mode, func(t *testing.T) {
			fake(t, mode)
			begun := time.Now()
			_, err := LoopInChild(t.Context(), LoopTest{Device: "fake0", GID: 1}, 2*time.Second)
			if e := asError(err); e == nil || e.Cause != Stuck && e.Cause != Late {
				t.Errorf("error %v, want %q or %q", err, Stuck, Late)
			}
			if d := time.Since(begun); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestALibraryWithoutWhatATestNeedsIsTooOld(t *testing.T) {
	fake(t, "")
	dir := t.TempDir()
	src := filepath.Join(dir, "old.c")
	text := "#include <stddef.h>\nvoid *ibv_get_device_list(int *n) { static void *l[1]; *n = 0; return l; }\n" +
		"void ibv_free_device_list(void **l) {}\nconst char *ibv_get_device_name(void *d) { return NULL; }\n" +
		"void *ibv_open_device(void *d) { return NULL; }\nint ibv_close_device(void *c) { return 0; }\n"
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	build(t, "IBVERBS_1.1 { global: ibv_*; local: *; };", "-shared", "-fPIC", "-o", filepath.Join(dir, "libibverbs.so.1"), src)
	t.Setenv("LD_LIBRARY_PATH", dir)
	if f := ask(t); !f.Present || len(f.Devices) != 0 {
		t.Errorf("answer %+v, want no devices", f)
	}
	if _, err := LoopInChild(t.Context(), LoopTest{Device: "fake0"}, ample); asError(err) == nil || asError(err).Cause != NoLibrary {
		t.Errorf("error %v, want %q", err, NoLibrary)
	}
}
