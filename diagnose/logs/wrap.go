package logs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// rejoin returns a line together with the one before it, where one message was broken into two lines; nil: it is a line
// of its own.
func (f *follower) rejoin(line []byte) []byte {
	const longest = 2000
	text := bytes.TrimLeft(line, " \t")
	if len(line)-len(text) < 2 || len(text) == 0 || len(line) > longest || len(f.busy) > 0 {
		return nil
	}
	before := bytes.TrimRight(bytes.TrimSuffix(f.chunk, []byte("\n")), "\r")
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	if len(before) == 0 || len(before) > longest || before[0] == ' ' || before[0] == '\t' {
		return nil
	}
	last := before[len(before)-1]
	if last != ',' && last != ']' && (last|0x20 < 'a' || last|0x20 > 'z' || text[0] < 'a' || text[0] > 'z') {
		return nil
	}
	return append(append(bytes.Clone(before), ' '), text...)
}

// wrapped reads a line as the rest of the one before it, and says whether both together have a cause of their own.
func (f *follower) wrapped(line []byte) bool {
	whole := f.rejoin(line)
	if whole == nil {
		return false
	}
	causeOf := func(part []byte) *cause {
		if f.hits = f.scan.find(part, f.hits[:0]); len(f.hits) == 0 {
			return nil
		}
		p := strip(part)
		found, _ := f.match(&p)
		return found
	}
	both := causeOf(whole)
	if both == nil || both.grade >= unknown || both == causeOf(whole[:len(whole)-len(bytes.TrimLeft(line, " \t"))-1]) {
		return false
	}
	f.hits = f.scan.find(whole, f.hits[:0])
	f.hit(whole)
	return true
}

// packed is a line of a log that a container engine or a collector writes as JSON.
type packed struct {
	Log  *string `json:"log"`
	Time string  `json:"time"`
	Host string  `json:"host"`
	Pod  string  `json:"pod"`
}

// unpacked returns the line inside of one of JSON, with its time and host before it; any other line as it is, also one
// with a message of its own: its log is the name of a logger.
func unpacked(line []byte) []byte {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' || !bytes.Contains(line, []byte(`"log":`)) ||
		bytes.Contains(line, []byte(`"message":`)) || bytes.Contains(line, []byte(`"msg":`)) {
		return line
	}
	var in packed
	if json.Unmarshal(line, &in) != nil || in.Log == nil {
		return line
	}
	out := strings.TrimRight(*in.Log, "\r\n")
	if name := cmp.Or(in.Pod, in.Host); name != "" && composePrefix.MatchString(name+" | ") {
		out = name + " | " + out
	}
	if in.Time != "" {
		out = in.Time + " " + out
	}
	return []byte(strings.ReplaceAll(out, "\n", " "))
}
