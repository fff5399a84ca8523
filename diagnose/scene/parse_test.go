package scene

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseStatSurvivesAnyName(t *testing.T) {
	text := "7 (a) Z 1 () S 3 7 7 0 -1 4194304 10 1 20 2 100 50 30 20 20 0 1 0 12345 0 99 18446744073709551615\n"
	got, err := parseStat(text)
	want := stat{comm: "a) Z 1 (", state: "S", parent: 3, faults: 33, cpu: 200, started: 12345, rss: 99}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestTheTableOfSystemCallsIsThatOfTheKernel(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers below are in the constants of the machine that builds")
	}
	for nr, name := range map[int]string{unix.SYS_READ: "read", unix.SYS_FUTEX: "futex", unix.SYS_RECVFROM: "recvfrom",
		unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_PPOLL: "ppoll", unix.SYS_RESTART_SYSCALL: restart,
		unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_EPOLL_PWAIT2: "epoll_pwait2", unix.SYS_WAITID: "waitid",
		unix.SYS_ACCEPT4: "accept4", unix.SYS_STATX: "statx", unix.SYS_FLOCK: "flock", unix.SYS_CONNECT: "connect",
		unix.SYS_VFORK: "vfork", unix.SYS_WAIT4: "wait4", unix.SYS_FSYNC: "fsync"} {
		if calls[nr].name != name {
			t.Errorf("call %d is %q, want %q", nr, calls[nr].name, name)
		}
	}
}

