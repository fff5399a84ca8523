package logs

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"
	"sync"
)

// grade is what a line of a kind is worth.
type grade int

const (
	// decisive: nothing else gives this line.
	decisive grade = iota
	// family: a few known causes give it.
	family
	// failed: a program ended with an error of its own.
	failed
	// open: an error with many causes.
	open
	// waits: a process gave up waiting for others.
	waits
	// ended: the end of a process, without its error.
	ended
	// cascade: another process failed before.
	cascade
	// harmless: also in the logs of healthy jobs.
	harmless
	// unknown: it looks like an error, and the table does not have it.
	unknown
	// maybe: it may be an error, and counts where the logs have nothing else.
	maybe
	// fact: no failure; what a cause may need.
	fact
)

// cause is one row of the table.
type cause struct {
	id      string
	grade   grade
	words   []string                     // one of them is in the line
	form    form                         // and this matches; its groups are for says
	not     []string                     // the line has not one of these
	unless  form                         // and this does not match
	with    string                       // a fact that the log has shown before; {fact} is its value where it has one only
	recalls string                       // a fact that it may have shown before; {latest} is its value
	but     string                       // a fact that it does not show, before or after
	here    bool                         // its fact (but) must be of the same host; of a fact: its value is the host
	test    func(map[string]string) bool // and these values of the form
	soft    bool                         // one sign of progress after it, and it is no failure
	stays   bool                         // no sign of progress after it undoes it
	job     bool                         // who reports it is not to blame; its groups a and b may be
	noise   bool                         // no failure where the program of the same command gave its results
	retried bool                         // the program tries again: alone it decides nothing
	warns   bool                         // the program goes on after it: alone it decides nothing
	wraps   bool                         // the reason is on another line near it, as a rule
	again   bool                         // after it the job starts again, often in the same log
	frame   bool                         // a fact of the frames of tracebacks
	quiet   bool                         // counts only where the log has no other failure, or another line of this cause
	client  bool                         // of ssh: what its server writes so is no failure
	server  bool                         // only in the log of a server of ssh
	among   string                       // a fact that has the value host of the form among its values
	login   bool                         // of ssh, where it reached the login to that host
	later   []string                     // one of them is in lines soon after it
	more    form                         // what these add to its values
	says    string                       // {who}, and groups of form
	do      string
	need    []string
	from    string // where the mechanism is described
	row     int    // in the table
}

// table returns all causes.
func table() []cause {
	var out []cause
	for _, part := range [][]cause{
		trainerCauses, frameworkCauses, gatheredCauses, peerCauses, leftoverCauses,
		deviceCauses, downloadCauses, recorderCauses, coordinationCauses, countCauses, addressCauses, serviceCauses,
		jobCauses, socketCauses, topologyCauses, driverCauses, nameCauses,
		commandCauses, noRouteCauses, torchCauses, rayCauses, neuronCauses, trainingCauses, fabricCauses, messageCauses,
		torchWaits, lossCauses, ncclCauses, hcclCauses, npuCauses, adapterCauses, efaCauses, transferCauses, rdmaCauses,
		imageCauses, clusterCauses, startCauses, podCauses,
		schedulerCauses, demandCauses, programCauses, onecclCauses, batchCauses, cancelCauses, slurmNotes,
		kernelCauses, cudaCauses, ncclLast, ncclOpen, sshCauses, mpiCauses, hostCauses, bareCauses, stackCauses, endCauses,
		rosterCauses, unknownCauses, facts, jobFacts, hostFacts,
		socketFacts, messageFacts, rayFacts, deviceFacts, coordinationFacts, countFacts, adapterFacts,
		topologyFacts, nameFacts, trainerFacts, addressFacts,
	} {
		out = append(out, part...)
	}
	return out
}

