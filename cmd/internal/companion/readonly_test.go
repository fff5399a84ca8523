package companion

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// mounted is the /proc of a process that has a file open on /data, in which some file systems refuse to write.
func mounted(refuses map[string]string) fstest.MapFS {
	var text strings.Builder
	for i, at := range []string{"/", "/data", "/again", "/other"} {
		device := []string{"8:1", "8:2", "8:2", "8:3"}[i]
		option := "rw"
		if refuses[at] != "" {
			option = refuses[at]
		}
		fmt.Fprintf(&text, "%d 1 %s / %s rw - ext4 /dev/sd%s %s\n", i, device, at, device[2:], option)
	}
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	return fstest.MapFS{"7/mountinfo": {Data: []byte(text.String())}, "7/ns/mnt": link("mnt:[1]"), "7/cwd": link("/home"),
		"7/fd/3": link("/data/ckpt/1.pt (deleted)"), "7/fd/4": link("pipe:[9]"),
		"7/cmdline": {Data: []byte("python\x00t.py\x00")}, "7/environ": {Data: []byte("HOME=/home\x00")}}
}

func TestAFileSystemThatBecomesReadOnlyIsReportedOnce(t *testing.T) {
	set := func(m fstest.MapFS, name, text string) fstest.MapFS {
		m[name] = &fstest.MapFile{Data: []byte(text)}
		return m
	}
	for _, tt := range []struct {
		name          string
		before, after fstest.MapFS
		says          string // "": nothing
	}{
		{"nothing changes", mounted(nil), mounted(nil), ""},
		{"a file is open there", mounted(nil), mounted(map[string]string{"/data": "ro", "/again": "ro"}),
			"the file system of /data (ext4, /dev/sd2) on n1 is mounted read-only now; it could"},
		{"it demands that", mounted(nil), mounted(map[string]string{"/data": "ro,errors=remount-ro"}),
			"is mounted read-only now, perhaps by the kernel after an error (errors=remount-ro); it could"},
		{"ext4 of today", mounted(nil), mounted(map[string]string{"/data": "rw,emergency_ro"}),
			"can be written to no more since the kernel met an error on it (emergency_ro); it could"},
		{"the root", mounted(nil), mounted(map[string]string{"/": "ro"}), "the file system of / (ext4"},
		{"the command line names it", mounted(nil), set(mounted(map[string]string{"/other": "ro"}), "7/cmdline",
			"python\x00--out=/other/run1\x00"), "the file system of /other"},
		{"the environment names it", mounted(nil), set(mounted(map[string]string{"/other": "ro"}), "7/environ",
			"CKPT=/x:/other/run1\x00"), "the file system of /other"},
		{"no process of the job uses it", mounted(nil), mounted(map[string]string{"/other": "ro"}), ""},
		{"it was so at the start", mounted(map[string]string{"/data": "ro"}), mounted(map[string]string{"/data": "ro"}), ""},
		{"it is mounted anew", set(mounted(nil), "7/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda rw\n"),
			mounted(map[string]string{"/data": "ro"}), ""},
	} {
		w, at := newWrites("n1"), time.Unix(1000, 0)
		w.proc = tt.before
		if early := w.look([]int{7}, at); len(early) > 0 {
			t.Errorf("%s: reported at the start: %+v", tt.name, early)
		}
		w.proc = tt.after
		got := w.look([]int{7, 8}, at.Add(2*time.Second))
		if len(got) != min(len(tt.says), 1) || len(got) > 0 && !strings.Contains(got[0].What, tt.says) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if again := w.look([]int{7}, at.Add(20*time.Second)); len(again) > 0 {
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
	closed := func(refuses string) fstest.MapFS {
		m := mounted(map[string]string{"/data": refuses})
		delete(m, "7/fd/3")
		return m
	}
	w, at := newWrites("n1"), time.Unix(1000, 0)
	var reports []int
	for i, proc := range []fstest.MapFS{mounted(nil), closed(""), closed("ro"), closed("ro"), closed(""), closed("ro")} {
		w.proc = proc
		if got := w.look([]int{7}, at.Add(time.Duration(i)*watchEvery)); len(got) > 0 {
			reports = append(reports, i)
		}
	}
	if fmt.Sprint(reports) != "[2 5]" {
		t.Errorf("reported at looks %v", reports)
	}
}