func TestParseSyscall(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("numbers of amd64")
	}
	for text, want := range map[string]Syscall{
		"7 0x7ffe 0x1 0x1b7740 0x0 0x0 0x0 0x7ffe 0x7f\n":         {Nr: 7, Name: "poll", Limit: 1800 * time.Second, FD: -1},
		"7 0x7ffe 0x1 0xffffffff 0x0 0x0 0x0 0x7ffe 0x7f\n":       {Nr: 7, Name: "poll", Limit: -1, FD: -1},
		"7 0x7ffe 0x1 0xffffffffffffffff 0x0 0x0 0x0 0x7ffe 0x7f": {Nr: 7, Name: "poll", Limit: -1, FD: -1},
		"45 0x3 0x7ffe 0x4 0x0 0x0 0x0 0x7ffe 0x7f":               {Nr: 45, Name: "recvfrom", FD: 3},
		"219 0x3 0x7ffe 0x4 0x0 0x0 0x0 0x7ffe 0x7f":              {Nr: 219, Name: restart, FD: -1},
		"9999 0x3 0x7ffe 0x4 0x0 0x0 0x0 0x7ffe 0x7f":             {Nr: 9999, FD: -1},
	} {
		if got, _, err := parseSyscall(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "running\n", "-1 0x7ffe 0x7f\n", "7 0x1", "7 x x x x x x x x"} {
		if got, _, err := parseSyscall(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func TestHowAThreadWaitsForAFutex(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("numbers of amd64")
	}
	for text, want := range map[string]futex{
		"202 0x55 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f":          {},            // lock.acquire()
		"202 0x55 0x189 0x0 0x7ffe10 0x0 0xffffffff 0x1 0x2": {timed: true}, // lock.acquire(timeout=8)
		"202 0x55 0x80 0x2 0x7ffe10 0x0 0x0 0x7ffe 0x7f":     {timed: true},
		"202 0x55 0x81 0x1 0x7ffe10 0x0 0x0 0x7ffe 0x7f":     {},             // it wakes others
		"202 0x55 0x109 0x0 0x0 0x0 0xffffffff 0x1 0x2":      {shared: true}, // multiprocessing.Lock().acquire()
		"7 0x55 0x80 0x2 0x7ffe10 0x0 0x0 0x7ffe 0x7f":       {},
		"running": {}, "": {},
	} {
		if got := futexOf(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestConcealHidesSecrets(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"python|train.py|--token=abc", "python|train.py|--token=***"},
		{"python|--hf-token|abc|--lr|3", "python|--hf-token|***|--lr|3"},
		{"env|WANDB_API_KEY=abc|python", "env|WANDB_API_KEY=***|python"},
		{"x|--password|--next", "x|--password|--next"},
		{"x|--data=s3://me:abc@host/x", "x|--data=s3://***@host/x"},
		{"bash|-c|export TOKEN=abc; python x", "bash|-c|***"},
		{"x|--tokenizer=llama|--max-tokens=5", "x|--tokenizer=llama|--max-tokens=5"},
		{"x|\x1b[31m", "x|[31m"},
	} {
		if got := strings.Join(conceal(strings.Split(tc.in, "|")), "|"); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestShownHasOnlyWhatPlacesAProcess(t *testing.T) {
	got := shown(map[string]string{"RANK": "1", "AWS_SECRET_ACCESS_KEY": "x", "NCCL_TOKEN": "x", "NCCL_DEBUG": "INFO",
		"GLOO_SOCKET_IFNAME": "lo\x07", "OMPI_COMM_WORLD_SIZE": "4", "HOME": "/", "LAUNCH_TOKEN": "x"})
	want := map[string]string{"RANK": "1", "NCCL_DEBUG": "INFO", "GLOO_SOCKET_IFNAME": "lo", "OMPI_COMM_WORLD_SIZE": "4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestAddressesOfAProcess(t *testing.T) {
	for _, tc := range []struct {
		role     Role
		line     string
		env      map[string]string
		want     string
		wantKind string
	}{
		{Rank, "python", map[string]string{"MASTER_ADDR": "h0", "MASTER_PORT": "29500"}, "h0:29500", kindMaster},
		{Rank, "python", map[string]string{"MASTER_ADDR": "h0"}, "", ""},
		{Rank, "python", map[string]string{"MASTER_ADDR": "fd00::1", "MASTER_PORT": "1"}, "[fd00::1]:1", kindMaster},
		{Agent, "torchrun --master-addr=h0 --master_port 29501 x.py --master-addr=h9", nil, "h0:29501", kindMaster},
		{Agent, "torchrun --master_addr=h0 --master_port=29501 --rdzv_backend=static x.py", nil, "h0:29501", kindMaster},
		{Agent, "torchrun --rdzv-backend=c10d --rdzv_endpoint h0 x.py", nil, "h0:29400", kindEndpoint},
		{Agent, "torchrun --rdzv-backend=c10d --rdzv-endpoint=[fd00::1]:7 x.py", nil, "[fd00::1]:7", kindEndpoint},
		{Agent, "torchrun --rdzv-backend=etcd --rdzv-endpoint=h0:2379 x.py", nil, "", ""},
		{Agent, "torchrun --standalone x.py", nil, "", ""},
		{Agent, "torchrun x.py", map[string]string{"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "h1:5"}, "h1:5",
			kindEndpoint},
		{Agent, "torchrun --rdzv-backend=c10d --rdzv-endpoint=h0:0 x.py", nil, "", ""},
		{Child, "python", map[string]string{"MASTER_ADDR": "h0", "MASTER_PORT": "29500"}, "", ""},
	} {
		p := &seen{role: tc.role, argv: strings.Fields(tc.line), env: tc.env}
		got, kind := "", ""
		for _, a := range p.addresses() {
			got, kind = a.String(), a.kind
		}
		if got != tc.want || kind != tc.wantKind {
			t.Errorf("%s %v: got %q %q, want %q %q", tc.line, tc.env, got, kind, tc.want, tc.wantKind)
		}
	}
}

// A program without torch may serve MASTER_PORT in its own protocol: it is not asked.
func TestOnlyTorchStoresAreAsked(t *testing.T) {
	env := map[string]string{"MASTER_ADDR": "h0", "MASTER_PORT": "29500"}
	elastic := map[string]string{"MASTER_ADDR": "h0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"}
	for _, tc := range []struct {
		name string
		p    *seen
		want int
	}{
		{"torch is mapped", &seen{role: Rank, env: env, libs: map[string]string{"torch": ""}}, 1},
		{"no torch", &seen{role: Rank, env: env, libs: map[string]string{}}, 0},
		{"another library", &seen{role: Rank, env: env, libs: map[string]string{"mpi": "4.1"}}, 0},
		{"not readable", &seen{role: Rank, env: env}, 1},
		{"torchrun's rank before its import", &seen{role: Rank, env: elastic, libs: map[string]string{}}, 1},
		{"torchrun", &seen{role: Agent, argv: []string{"torchrun", "--master-addr", "h0", "x.py"}}, 1},
	} {
		asked := atomic.Int32{}
		ask := func(context.Context, string, int) Store { asked.Add(1); return Store{} }
		if got := stores(t.Context(), []*seen{tc.p}, 0, Options{Store: ask}, &gaps{}); len(got) != tc.want ||
			int(asked.Load()) != tc.want {
			t.Errorf("%s: %d stores, %d asked; want %d", tc.name, len(got), asked.Load(), tc.want)
		}
	}
}

const pySpyText = `Process 2120: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 0x7F21 (active+gil): "uploader"
    run (train.py:9)
Thread 2120 (idle): "MainThread"
    init_process_group (torch/distributed/distributed_c10d.py:2721)
    main (train.py:41)
Thread 2121 (idle)
    x (y.py:1)
`

func TestParseStacksPutsTheMainThreadFirst(t *testing.T) {
	want := []Stack{
		{Thread: "MainThread", State: "idle", From: fromPySpy, Frames: []string{
			"init_process_group (torch/distributed/distributed_c10d.py:2721)", "main (train.py:41)"}},
		{Thread: "uploader", State: "active", From: fromPySpy, Frames: []string{"run (train.py:9)"}},
		{Thread: "2121", State: "idle", From: fromPySpy, Frames: []string{"x (y.py:1)"}},
	}
	if diff := cmp.Diff(want, parseStacks(pySpyText)); diff != "" {
		t.Errorf("stacks (-want +got):\n%s", diff)
	}
}

func TestLastLinesShowAProgressBarAsItIsNow(t *testing.T) {
	got := lastOf([]byte("a\n\n 10%\r 20%\r\n\x1b[1mloss\x1b[0m\x07 3\n"))
	if diff := cmp.Diff([]string{"a", " 20%", "loss 3"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	many := lastOf([]byte(strings.Repeat("x\n", 40)))
	if len(many) != lastLines {
		t.Errorf("%d lines, want %d", len(many), lastLines)
	}
}

// A root's doctor must not run a program that a user can write.
func TestTrustedRefusesWhatOthersCanChange(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "py-spy")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if !trusted(tool, uid) {
		t.Error("refused a file that only this user can change")
	}
	if trusted(tool, uid+1) && uid != 0 {
		t.Error("accepted a file of another user")
	}
	_ = os.Chmod(tool, 0o775)
	if trusted(tool, uid) {
		t.Error("accepted a file that a group can change")
	}
	_, _ = os.Chmod(tool, 0o755), os.Chmod(dir, 0o777)
	if trusted(tool, uid) {
		t.Error("accepted a folder that all can change")
	}
	if _ = os.Chmod(dir, 0o755); uid == 0 && os.Chown(dir, nobody, nobody) == nil && trusted(tool, 0) {
		t.Error("accepted a folder of another user")
	}
}

func TestSoundRefusesWhatNoNodeSends(t *testing.T) {
	for name, change := range map[string]func(*Scene){
		"schema": func(s *Scene) { s.Schema = 99 },
		"year":   func(s *Scene) { s.Procs = []Proc{{Started: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} },
		"span":   func(s *Scene) { s.Span = -1 },
		"items":  func(s *Scene) { s.Sockets = make([]Socket, boundItems+1) },
	} {
		s := Scene{Schema: Schema}
		if change(&s); s.Sound() == nil || s.Bound() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// texts returns whether all texts below a value are clean.
func texts(v reflect.Value) bool {
	ok := true
	switch v.Kind() {
	case reflect.String:
		ok = !strings.ContainsFunc(v.String(), func(r rune) bool { return !unicode.IsPrint(r) })
	case reflect.Pointer:
		return v.IsNil() || texts(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			ok = ok && texts(v.Index(i))
		}
	case reflect.Map:
		for k, x := range v.Seq2() {
			ok = ok && texts(k) && texts(x)
		}
	case reflect.Struct:
		for f, x := range v.Fields() {
			ok = ok && (!f.IsExported() || texts(x))
		}
	}
	return ok
}

func FuzzBound(f *testing.F) {
	b, _ := json.Marshal(Scene{Schema: Schema, Procs: []Proc{{Comm: "a", Env: map[string]string{"RANK": "\x1b"},
		Syscall: &Syscall{}, Stacks: []Stack{{Frames: []string{"x"}}}}}, Stores: []Store{{}}, Sockets: []Socket{{}}})
	f.Add(b)
	f.Add([]byte(`{"schema":1,"addrs":["fe80::1%\u001b[2J"],"stores":[{"board":{"runs":["\u0000"]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Scene
		if json.Unmarshal(b, &s) != nil || s.Bound() != nil {
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("it cannot be written again: %v", err)
		}
		if !texts(reflect.ValueOf(s)) {
			t.Errorf("a control character is left in %+v", s)
		}
		for _, a := range s.Addrs {
			if strings.ContainsFunc(a.Zone(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("zone %q", a.Zone())
			}
		}
	})
}

func FuzzTexts(f *testing.F) {
	f.Add(pySpyText)
	f.Add("7 (a) Z 1 () S 3 7 7 0 -1 4194304 10 1 20 2 100 50 30 20 20 0 1 0 12345 0 99 18446744073709551615\n")
	f.Add("29 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n")
	f.Add("7 0x7ffe 0x1 0x1b7740 0x0 0x0 0x0 0x7ffe 0x7f\n")
	f.Add("torchrun\x00--rdzv-endpoint=[::1]:3\x00--token\x00x\x00")
	f.Add("  sl\n   0: 0100007F:C350 0100007F:733D 01 00000000:00000000 00:00000000 00000000     0        0 4243 1\n")
	f.Add("7f0 r-xp 0 0:1 3 /x/libtorch_cpu.so\n7f0 r-xp 0 0:1 3 /usr/lib/libnccl.so.2.30.7\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseStat(text)
		_, _, _ = parseSyscall(text)
		_ = mountTypes(text)
		_ = agentOptions(split([]byte(text)), variables([]byte(text)))
		_ = libraries(text)
		_ = field([]byte(text), "pos")
		_ = parseTable(strings.NewReader(text), func(s Socket) {
			if !s.Local.IsValid() {
				t.Error("a socket without an address")
			}
		})
		all := append(conceal(split([]byte(text))), lastOf([]byte(text))...)
		for _, s := range parseStacks(text) {
			all = append(append(all, s.Thread, s.State), s.Frames...)
		}
		for k, v := range maps.All(shown(variables([]byte(text)))) {
			all = append(all, k, v)
		}
		for _, s := range all {
			if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("a control character in %q", s)
			}
		}
	})
}

func FuzzDump(f *testing.F) {
	f.Add(append(make([]byte, 16), 80, 0, 0, 0))
	f.Add([]byte("\x58\x00\x00\x00\x14\x00\x02\x00" + strings.Repeat("\x02", 80)))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_, _ = parseDump(b, func([]byte) { n++ })
		if n > len(b)/diagMessage {
			t.Errorf("%d sockets from %d bytes", n, len(b))
		}
	})
}

// py-spy dump --locals prints the variables below each frame: only numbers of ranks, names of workers and types of
// placements are read, of functions of torch.distributed, and of the innermost that has one.
func TestStacksHaveValuesOfTorch(t *testing.T) {
	all := parseStacks(`Process 9: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 9 (idle): "MainThread"
    broadcast (torch/distributed/distributed_c10d.py:4055)
        Arguments:
            tensor: <Tensor at 0x7fcd208494f0>
            src: None
            group_src: 1
    broadcast_object_list (torch/distributed/distributed_c10d.py:5019)
        Arguments:
            object_list: ["secret"]
            src: 1
            group_src: 7
    _env_rendezvous_handler (torch/distributed/rendezvous.py:257)
        Locals:
            rank: 3
            world_size: 4
    init_process_group (torch/distributed/distributed_c10d.py:2721)
        Arguments:
            world_size: -1
            rank: -1
    <module> (train.py:87)
        Locals:
            dst: 3
            to: "secret"
Thread 10 (idle)
    rpc_sync (torch/distributed/rpc/api.py:842)
        Arguments:
            to: "w0"
            func: <function secret at 0x7fcd208494f0>
`)
	want := []Stack{{Thread: "MainThread", State: "idle", From: fromPySpy, Frames: []string{
		"broadcast (torch/distributed/distributed_c10d.py:4055)",
		"broadcast_object_list (torch/distributed/distributed_c10d.py:5019)",
		"_env_rendezvous_handler (torch/distributed/rendezvous.py:257)",
		"init_process_group (torch/distributed/distributed_c10d.py:2721)", "<module> (train.py:87)"},
		Values: map[string]string{"src": "1", "group_src": "1", "rank": "3", "world_size": "4"}},
		{Thread: "10", State: "idle", From: fromPySpy, Values: map[string]string{"to": "w0"},
			Frames: []string{"rpc_sync (torch/distributed/rpc/api.py:842)"}}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

// What another node sends to be pasted has its lines, and nothing else that moves the cursor.
func TestCommandsOfAnotherNodeHaveTheirLines(t *testing.T) {
	s := Scene{Schema: Schema, Ways: []Way{{Fix: "ip rule\nip route\x1b[2J", Wrong: "a\nb"}}}
	if err := s.Bound(); err != nil || s.Ways[0].Fix != "ip rule\nip route[2J" || s.Ways[0].Wrong != "a b" {
		t.Errorf("%v, %+v", err, s.Ways)
	}
}