// The words that the follower itself looks for.
const (
	wordTrace     = "Traceback (most recent call last)"
	wordRoot      = "Root Cause"
	wordError     = "Error:"
	wordException = "Exception:"
	wordInit      = " Init "
	wordWatchdog  = "Watchdog caught collective operation timeout"
	wordEnqueued  = "last enqueued"
	wordLastWork  = "Last enqueued" // by the heartbeat monitor
	wordHost      = "Local host:"

	// What other words mean to it.
	markProgress = "progress"
	markBox      = "box"
	markMore     = "more"
	markChain    = "chain"
	markSSH      = "ssh"
	markReport   = "report"
	markPlaced   = "placed"
	markConfig   = "config"
	markFrame    = "frame"
	markBus      = "bus"
)

// stepWords are signs of a job that computes or has ended well.
var stepWords = []string{
	"loss", "it/s", "s/it", "step ", "Step ", "step=", "steps", "Epoch", "epoch", "iteration ", "iter ", "tokens/s",
	"samples/s", "images/sec", "throughput", "succeeded", "inished", "completed", "collective done", "perplexity",
	"accuracy",
	"bus bandwidth", "busbw", "lapsed Time", "lapsed time", "est passed", "est Passed", "ests passed",
}

// jobStep is in lines of Slurm about a step of the job, which is no step of its program.
const jobStep = "ob step "

var optionForm = re(`(?:^|[\s'"])--[a-z][\w-]*`)

// argued says whether a line has the arguments of a program, which may name steps.
func argued(line []byte) bool {
	return bytes.Contains(line, []byte("Namespace(")) || bytes.Contains(line, []byte("--")) && optionForm().Match(line)
}

// progressWords are signs of a job that goes on: these, and those of its start.
var progressWords = append(stepWords[:len(stepWords):len(stepWords)],
	"Init COMPLETE", "Registered to: ", "Using network ", "Rendezvous complete", "has connected to", "connected to",
	"init_process_group returned",
	"checkpoint", "uccessful", "Started container", "Loading extension module", "Time to load ", "reducer.cpp",
	"slurmd started on ", "slurmd version ", "status is now: NodeReady", "timeout recovered", "EQEs on EQ",
	"Starting with JobEnvironment", "esuming from", "esumed from")

// latestFact is the name of the value that the log has shown last of the fact that a cause needs or recalls.
const latestFact = "latest"

// values returns the named groups that matched.
func values(form *regexp.Regexp, m [][]byte) map[string]string {
	out := map[string]string{}
	for i, name := range form.SubexpNames() {
		if name != "" && out[name] == "" && i < len(m) {
			out[name] = strings.TrimSpace(string(m[i]))
		}
	}
	return out
}

// matches says whether a line is of this kind, and returns its values.
func (c *cause) matches(line []byte, f *follower) (map[string]string, bool) {
	if c.with != "" && !f.shown(c.with) || c.but != "" && !c.here && f.shown(c.but) {
		return nil, false
	}
	for _, n := range c.not {
		if bytes.Contains(line, []byte(n)) {
			return nil, false
		}
	}
	if c.unless != nil && c.unless().Match(line) {
		return nil, false
	}
	if c.form == nil {
		return nil, true
	}
	pattern := c.form()
	m := pattern.FindSubmatch(line)
	if m == nil {
		return nil, false
	}
	vals := values(pattern, m)
	if v, ok := f.latest[cmp.Or(c.with, c.recalls)]; ok {
		vals[latestFact] = v
	}
	if c.among != "" && !f.facts[c.among][vals["host"]] {
		return nil, false
	}
	return vals, c.test == nil || c.test(vals)
}

// form returns a pattern, which it compiles once: each process of launch has the table, and few read a log.
type form func() *regexp.Regexp

// opt is a form that a line need not have: it is there for its groups.
func opt(s string) form { return re(`(?s)^(?:.*?(?:` + s + `))?`) }

// re is a form of the table.
func re(s string) form { return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) }) }

// before says whether a line that is of both kinds is of this one.
func (c *cause) before(other *cause) bool {
	return c.grade < other.grade || c.grade == other.grade && c.row < other.row
}
