package scene

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Held is a thread that has Python's global interpreter lock (GIL) and sleeps in the kernel, so that no other thread of
// the process can run Python.
type Held struct {
	Thread string        `json:"thread"`
	At     string        `json:"at"`             // its innermost frame
	Call   string        `json:"call"`           // the system call that it is in; empty: none that matters here
	On     string        `json:"on,omitempty"`   // the file of that call, as "pipe:[123]"
	Over   time.Duration `json:"over,omitempty"` // for how long it has been in that call, at least; 0: not known

	// Place names this wait: the thread, and how often it has run.
	Place string `json:"-"`
}

// A thread that waits for the GIL wakes every 5 ms (sys.getswitchinterval), and asks for it.
const (
	gilWatch = 100 * time.Millisecond
	gilWakes = 8 // within gilWatch, at least
)

// heldBy returns the thread of a process that holds the GIL and sleeps while the main one waits for it; nil: there is
// no such thread, or it is not seen.
func heldBy(ctx context.Context, tool string, pid int) *Held {
	asks := func() (int64, bool) {
		s, _, err := parseSyscall(readLine(procPath(pid, "syscall")))
		status, _ := readFile(procPath(pid, fmt.Sprintf("task/%d/status", pid)))
		return field(status, "voluntary_ctxt_switches"), err == nil && s.Timed
	}
	before, waits := asks()
	if !waits {
		return nil
	}
	sleep(ctx, gilWatch)
	if after, waits := asks(); !waits || after-before < gilWakes {
		return nil
	}
	has := func() (int, *Held) {
		text, err := pySpy(ctx, tool, "--json", "--pid", strconv.Itoa(pid))
		if err != nil {
			return 0, nil
		}
		return owner(text)
	}
	tid, out := has()
	if tid == 0 || tid == pid {
		return nil
	}
	path := procPath(pid, "task/"+strconv.Itoa(tid)+"/")
	was := ran(readLine(path + "schedstat"))
	sleep(ctx, gilWatch)
	s, _, err := parseSyscall(readLine(path + "syscall"))
	if err != nil || s.ends() || was == "" {
		return nil
	}
	if again, _ := has(); again != tid || was != ran(readLine(path+"schedstat")) {
		return nil // it has run, and may have released the lock before it slept
	}
	out.Place = fmt.Sprintf("%d %s", tid, was)
	if out.Call = s.Name; s.FD >= 0 {
		link, _ := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(s.FD)))
		out.On = clean(link, maxValue)
	}
	return out
}

// ends reports whether a system call has a time limit: the thread goes on without help.
func (s Syscall) ends() bool {
	return s.Timed || s.Name == "poll" && s.Limit >= 0 ||
		slices.Contains([]string{"nanosleep", "clock_nanosleep", "select", "pselect6"}, s.Name)
}

// owner returns the thread that has the GIL, from py-spy dump --json; 0: no thread has it.
func owner(text string) (tid int, out *Held) {
	var all []struct {
		Name   string `json:"thread_name"`
		TID    int    `json:"os_thread_id"`
		Owns   bool   `json:"owns_gil"`
		Frames []struct {
			Name string `json:"name"`
			File string `json:"short_filename"`
			Line int    `json:"line"`
		} `json:"frames"`
	}
	if json.Unmarshal([]byte(text), &all) != nil {
		return 0, nil
	}
	for _, t := range all {
		if t.Owns && len(t.Frames) > 0 {
			f := t.Frames[0]
			return t.TID, &Held{Thread: clean(t.Name, maxValue), At: clean(fmt.Sprintf("%s (%s:%d)", f.Name, f.File, f.Line),
				maxValue)}
		}
	}
	return 0, nil
}
