package companion

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// mounted is the /proc of a process that has a file open on /data, in which some file systems have other options than
// "rw", or some mounts, whose places begin with "-" then.
func mounted(options map[string]string) fstest.MapFS {
	var text strings.Builder
	for i, at := range []string{"/", "/data", "/again", "/other"} {
		device := []string{"8:1", "8:2", "8:2", "8:3"}[i]
		of := []string{"/", "/data", "/data", "/other"}[i]
		fmt.Fprintf(&text, "%d 1 %s / %s %s - ext4 /dev/sd%s %s\n", i, device, at, cmp.Or(options["-"+at], "rw"), device[2:],
			cmp.Or(options[of], "rw"))
	}
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	return fstest.MapFS{"7/mountinfo": {Data: []byte(text.String())}, "7/ns/mnt": link("mnt:[1]"), "7/cwd": link("/home"),
		"7/fd/3": link("/data/ckpt/1.pt (deleted)"), "7/fd/4": link("pipe:[9]"), "7/exe": link("/usr/bin/python3"),
		"7/cmdline": {Data: []byte("python\x00t.py\x00")}, "7/environ": {Data: []byte("HOME=/home\x00")}}
}

func TestAFileSystemThatBecomesReadOnlyIsReportedOnce(t *testing.T) {
	set := func(m fstest.MapFS, name, text string) fstest.MapFS {
		m[name] = &fstest.MapFile{Data: []byte(text)}
		return m
	}
	link := func(m fstest.MapFS, name, to string) fstest.MapFS {
		m[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
		return m
	}
	for _, tt := range []struct {
		name          string
		before, after fstest.MapFS
		says          string // "": nothing
	}{
		{"nothing changes", mounted(nil), mounted(nil), ""},
		{"a file is open there", mounted(nil), mounted(map[string]string{"/data": "ro"}),
			"the file system of /data (ext4, /dev/sd2) on n1 is mounted read-only now; it could"},
		{"it demands that", mounted(nil), mounted(map[string]string{"/data": "ro,errors=remount-ro"}),
			"is mounted read-only now, perhaps by the kernel after an error (errors=remount-ro); it could"},
		{"ext4 of today", mounted(nil), mounted(map[string]string{"/data": "rw,emergency_ro"}),
			"can be written to no more since the kernel met an error on it (emergency_ro); it could"},
		{"the root", mounted(nil), mounted(map[string]string{"/": "ro"}), "the file system of / (ext4"},
		{"the command line names it", set(mounted(nil), "7/cmdline", "python\x00--out=/other/run1\x00"),
			mounted(map[string]string{"/other": "ro"}), "the file system of /other"},
		{"the environment names it", set(mounted(nil), "7/environ", "CKPT=/x:/other/run1\x00"),
			mounted(map[string]string{"/other": "ro"}), "the file system of /other"},
		{"a file was opened there since", mounted(nil),
			link(mounted(map[string]string{"/other": "ro"}), "7/fd/5", "/other/x"), "the file system of /other"},
		{"no process of the job uses it", mounted(nil), mounted(map[string]string{"/other": "ro"}), ""},
		{"it was so at the start", mounted(map[string]string{"/data": "ro"}), mounted(map[string]string{"/data": "ro"}), ""},
		{"it was so, and is written to for a moment", mounted(map[string]string{"/data": "ro"}), mounted(nil), ""},
		{"it is mounted anew", set(mounted(nil), "7/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda rw\n"),
			mounted(map[string]string{"/data": "ro"}), ""},
		{"the mount alone refuses", mounted(nil), mounted(map[string]string{"-/data": "ro,relatime"}), ""},
		{"it was so, and the file system refuses", mounted(map[string]string{"-/data": "ro"}),
			mounted(map[string]string{"-/data": "ro", "/data": "ro"}), ""},
	} {
		w, at := newWrites("n1"), time.Unix(1000, 0)
		w.proc = tt.before
		w.uses([]int{8, 7})
		if early := w.look(at); len(early) > 0 {
			t.Errorf("%s: reported at the start: %+v", tt.name, early)
		}
		w.proc = tt.after
		got := w.look(at.Add(2 * time.Second))
		if len(got) != min(len(tt.says), 1) || len(got) > 0 && !strings.Contains(got[0].What, tt.says) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		w.uses([]int{7})
		if again := w.look(at.Add(20 * time.Second)); len(again) > 0 {
			t.Errorf("%s: reported again: %+v", tt.name, again)
		}
		if (w.last() != "") != (tt.says != "") {
			t.Errorf("%s: before the end of a rank %q became read-only", tt.name, w.last())
		}
	}
}

// A checkpoint is open for seconds: the file system was in use some time ago. One that can be written to again, and
// then no more, is reported again.
func TestAFileSystemThatWasUsedBeforeIsReported(t *testing.T) {
	closed := func(options string) fstest.MapFS {
		m := mounted(map[string]string{"/data": options})
		delete(m, "7/fd/3")
		return m
	}
	w, at := newWrites("n1"), time.Unix(1000, 0)
	var got []string
	for i, proc := range []fstest.MapFS{mounted(nil), closed(""), closed("ro"), closed("ro"), closed(""), closed("ro")} {
		if w.proc = proc; i < 2 {
			w.uses([]int{7})
		}
		n := len(w.look(at.Add(time.Duration(i) * watchEvery)))
		got = append(got, fmt.Sprintf("%d %s", n, w.last()))
	}
	if want := "0 ,0 ,1 /data,0 /data,0 ,1 /data"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A file system that waits for its server may block what reads a command line of a process that waits for it.
func TestALookDoesNotWaitForACommandLine(t *testing.T) {
	w := newWrites("n1")
	w.proc = mounted(nil)
	w.uses([]int{7})
	waits := stuckFS{mounted(map[string]string{"/data": "ro"}), make(chan struct{}), make(chan struct{})}
	waits.FS.(fstest.MapFS)["7/exe"] = &fstest.MapFile{Data: []byte("/usr/bin/other"), Mode: fs.ModeSymlink}
	w.proc = waits
	done := make(chan struct{})
	go func() { w.uses([]int{7}); close(done) }()
	<-waits.asked
	if got := w.look(time.Unix(1000, 0)); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	close(waits.answer)
	<-done
}

// stuckFS is a /proc of which a command line cannot be read until it answers.
type stuckFS struct {
	fs.FS
	asked, answer chan struct{}
}

func (f stuckFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/cmdline") {
		close(f.asked)
		<-f.answer
	}
	return f.FS.Open(name)
}

func (f stuckFS) ReadLink(name string) (string, error)   { return fs.ReadLink(f.FS, name) }
func (f stuckFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }

// However many processes and files there are, a look takes little of a core.
func TestALookThatTakesLongIsRare(t *testing.T) {
	for _, tt := range []struct{ took, want time.Duration }{
		{100 * time.Microsecond, usedEvery}, {20 * time.Millisecond, 40 * time.Second}, {time.Minute, maxUsedEvery},
	} {
		if got := pauseAfter(tt.took, usedEvery, maxUsedEvery); got != tt.want {
			t.Errorf("after %s: %s, want %s", tt.took, got, tt.want)
		}
	}
}
