package logs

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// prefix is what the beginning of a line says about who wrote it.
type prefix struct {
	label  []byte // which of several mixed streams this is
	rank   int
	local  int
	node   string
	body   []byte
	task   bool          // its rank is the number of a task before the line
	object bool          // it is an event of an object of Kubernetes
	pod    string        // that object, where it is a pod
	age    time.Duration // of that event, as kubectl shows it
}

var (
	rayPrefix     = regexp.MustCompile(`^\(([\w.:<>=, -]*?pid=\d+)(?:, ip=([\w.:]+))?\) ?`)
	sternPrefix   = regexp.MustCompile(`^([a-z][a-z0-9]*(?:-[a-z0-9]+)*-(?:\d+|[a-z0-9]{5})) ([a-z][-a-z0-9]*) `)
	composePrefix = regexp.MustCompile(`^([A-Za-z][\w.-]*\d[\w.-]*|\d+(?:\.[\w-]+)+) *\| `)
	pdshPrefix    = regexp.MustCompile(`^((?:\d+\.){3}\d+|[a-z][a-z.-]*\d[a-z0-9.-]*): `)
	hostPrefix    = regexp.MustCompile(`^([a-z][a-z0-9]*(?:[.-][a-z0-9]+)*[.-][a-z]*\d+(?:\.[a-z][a-z0-9.-]*)?)(?::| >>) `)
	syslogPrefix  = regexp.MustCompile(`^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) [\w./-]+(?:\[\d+\])?: `)
	mailPrefix    = regexp.MustCompile(`^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\dZ ([\w.-]+) [\w./-]+(?:\[\d+\])?:? `)
	isoPrefix     = regexp.MustCompile(`^([A-Za-z][\w.-]*) [\w./-]+\[\d+\]: `) // after a time, of journalctl
	podPrefix     = regexp.MustCompile(`^(/?container_[\w-]+): ?|^<?([0-9a-f]{8})>? (?:\[rank=(\d+)\] )?\|\| `)
	processLabel  = regexp.MustCompile(`(?:^|/)(?:(?:rank ?|default)\d+|(?:[\w@.-]+,)\d+|.*\bpid=\d+)$`)
	streamPrefix  = regexp.MustCompile(`^\[(?:stderr|stdout)\] ?`)
	glogPrefix    = regexp.MustCompile(`^[IWEFDC] ?\d\d-?\d\d \d\d:\d\d:\d\d[.\d]* +(?:\d+ )?[\w./-]+\.\w+:\d+\] `)
	ranked        = regexp.MustCompile(`\brank=(\d+)|^Worker_TP(\d+)\b`) // the latter of vLLM
	datePrefix    = regexp.MustCompile(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} ?`)
	program       = regexp.MustCompile(`^(?:python|lib|eth|en[ops]|ib|collect2|cc1)[\w.-]*$|` +
		`\.(?:so|py|sh|c|cc|cpp|h|hpp|cu)\b`)
	ncclPrefix = regexp.MustCompile(`^(?:\[[^\]]*\] )?([A-Za-z0-9.][\w.-]*):(\d+):\d+ (?:\[-?\d+\] )?`)
	// writer is how MPI and UCX name the host and process that writes; it stays in the line.
	writer = regexp.MustCompile(`^\[(?:mpiexec|proxy:[\d:-]+)(?:@| at )([\w.-]+)\]|` +
		`^(?:\[\d+\.\d+\] )?\[([A-Za-z][\w.-]*|[\da-f]+-[\da-f-]{20,}|[\da-f]{12}):\d+(?: *:\w+)* *\]|` +
		`^\[([A-Za-z][\w.-]*)\]\[\[\d+,\d+\],\d+\]\[|` + // of Open MPI's BTLs
		`^(?:\[\d+\.\d+\] )?\[?([A-Za-z][\w.-]*):(?:mpi_rank_(\d+)\]|rank(\d+)\.[\w.-]+: )`) // of MVAPICH and PSM
	// testWriter is how nccl-tests names the host.
	testWriter = regexp.MustCompile(`^(?: \.\. )?([A-Za-z][\w.-]*)(?:: Test (?:CUDA|HIP|NCCL)| pid \d+: Test) failure `)
	ansi       = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
)

// strip takes the prefixes off a line: those of pods, ranks, tasks and time stamps.
func strip(line []byte) prefix {
	p := prefix{rank: -1, local: -1}
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = ansi.ReplaceAll(line, nil)
	}
	p.body = bytes.TrimPrefix(line, []byte("`")) // of a text in Markdown
	for round := 0; round < 6 && len(p.body) > 0; round++ {
		if !p.one(round) {
			break
		}
	}
	head := p.body[:min(len(p.body), 200)]
	p.logger(head)
	bracket := len(head) > 0 && head[0] == '['
	if p.node == "" && (bracket || bytes.Contains(head, []byte(":rank")) || bytes.Contains(head, []byte(":mpi_rank_"))) {
		if m := writer.FindSubmatch(head); m != nil && !program.Match(m[2]) {
			p.node = string(m[1]) + string(m[2]) + string(m[3]) + string(m[4])
			if rank := string(m[5]) + string(m[6]); p.rank < 0 {
				p.rank = number(rank)
			}
		}
	}
	if p.node == "" && bytes.Contains(head, []byte("Test ")) {
		if m := testWriter.FindSubmatch(head); m != nil {
			p.node = string(m[1])
		}
	}
	return p
}

