package ncclras

import (
	"bufio"
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// The names of what a rank does with a communicator.
const (
	stateNone     = "NOCOMM" // "UNKNOWN" before 2.26
	stateInit     = "INIT"
	stateRunning  = "RUNNING"
	stateFinalize = "FINALIZE"
	stateAbort    = "ABORT"
)

// The lines of the answer to VERBOSE STATUS in text (NCCL's src/ras/client_support.cc, 2.24 to 2.30).
var (
	lineVersion = regexp.MustCompile(`^NCCL version (\S+)`)
	lineGroup   = regexp.MustCompile(`^\s*(\d+) +\d+ +\d+ +[\d-]+ +(\d+) +\d+ +[A-Z]+ +[A-Z,]+$`)
	lineComm    = regexp.MustCompile(`^#(\d+)-\d+ \(([0-9a-f]+)\) (INCOMPLETE|ERROR|MISMATCH)$`)
	lineProcess = regexp.MustCompile(`^  Process (\d+) on node (\S+) managing GPU`)
	lineMissing = regexp.MustCompile(`^  The (missing|unknown) ranks?: ([\d,]+)$`)
	lineDiffer  = regexp.MustCompile(`^  Communicator ranks have different (?:(status)$|(\S+) operation counts$)`)
	lineShare   = regexp.MustCompile(`^  (\d+) ranks (?:have status (\w+)|have launched up to operation (\d+)|` +
		`(have not) launched any operations|reported (.+))$`)
	lineRank = regexp.MustCompile(`^  Rank (\d+)(?: has status (\w+)| has launched up to operation (\d+)|` +
		`( has not) launched any operations| reported (.+?))?(?: -- (?:GPU .* managed by process (\d+) on node (\S+)|` +
		`\[process information not found\]))?$`)
	lineErrors = regexp.MustCompile(`^  (?:Initialization|Asynchronous) errors? on \d+ ranks?$`)
)

// reading is the state of a reader of text.
type reading struct {
	Report
	sizes   map[string]int // ranks of a communicator, by the number of its group
	list    *[]Member      // of processes that follow
	comm    int            // that lines are about, an index of Comms; -1: none
	what    string         // what follows: INCOMPLETE, ERROR, MISMATCH
	shares  *[]Share
	current int // the share that the ranks which follow belong to; -1: none
}

func parseText(text []byte) (Report, error) {
	r := reading{sizes: map[string]int{}, comm: -1, current: -1}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		r.line(strings.TrimRight(lines.Text(), "\r"))
	}
	if r.Version == "" {
		return Report{}, ErrGarbage
	}
	if lines.Err() != nil {
		r.Cut = "a line is too long"
	}
	return r.Report, nil
}

// line reads one line. What is not known is passed over: later versions may print more.
func (r *reading) line(text string) {
	if m := lineVersion.FindStringSubmatch(text); m != nil && r.Version == "" {
		r.Version = clean(m[1])
		return
	}
	if m := lineGroup.FindStringSubmatch(text); m != nil {
		r.sizes[m[1]] = number(m[2])
		return
	}
	if m := lineComm.FindStringSubmatch(text); m != nil {
		r.begin(m[1], strings.TrimLeft(m[2], "0"), m[3])
		return
	}
	switch text {
	case "INCOMPLETE":
		r.list, r.comm = &r.Silent, -1
	case "DEAD":
		r.list, r.comm = &r.Dead, -1
	default:
		r.detail(text)
	}
}

func (r *reading) begin(group, id, what string) {
	r.list, r.shares, r.current, r.what, r.comm = nil, nil, -1, what, -1
	if c := r.Report.comm(clean(id)); c != nil {
		c.Size = r.sizes[group]
		for i := range r.Comms {
			if &r.Comms[i] == c {
				r.comm = i
			}
		}
	}
}

// detail reads a line of a list.
func (r *reading) detail(text string) {
	if m := lineProcess.FindStringSubmatch(text); m != nil {
		if r.list != nil {
			*r.list = add(*r.list, Member{Rank: -1, Addr: address(m[2]), PID: number(m[1])})
		}
		return
	}
	if r.comm < 0 {
		return
	}
	c := &r.Comms[r.comm]
	if m := lineMissing.FindStringSubmatch(text); m != nil {
		for f := range strings.SplitSeq(m[2], ",") {
			switch n := number(f); m[1] {
			case "missing":
				c.Missing = add(c.Missing, Member{Rank: n})
			default:
				c.Outside = add(c.Outside, Member{Rank: n})
			}
		}
		return
	}
	if m := lineDiffer.FindStringSubmatch(text); m != nil {
		r.current = -1
		if r.shares = &c.States; m[1] == "" && len(c.Ops) < maxMembers {
			c.Ops = append(c.Ops, Op{Name: clean(m[2])})
			r.shares = &c.Ops[len(c.Ops)-1].Shares
		}
		return
	}
	if lineErrors.MatchString(text) {
		r.shares, r.current = &c.Errors, -1
		return
	}
	r.member(c, text)
}

// member reads a line about one rank, or about the number of ranks that follow.
func (r *reading) member(c *Comm, text string) {
	if m := lineShare.FindStringSubmatch(text); m != nil {
		if s := r.share(m[2], m[3], m[5]); s != nil {
			s.Count = number(m[1])
		}
		return
	}
	m := lineRank.FindStringSubmatch(text)
	if m == nil {
		return
	}
	who := Member{Rank: number(m[1]), PID: number(m[6]), Addr: address(m[7])}
	if r.what == "INCOMPLETE" {
		c.Missing = add(c.Missing, who)
		return
	}
	if m[2]+m[3]+m[4]+m[5] != "" { // a share of one
		if s := r.share(m[2], m[3], m[5]); s != nil {
			s.Count, s.Who = 1, []Member{who}
			c.outside(s.State, who)
		}
		r.current = -1
		return
	}
	if r.shares != nil && r.current >= 0 {
		s := &(*r.shares)[r.current]
		s.Who = add(s.Who, who)
		c.outside(s.State, who)
	}
}

// outside notes a rank that is not in the communicator.
func (c *Comm) outside(state string, m Member) {
	if state == stateNone {
		c.Outside = add(c.Outside, m)
	}
}

// share begins the ranks with one value.
func (r *reading) share(state, launched, fault string) *Share {
	if r.shares == nil || len(*r.shares) >= maxMembers {
		return nil
	}
	if state == "UNKNOWN" {
		state = stateNone
	}
	n, _ := strconv.ParseUint(launched, 10, 64)
	*r.shares = append(*r.shares, Share{State: clean(state + fault), Launched: n})
	r.current = len(*r.shares) - 1
	return &(*r.shares)[r.current]
}

// number returns a decimal number, 0 where it is none or has no meaning.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}
