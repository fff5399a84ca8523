package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"launch/fabric"
)

func build(t *testing.T, links map[string]string, files ...string) *tree {
	t.Helper()
	tr := newTree()
	for _, name := range files {
		if err := tr.file(name, "content of "+name); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := tr.link(name, target); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func TestTreeBehavesAsAFileSystem(t *testing.T) {
	tr := build(t, map[string]string{"sys/class/net/eth0": "../../devices/eth0"}, "sys/devices/eth0/mtu",
		"proc/self/limits")
	if err := fstest.TestFS(tr, "sys/class/net/eth0", "sys/devices/eth0/mtu", "proc/self/limits"); err != nil {
		t.Error(err)
	}
}

func TestLinksAreFollowedAsTheKernelFollowsThem(t *testing.T) {
	tr := build(t, map[string]string{
		"class/a":      "../devices/bus/dev",
		"class/again":  "a/again",
		"devices/up":   "../../../../devices/bus", // above the root is the root
		"class/abs":    "/devices/bus/dev",
		"class/gone":   "../devices/none",
		"class/loop":   "loop2",
		"class/loop2":  "loop",
		"devices/self": ".",
	}, "devices/bus/dev/mtu", "devices/bus/dev/again/deep")
	for name, want := range map[string]string{
		"class/a/mtu": "devices/bus/dev/mtu", "class/again/deep": "devices/bus/dev/again/deep",
		"devices/up/dev/mtu": "devices/bus/dev/mtu",
		"class/abs/mtu":      "devices/bus/dev/mtu", "devices/self/self/bus/dev/mtu": "devices/bus/dev/mtu",
	} {
		if got, err := fs.ReadFile(tr, name); err != nil || string(got) != "content of "+want {
			t.Errorf("%s = %q, %v, want the content of %s", name, got, err, want)
		}
	}
	for name, want := range map[string]error{
		"class/gone": fs.ErrNotExist, "class/loop": syscall.ELOOP, "class/a/mtu/x": syscall.ENOTDIR,
		"class/none": fs.ErrNotExist, "../class": fs.ErrInvalid,
	} {
		if _, err := tr.Open(name); !errors.Is(err, want) {
			t.Errorf("open %s: %v, want %v", name, err, want)
		}
	}
	if target, err := fs.ReadLink(tr, "class/gone"); err != nil || target != "../devices/none" {
		t.Errorf("a link that dangles reads %q, %v", target, err)
	}
	if _, err := fs.ReadLink(tr, "devices/bus"); err == nil {
		t.Error("a directory reads as a link")
	}
	sub := tr.at("class")
	if target, err := fs.ReadLink(sub, "gone"); err != nil || target != "../devices/none" {
		t.Errorf("a root below the tree reads a link as %q, %v", target, err)
	}
	if got, err := fs.ReadFile(sub, "a/mtu"); err != nil || len(got) == 0 {
		t.Errorf("a link from a root leads nowhere: %v", err)
	}
}

func TestAFileThatFailsIsThereAndFails(t *testing.T) {
	tr := newTree()
	if err := tr.fail("speed", syscall.EINVAL); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(tr, "speed"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("reading it: %v, want EINVAL", err)
	}
	if _, err := fs.Stat(tr, "speed"); err != nil {
		t.Errorf("stat: %v, want that it is there", err)
	}
}

func TestHostileManifestsAreRefusedWithAReason(t *testing.T) {
	manifest := func(body string) string { return `{"format":"sysfs-manifest/1",` + body + `}` }
	deep := strings.Repeat("a/", 100) + "b"
	for name, tt := range map[string]struct{ in, want string }{
		"an absolute path":       {manifest(`"files":{"/etc/passwd":"x"}`), `"/etc/passwd" is not a path below the root`},
		"a way out":              {manifest(`"files":{"sys/../../etc/passwd":"x"}`), "is not a path below the root"},
		"the root itself":        {manifest(`"dirs":["."]`), `"." is not a path below the root`},
		"no name":                {manifest(`"symlinks":{"":"x"}`), `"" is not a path below the root`},
		"a zero byte":            {manifest(`"files":{"a\u0000b":"x"}`), "is not a path below the root"},
		"a file and a directory": {manifest(`"files":{"a":"x","a/b":"y"}`), `"a`},
		"a link and a file":      {manifest(`"files":{"a":"x"},"symlinks":{"a":"b"}`), `"a" is there twice`},
		"below a link":           {manifest(`"dirs":["a/b"],"symlinks":{"a":"c"}`), `"a" is there twice`},
		"an empty link":          {manifest(`"symlinks":{"a":""}`), `link "a" has a target of 0 bytes`},
		"an endless link": {manifest(`"symlinks":{"a":"` + strings.Repeat("x", 5000) + `"}`),
			`link "a" has a target of 5000 bytes`},
		"a deep path": {manifest(`"files":{"` + deep + `":"x"}`), "is deeper than 64 directories"},
		"another format": {`{"format":"sysfs-manifest/2"}`,
			`its format is "sysfs-manifest/2", not launch-recording/1 or sysfs-manifest/1`},
		"no format":   {`{}`, `its format is ""`},
		"other JSON":  {`{"format":7}`, "cannot unmarshal number"},
		"half a file": {manifest(`"files":{"a":"x"`)[:30], "unexpected end of JSON input"},
		"an unknown error": {`{"format":"launch-recording/1","errors":{"a":"EWHAT"}}`,
			`file "a": unknown error "EWHAT"; known are [EACCES`},
		"something else":     {"GIF89a", "it is neither JSON nor begins with machine/1"},
		"nothing":            {"", "it is neither JSON nor begins with machine/1"},
		"an invalid address": {`{"format":"launch-recording/1","answers":{"links":[{"addrs":["10.0.0.5"]}]}}`, "no '/'"},
	} {
		_, err := Read([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.HasPrefix(err.Error(), "read recorded machine: ") {
			t.Errorf("%s: error %v, want %q in it", name, err, tt.want)
		}
	}
}

func TestHugeManifestsAreRefused(t *testing.T) {
	tr := newTree()
	var err error
	for i := 0; err == nil && i <= maxEntries; i++ {
		err = tr.file(fmt.Sprint(i), "")
	}
	if err == nil || !strings.Contains(err.Error(), "more than 200000 entries") {
		t.Errorf("error %v, want that there are too many", err)
	}
	tr = newTree()
	if err := tr.file("a", strings.Repeat("x", maxBytes)); err == nil ||
		!strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("error %v, want that it is too large", err)
	}
}

func TestMistakesInADescriptionNameTheirLine(t *testing.T) {
	for in, want := range map[string]string{
		"machine/1\nhost a\nfrobnicate x": "line 3: frobnicate: unknown keyword",
		"machine/1\npci0000:00\n  0000:00:01.0 15b3 0207": "line 3: 0000:00:01.0: want VENDOR:DEVICE " +
			"CLASS [DRIVER], or bridge",
		"machine/1\npci0000:00 numba=1":                                `line 2: pci0000:00: it has no "numba"`,
		"machine/1\nvirtual\n  net eth0 addr=10.0.0.5":                 "line 3: net: ",
		"machine/1\nvirtual\n  hca a\n    port 1\n      gid x fe80::1": "line 5: gid: ",
		"machine/1\nvirtual\n  hca a\n    port 1\n      gid 0 nowhere": "line 5: gid: ",
		"machine/1\nvirtual\n  hca a\n    port 1 slots=99999":          "slots is not a number up to 1024",
		"machine/1\nroute eth0 here":                                   "line 2: route: ",
		"machine/1\nhost \"a":                                          "line 2: a quote does not end",
		"machine/1\nshm plenty": `line 2: shm: ` +
			`"plenty" is not a number of bytes`,
		"machine/1\nnvml {":                                                  "line 2: nvml: ",
		"machine/1\nfile ../../etc/passwd x":                                 "is not a path below the root",
		"machine/1\nvirtual\n  net eth0\n  net eth0":                         "is there twice",
		"machine/1\nerror a EWHAT":                                           "unknown error",
		"machine/1\n" + strings.Repeat(" ", 0) + nested(100):                 "deeper than 64 levels",
		"machine/1\npci0000:00\n  0000:00:01.0 bridge\n    hca x\n    hca x": "is there twice",
	} {
		if _, err := Read([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q in it", in, err, want)
		}
	}
}

func nested(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sx\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":"sysfs-manifest/1","dirs":["sys/a"],` +
		`"symlinks":{"sys/class/infiniband/mlx5_0":"../../devices/x","sys/class/net/eth0":"../../devices/x"},` +
		`"files":{"sys/devices/x/ports/1/state":"4: ACTIVE\n"}}`))
	f.Add([]byte(`{"format":"launch-recording/1","answers":{"links":[{"name":"eth0","index":2,"addrs":["10.0.0.5/24"]}],` +
		`"environment":{"container":"x"}},"errors":{"sys/a":"EINVAL"},"acs":{"sys/b":"on"}}`))
	f.Add([]byte("machine/1\nhost a\npci0000:00 numa=1\n  0000:00:01.0 bridge acs=on\n    0000:01:00.0 15b3:1021 0207 " +
		"mlx5_core gen=5 iommu=DMA\n      hca mlx5_0 type=MT4129\n        port 1 ACTIVE LinkUp 400 InfiniBand lid=0x1 " +
		"slots=4\n          gid 0 fe80::1 v2 eth0\n      net eth0 addr=10.0.0.5/24\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(data)
		if err != nil {
			return
		}
		rec := NewRecorder(m.Roots())
		n := fabric.Detect(t.Context(), rec.Roots(), fabric.Options{})
		again, err := rec.File(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(again); err != nil {
			t.Errorf("what was recorded does not read: %v\n%s", err, again)
		}
	})
}

// The bridge above a card shows how many lanes its slot has.
func TestTheSlotOfACard(t *testing.T) {
	m, err := Read([]byte("machine/1\npci0000:00\n  0000:00:01.0 bridge maxlanes=8\n" +
		"    0000:01:01.0 1002:744c 0300 amdgpu lanes=8 maxlanes=16\n  0000:00:02.0 bridge maxlanes=16\n" +
		"    0000:02:01.0 1002:744c 0300 amdgpu lanes=16 maxlanes=16\n"))
	if err != nil {
		t.Fatal(err)
	}
	for addr, slot := range map[string]int{"0000:01:01.0": 8, "0000:02:01.0": 0} {
		if p, ok := m.Detect(t.Context()).Function(addr); !ok || p.Slot != slot {
			t.Errorf("%s: a slot of %d lanes, want %d", addr, p.Slot, slot)
		}
	}
}