// one takes one prefix off.
func (p *prefix) one(round int) bool {
	switch c := p.body[0]; {
	case c == '[':
		if m := streamPrefix.Find(p.body); m != nil {
			return p.take(len(m), nil)
		}
		return p.bracket()
	case round > 0 && p.container():
		return true
	case c == '(':
		if m := rayPrefix.FindSubmatch(p.body); m != nil {
			p.node = string(m[2])
			if r := ranked.FindSubmatch(m[1]); r != nil {
				p.rank = number(string(r[1]) + string(r[2]))
			}
			return p.take(len(m[0]), m[1])
		}
	case c == ' ' && nudgedForm().Match(p.body):
		return p.take(bytes.IndexByte(p.body, '['), nil)
	case round == 0 && (c == '|' || c == ' '):
		if n := p.column(); n > 0 {
			return p.take(n, nil)
		}
		return p.counted()
	case c == 'T' && round > 0 && p.tensor():
		return true
	case digit(c) || c == ' ' && p.label == nil:
		if n := stampLen(p.body); n > 0 {
			return p.take(n, nil)
		}
		if n := len(clockForm().Find(p.body)); n > 0 && n < len(p.body) {
			return p.take(n, nil)
		}
		return p.label == nil && p.counted() || round == 0 && (p.host(pdshPrefix) || p.host(composePrefix))
	case c >= 'A' && c <= 'Z' && round == 0:
		if m := datePrefix.FindSubmatch(p.body); m != nil {
			return p.take(len(m[0]), nil)
		}
		return p.host(syslogPrefix) || p.host(mailPrefix)
	case c >= 'a' && c <= 'z' && round > 0 && p.label == nil:
		return p.host(hostPrefix) || p.host(composePrefix) // after a time
	case c >= 'a' && c <= 'z' && round == 0:
		if p.host(pdshPrefix) || p.host(composePrefix) {
			return true
		}
		end := bytes.IndexByte(p.body[:min(len(p.body), 256)], ' ')
		if end < 0 || bytes.IndexByte(p.body[:end], '-') < 0 || bytes.IndexByte(p.body[:end], ':') >= 0 {
			return false
		}
		if m := sternPrefix.FindSubmatch(p.body); m != nil && !bytes.Contains(m[1], []byte("error")) {
			p.node = string(m[1])
			return p.take(len(m[0]), m[1])
		}
	}
	return false
}

// host takes off the name of the host or container that a collector of logs writes before each line.
func (p *prefix) host(form *regexp.Regexp) bool {
	m := form.FindSubmatch(p.body)
	if m == nil || program.Match(m[1]) {
		return false
	}
	p.node = strings.TrimPrefix(string(m[1]), "slurmstepd-")
	n := len(m[0])
	after := bytes.Index(m[0], m[1]) + len(m[1])
	if at := bytes.Index(m[0][after:], []byte(" slurm")); at >= 0 { // a program that the message is of
		n = after + at + 1
	}
	return p.take(n, m[1])
}

// container takes off the name that a collector of logs writes after the time: of a container, a host, or a process.
func (p *prefix) container() bool {
	head := p.body[:min(len(p.body), 128)]
	named := bytes.HasPrefix(head, []byte("container_")) || bytes.HasPrefix(head, []byte("/container_")) ||
		bytes.Contains(head[:min(len(head), 32)], []byte(" || "))
	if named {
		m := podPrefix.FindSubmatch(head)
		if m == nil {
			return false
		}
		if len(m[3]) > 0 {
			p.rank = number(string(m[3]))
		}
		return p.take(len(m[0]), m[0])
	}
	if !bytes.Contains(head, []byte("]: ")) {
		return false
	}
	return p.host(isoPrefix)
}

