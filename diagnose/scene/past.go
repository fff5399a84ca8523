package scene

import (
	"strconv"
	"time"
)

// Past is what the main thread of a process has done before and during a look, as only what watches it all the time
// knows.
type Past struct {
	PID  int           `json:"pid"`
	Over time.Duration `json:"over"` // for so long it was watched, at most MaxPast
	Acts []Act         `json:"acts,omitempty"`
}

// Act is what a thread has done in the time between two samples that ended so long Ago.
type Act struct {
	Ago   time.Duration `json:"ago"`
	Read  int64         `json:"read,omitempty"`  // bytes by read(2)
	Wakes int64         `json:"wakes,omitempty"` // how often it slept and went on
}

// MaxPast is how far back a Past reaches.
const MaxPast = 2 * time.Minute

// Polling returns the processor time so far of the threads of a process that only poll: TensorPipe's, for messages.
func Polling(pid int) (d time.Duration) {
	tids, _ := list(procPath(pid, "task"))
	for _, tid := range tids {
		dir := procPath(pid, "task/"+strconv.Itoa(tid))
		if !polls(readLine(dir + "/comm")) {
			continue
		}
		if s, err := readStat(dir + "/stat"); err == nil {
			d += time.Duration(s.cpu) * (time.Second / perSecond)
		}
	}
	return d
}

// MainThread returns how many bytes the main thread of a process has read by read(2) so far, and how often it has slept
// and gone on. ok is false where that cannot be read.
func MainThread(pid int) (read, wakes int64, ok bool) {
	dir := procPath(pid, "task/"+strconv.Itoa(pid)+"/")
	io, err := readFile(dir + "io")
	status, errStatus := readFile(dir + "status")
	return field(io, "rchar"), field(status, "voluntary_ctxt_switches"), err == nil && errStatus == nil
}
