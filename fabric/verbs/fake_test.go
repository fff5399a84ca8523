package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// ample is the limit of a child that answers at once, on a busy machine.
const ample = 30 * time.Second

func ask(t *testing.T) verbs.Facts {
	t.Helper()
	var f verbs.Facts
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
	if d.Name != "fake63" || !d.Opens || d.Firmware != strings.Repeat("f", 64) || d.GUID != "0200:0000:0000:0001" ||
		d.MaxQP != 100 {
		t.Errorf("device %+v", d)
	}
	p, ok := f.Port("fake63", 1)
	if !ok || p.ActiveMTU != 1024 || p.MaxMTU != 4096 || p.Rate != 800 || p.Lanes != 4 || p.Link != "Ethernet" ||
		!p.Active() {
		t.Errorf("port %+v, want XDR's 800 Gb/s", p)
	}
}

func TestAHostileLibraryDoesNoHarm(t *testing.T) {
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
		cause      verbs.Cause
	}{
		{"", "", ""},
		{"inline 0", "", ""},
		{"link 1", "", ""},
		{"tableless 1", "", ""},
		{"old 1", "", ""},
		{"list 38", "no RDMA stack", verbs.NoStack},
		{"devices 0", `does not list "fake0"`, verbs.NoNode},
		{"open 2", "its file below /dev/infiniband is missing", verbs.NoNode},
		{"open 13", "the mode of its file", verbs.Permission},
		{"open 1", "RDMA namespace", verbs.Permission},
		{"open 19", "removed", verbs.Gone},
		{"open 5", "firmware or hardware", verbs.Faulty},
		{"open 95", "do not match", verbs.Provider},
		{"query-port 5", "query fake0: input/output error", verbs.Gone},
		{"state 1", "fake0 port 1 is down", verbs.PortDown},
		{"state 2", "not configured (INIT)", verbs.PortDown},
		{"link 1 lid 0", "no subnet manager", verbs.NoLID},
		{"gidless 1", "has no GID at index 1; set are none", verbs.NoGID},
		{"pkey 1", "no partition key at index 0", verbs.NoPKey},
		{"pd 12", "allocate a protection domain", verbs.Memlock},
		{"mr 12", "must be locked, and RLIMIT_MEMLOCK is 64 KiB", verbs.Memlock},
		{"mr 1", "operation not permitted", verbs.Permission},
		{"cq 12", "the memory of its queues must be locked", verbs.Memlock},
		{"qp 95", "no reliable connections", verbs.NoRC},
		{"qp 5", "removed", verbs.Gone},
		{"init 22", "partition key", verbs.NoPKey},
		{"rtr 19", "another network namespace", verbs.NotHere},
		{"rtr 22", "no route from", verbs.NoGID},
		{"rtr 110", "does not resolve from fake0 port 1 (RoCE v2 10.9.0.1, index 1)", verbs.Unreachable},
		{"rtr 22 negative 1", "no route from", verbs.NoGID},
		{"rts 5", "removed", verbs.Gone},
		{"rts 200", "errno 200", verbs.Other},
		{"post 5", "post a message", verbs.Gone},
		{"post 12", "post a message", verbs.Resources},
		{"wc 12", "nothing arrives", verbs.Unreachable},
		{"wc 10", "protects its memory from the request (REM_ACCESS_ERR), vendor error 0x81", verbs.Rejected},
		{"wc 19", "the device has failed", verbs.Gone},
		{"wc 77", "status 77", verbs.Other},
		{"wc 12 falls 1", "fake0 port 1 is down", verbs.PortDown},
		{"wc 5 later 5", "fake0 no longer answers", verbs.Gone},
		{"corrupt 1", "a message of 64 bytes arrived with another byte at 32", verbs.Corrupt},
		{"short 1", "another length", verbs.Corrupt},
		{"garbage 1000", "no longer reports", verbs.Gone},
		{"deaf 1", "no longer reports", verbs.Gone},
		{"crashes 1", "that used fake0 crashed", verbs.Crashed},
		{"exits 1", "exited with status 3", verbs.Crashed},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			fake(t, tt.mode)
			r, err := confine.Loop(t.Context(), verbs.Test{Device: "fake0", GID: 1}, ample)
			if tt.cause == "" {
				if err != nil || len(r.Sizes) != 2 || r.Sizes[1].Speed <= 0 || r.Sizes[0].Write.Pings != 100 {
					t.Errorf("result %+v, error %v", r, err)
				}
				return
			}
			var e *verbs.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want cause %q", err, tt.cause)
			}
			text := e.Text
			if tt.cause == verbs.Memlock { // where these tests run without a limit
				text = strings.ReplaceAll(text, "RLIMIT_MEMLOCK is "+verbs.Size(memlock(t)), "RLIMIT_MEMLOCK is 64 KiB")
				if memlock(t) == ^uint64(0) {
					if e.Cause != verbs.Resources {
						t.Errorf("cause %q without a limit, want %q", e.Cause, verbs.Resources)
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

// memlock returns this process' limit from /proc.
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

func TestADriverThatHangsEndsAtTheLimit(t *testing.T) {
	for _, mode := range []string{"hangs 1", "silent 1"} {
		t.Run(mode, func(t *testing.T) {
			fake(t, mode)
			begun := time.Now()
			_, err := confine.Loop(t.Context(), verbs.Test{Device: "fake0", GID: 1}, 2*time.Second)
			if e := verbs.AsError(err); e == nil || e.Cause != verbs.Stuck && e.Cause != verbs.Late {
				t.Errorf("error %v, want %q or %q", err, verbs.Stuck, verbs.Late)
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
	build(t, "IBVERBS_1.1 { global: ibv_*; local: *; };", "-shared", "-fPIC", "-o", filepath.Join(dir, "libibverbs.so.1"),
		src)
	t.Setenv("LD_LIBRARY_PATH", dir)
	if f := ask(t); !f.Present || len(f.Devices) != 0 {
		t.Errorf("answer %+v, want no devices", f)
	}
	if _, err := confine.Loop(t.Context(), verbs.Test{Device: "fake0"}, ample); verbs.AsError(err) == nil ||
		verbs.AsError(err).Cause != verbs.NoLibrary {
		t.Errorf("error %v, want %q", err, verbs.NoLibrary)
	}
}