// counted takes off seconds since the start, or srun's number of a task.
func (p *prefix) counted() bool {
	at := 0
	for at < len(p.body) && p.body[at] == ' ' {
		at++
	}
	end := digits(p.body, at)
	switch {
	case end == at || end-at > 6 || end+1 >= len(p.body):
		return false
	case p.body[end] == ':' && p.body[end+1] == ' ':
		p.rank, p.task = number(string(p.body[at:end])), true
		return p.take(end+2, p.body[at:end])
	case p.body[end] == '.':
		if last := digits(p.body, end+1); last > end+1 && last < len(p.body) && p.body[last] == ' ' {
			return p.take(last+1, nil)
		}
	}
	return false
}

// bracket takes off a prefix in brackets: of a pod, a rank, a local rank, a rank of MPI, or a time.
func (p *prefix) bracket() bool {
	if n := stampLen(p.body); n > 0 {
		return p.take(n, nil)
	}
	end := bytes.IndexByte(p.body[:min(len(p.body), 300)], ']')
	if end < 1 {
		return false
	}
	in, rest := p.body[1:end], p.body[end+1:]
	if pod, ok := bytes.CutPrefix(in, []byte("pod/")); ok {
		name, _, _ := bytes.Cut(pod, []byte("/"))
		p.node = string(name)
		return p.take(end+1+spaces(rest, 1), in)
	}
	first := len(in)
	for first > 0 && digit(in[first-1]) {
		first--
	}
	n := number(string(in[first:]))
	if n < 0 || n >= 1<<20 || first == 0 && !bytes.HasPrefix(rest, []byte("<std")) {
		return false
	}
	name := in[:first]
	switch tag := bytes.IndexByte(rest[:min(len(rest), 12)], '>'); {
	case len(rest) > 0 && rest[0] == ':' && (string(name) == "rank" || string(name) == "rank "):
		p.rank, p.task = n, false
		return p.take(end+2+spaces(rest[1:], 1), in)
	case string(name) == "rank" && len(rest) > 1 && rest[0] == ' ' && rest[1] != ' ':
		p.rank, p.task = n, false
		return p.take(end+2, in)
	case first > 0 && len(rest) > 0 && rest[0] == ':' && letters(name):
		p.local = n
		return p.take(end+2+spaces(rest[1:], 1), in)
	case (first == 0 || name[first-1] == ',') && bytes.HasPrefix(rest, []byte("<std")) && tag > 0 &&
		len(rest) > tag+1 && rest[tag+1] == ':':
		p.rank, p.task = n, false
		return p.take(end+1+tag+2+spaces(rest[tag+2:], 1), in)
	}
	return false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// digits returns where the digits that begin at a place end.
func digits(b []byte, at int) int {
	for at < len(b) && digit(b[at]) {
		at++
	}
	return at
}

// spaces counts the leading spaces, up to a number.
func spaces(b []byte, most int) (n int) {
	for n < len(b) && n < most && b[n] == ' ' {
		n++
	}
	return n
}

func letters(b []byte) bool {
	for _, c := range b {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// stampLen returns the length of a time with a date and of the space after it; 0: there is none.
func stampLen(b []byte) int {
	const form = "dddd-dd-dd?dd:dd:dd"
	at := 0
	if len(b) > 0 && b[0] == '[' {
		at = 1
	}
	if len(b) < at+len(form)+1 {
		return 0
	}
	for i := range len(form) {
		c := b[at+i]
		if w := form[i]; w == 'd' && !digit(c) || w == '?' && c != 'T' && c != ' ' || w != 'd' && w != '?' && c != w {
			return 0
		}
	}
	end := at + len(form)
	if b[end] == '.' || b[end] == ',' {
		end = digits(b, end+1)
	}
	switch {
	case end < len(b) && b[end] == 'Z':
		if end++; end+1 < len(b) && b[end] == ':' && b[end+1] == ' ' {
			end++
		}
	case end+1 < len(b) && (b[end] == '+' || b[end] == '-') && digit(b[end+1]):
		if end = digits(b, end+1); end < len(b) && b[end] == ':' {
			end = digits(b, end+1)
		}
	}
	if end < len(b) && at == 1 && b[end] == ']' {
		end++
	}
	if end < len(b) && b[end] == ' ' {
		return end + 1
	}
	return 0
}

// take cuts a number of bytes off; a name becomes part of the label.
func (p *prefix) take(n int, name []byte) bool {
	if name != nil {
		if p.label == nil {
			p.label = name
		} else {
			p.label = append(append(p.label[:len(p.label):len(p.label)], '/'), name...)
		}
	}
	p.body = p.body[n:]
	return true
}

// numbers returns a list of them: "0, 2-4".
func numbers(s string) (out []int) {
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		low, high, isRange := strings.Cut(part, "-")
		a, b := number(low), number(high)
		if !isRange {
			b = a
		}
		for n := a; a >= 0 && n <= b && len(out) < maxStreams; n++ {
			out = append(out, n)
		}
	}
	return out
}

// number returns a number of digits only; what is none, or does not fit, is -1.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
