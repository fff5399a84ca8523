package logs

import (
	"bytes"
	"slices"
)

// proof is what the log that is read shows of a program that works: results of a benchmark, the greetings of all ranks,
// or the answers of a server.
type proof struct {
	table   bool             // the head of a table of results was there
	greeted map[int]bool     // ranks that did
	command int64            // the line, of all logs, with the last command that starts a program
	given   map[ending]int64 // the last line where a program said that it has ended well
	probed  map[int]int64    // of files: the last line where a server answered a probe
	spans   []span
	runs    []run
}

// ending is what has ended well: the program of a command, by its line, or only one process of it, by its stream.
type ending struct {
	command int64
	st      *stream
}

// span are lines between a command and the last proof that its program works.
type span struct{ file, from, to int64 }

const markProof = "proof"

// proofWords are in the lines of the forms below.
var proofWords = []string{"# OSU ", "algbw", "#repetitions", "#iterations", "ello world", "ello World", "ello, world",
	"ello, World", "ello from", "mpirun ", "mpiexec ", "srun ", "torchrun ", "Application startup complete",
	"\" 200 OK", "server is fired up", "Uvicorn running on ", "Started HTTPService at ",
	"Started GRPCInferenceService at ", "hroughput: ", "otal images/sec: ", "Benchmark Result ===", "'train_runtime': ",
	"\"train_runtime\": ", " stopped: `max_", "exiting program at iteration ", "after training is done",
	" exits successfully", "JOB_COMPLETE", "deepspeed ", "accelerate launch ", "horovodrun "}

var (
	tableForm = re(`^# OSU |^#.*\balgbw\b.*\bbusbw\b|^\s*#bytes +#(?:repetitions|iterations)\b`)
	greetForm = re(`(?i)\bhello,? .*\b(?:rank|proc|process|processor|task)[ :#=]+` +
		`(?P<rank>\d+)(?: of | out of |/)(?P<of>\d+)\b`)
	// readyForm is how a server reports that it has begun, or that it has answered a request.
	readyForm = re(`\bApplication startup complete\b|\bserver is fired up\b|\bUvicorn running on http|` +
		`\bStarted (?:HTTP|GRPCInference)Service at |"(?:POST|PUT) /\S* HTTP/[\d.]+" 200 OK`)
	// probedForm is how it answers a probe, which proves nothing of what it computes.
	probedForm = re(`"GET /(?:\S*/)?(?:healthz?|readyz?|ready) HTTP/[\d.]+" 200 OK`)
	// givenForm is how programs end with what they did.
	givenForm = re(`hroughput: \d[\d.]* requests|otal images/sec: |Benchmark Result ===|train_runtime['"]: |` +
		` stopped: .max_|^orun_recv - JOB_COMPLETE|exiting program at iteration |\[after training is done\]`)
	// exitedForm is how a launcher reports that one of its processes ended well.
	exitedForm  = re(`Process \d+ exits successfully`)
	commandForm = re(`^(?:\S*[$#>%] +|\[[^\]]*\][$#] +|\+ +)?(?:[A-Z_]+=\S+ +)*(?:/\S*/)?` +
		`(?:(?:mpirun|mpiexec|srun|torchrun|accelerate launch|horovodrun) [\w./-]|deepspeed (?:--?\w|\S+\.py\b))`)
)

// restart forgets what the log before had.
func (p *proof) restart(line int64) {
	p.table, p.greeted, p.command = false, map[int]bool{}, line
}

// proves reads a line with such a word.
func (f *follower) proves(st *stream, body []byte) {
	p := &f.proof
	switch {
	case commandForm().Match(body):
		p.restart(f.lines)
		p.begins(run{file: f.index, line: f.lines, text: string(body), st: st})
	case tableForm().Match(body):
		p.table = true
	case readyForm().Match(body):
		f.proved()
	case givenForm().Match(body):
		p.gave(ending{p.command, nil}, f.lines)
	case exitedForm().Match(body):
		p.gave(ending{p.command, st}, f.lines)
	case probedForm().Match(body):
		p.probed[f.index] = f.lines
	default:
		m := greetForm().FindSubmatch(body)
		if m == nil {
			return
		}
		v := values(greetForm(), m)
		if rank, of := number(v["rank"]), number(v["of"]); rank >= 0 && rank < of && of > 1 && len(p.greeted) < maxStreams {
			p.greeted[rank] = true
			if len(p.greeted) >= of {
				f.proved()
			}
		}
	}
}

// gave notes that a program has ended well.
func (p *proof) gave(e ending, line int64) {
	if len(p.given) < maxStreams {
		p.given[e] = line
	}
}

// endedWell returns the last line that says so of the program of an event, or of its process; 0: there is none.
func (p *proof) endedWell(e *event) int64 {
	return max(p.given[ending{e.command, nil}], p.given[ending{e.command, e.st}])
}

// proved notes that what was written since the last command is no failure of it.
func (f *follower) proved() {
	f.moved = true
	s := span{int64(f.index), f.proof.command, f.lines}
	if n := len(f.proof.spans); n > 0 && f.proof.spans[n-1].file == s.file && f.proof.spans[n-1].from == s.from {
		f.proof.spans[n-1] = s
	} else if n < maxEvents {
		f.proof.spans = append(f.proof.spans, s)
	}
}

// result says whether a line is a row of results: a size, and numbers, of which one has a decimal point.
func result(line []byte) bool {
	const longest = 200
	p := strip(line[:min(len(line), longest)])
	fields := bytes.Fields(p.body)
	if len(fields) < 2 || digits(fields[0], 0) != len(fields[0]) {
		return false
	}
	return slices.ContainsFunc(fields[1:], func(w []byte) bool {
		whole := digits(w, 0)
		return whole > 0 && whole+1 < len(w) && w[whole] == '.' && digits(w, whole+1) == len(w)
	}) && !slices.ContainsFunc(fields, func(w []byte) bool { return len(w) > 24 })
}

// disproved returns the events without those after which the program of the same command gave its results, and those.
// An error of the program, the end of a process, or of its wait for others, is never one of them, nor is what was there
// with it. A warning that one sign of progress undoes may be, and an interface that MPI tries: it may have another one.
func (f *follower) disproved(all []*event) (live, passed []*event) {
	within := func(e *event) bool {
		if e.cause.id == "log.k8s-probe" && e.order < f.proof.probed[e.file] {
			return true
		}
		return slices.ContainsFunc(f.proof.spans, func(s span) bool {
			return s.file == int64(e.file) && e.order > s.from && e.order < s.to
		})
	}
	for _, e := range all {
		final := e.cause.grade <= failed && e.cause.grade != family || e.cause.grade >= waits && e.cause.grade <= cascade ||
			slices.Contains(ends, e.cause.id)
		if final && !e.cause.soft && e.cause.id != "log.wrong-interface" && within(e) {
			return all, nil
		}
	}
	for _, e := range all {
		if within(e) {
			passed = append(passed, e)
		} else {
			live = append(live, e)
		}
	}
	return live, passed
}

// outdone returns the events without lines that only look like errors, after which the program said that it has ended
// well, and those. They are left out where the logs have nothing else.
func (f *follower) outdone(live []*event) (rest, passed []*event) {
	if slices.ContainsFunc(live, func(e *event) bool { return e.cause.grade < harmless }) {
		return live, nil
	}
	for _, e := range live {
		if e.cause.grade == unknown && e.order < f.proof.endedWell(e) {
			passed = append(passed, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest, passed
}
