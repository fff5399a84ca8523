package scene

import "testing"

func TestWhichThreadHasTheGIL(t *testing.T) {
	const frames = `"frames":[{"name":"prefetch","filename":"/w/train.py","short_filename":"train.py","line":7}]`
	for _, tt := range []struct {
		text string
		tid  int
		at   string
	}{
		{`[{"thread_name":"waits","os_thread_id":21,"owns_gil":false,` + frames + `},` +
			`{"thread_name":"prefetch","os_thread_id":20,"owns_gil":true,` + frames + `}]`, 20, "prefetch (train.py:7)"},
		{`[{"thread_name":"waits","os_thread_id":21,"owns_gil":false,` + frames + `}]`, 0, ""},
		{`[{"thread_name":"x","os_thread_id":21,"owns_gil":true,"frames":[]}]`, 0, ""},
		{`Thread 7`, 0, ""},
	} {
		tid, h := owner(tt.text)
		if tid != tt.tid || h != nil && (h.At != tt.at || h.Thread != "prefetch") {
			t.Errorf("%s: %d, %+v", tt.text, tid, h)
		}
	}
}

// A sleep, or a wait with a time limit, ends without help.
func TestWhichCallsEndWithoutHelp(t *testing.T) {
	for _, tt := range []struct {
		call Syscall
		ends bool
	}{
		{Syscall{Name: "futex"}, false},
		{Syscall{Name: "futex", Timed: true}, true},
		{Syscall{Name: "read"}, false},
		{Syscall{Name: "poll", Limit: -1}, false},
		{Syscall{Name: "poll", Limit: wait(5000)}, true},
		{Syscall{Name: "clock_nanosleep"}, true},
	} {
		if tt.call.ends() != tt.ends {
			t.Errorf("%+v: %v", tt.call, !tt.ends)
		}
	}
}
