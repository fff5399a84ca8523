package mpi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Time limits of a start.
const (
	plainLimit  = 170 * time.Second // ssh gives up after 130 s
	launchLimit = 60 * time.Second
	verdict     = 15 * time.Second // until launch must have named a host
	grace       = 10 * time.Second // until nothing of launch may be left
)

// fault is one fault of one of three hosts, host2 unless names says otherwise.
type fault struct {
	name   string
	inject func(*trial)
	only   []string // the implementations that it applies to; nil: each of Each
	short  string   // the implementation with which it always runs

	names []string // each of these must be named; nil: host2
	says  []string // launch's words have one of these
	runs  []string // the implementations that do not mind; launch says it, or repairs it
	ranks int      // of the world; 0: three
	quiet bool     // nothing needs to be said: launch repairs it
}

// sick is the host with the fault.
const sick = 2

func (f fault) blamed() []string {
	if f.names == nil {
		return []string{"host2"}
	}
	return f.names
}

func allFaults() []fault {
	return slices.Concat(networkFaults(), loginFaults(), softwareFaults(), machineFaults())
}

func TestLaunchNamesTheHostThatAnMpirunWouldWaitFor(t *testing.T) {
	for _, f := range allFaults() {
		if !chosen(f.name, f.short != "") {
			continue
		}
		for _, mpi := range Each {
			if f.only != nil && !slices.Contains(f.only, mpi) || len(asked) == 0 && mpi != f.short {
				continue
			}
			for _, side := range sides() {
				if there(f.name, mpi, side) {
					continue
				}
				t.Run(dashed(f.name)+"/"+dashed(mpi)+"/"+side, func(t *testing.T) {
					t.Parallel()
					f.try(t, mpi, side)
				})
			}
		}
	}
}

// try makes the fault and starts a job on one side of the comparison. Any outcome of plain mpirun is accepted.
func (f fault) try(t *testing.T, mpi, side string) {
	tr := newTrial(t, mpi, 3)
	f.inject(tr)
	limit := launchLimit
	if side == plainSide || len(asked) == 0 { // with other tests on the machine
		limit = plainLimit
	}
	o := tr.run(side, limit)
	r := result{outcome: o, Whole: o.whole(cmp.Or(f.ranks, 3)), Names: len(f.blamed()) > 0}
	for _, name := range f.blamed() {
		r.Names = r.Names && mentions(o.Said, name)
	}
	if side == launchSide {
		r.Bad = f.judge(mpi, o, r.Names)
		if left := tr.remains(grace); left != "" {
			t.Errorf("left on the hosts:\n%s", left)
		}
	}
	record(t, f.name, mpi, side, r)
	t.Logf("%.1f s, exit %d, cut %v, whole %v, names %v\n%s", o.Seconds, o.Exit, o.Cut, r.Whole, r.Names, o.Said)
	if r.Bad != "" {
		t.Error(r.Bad)
	}
}

// judge returns what is wrong with launch's outcome.
func (f fault) judge(mpi string, o outcome, named bool) string {
	runs := slices.Contains(f.runs, mpi)
	one := func(word string) bool { return strings.Contains(strings.ToLower(o.Said), strings.ToLower(word)) }
	switch {
	case o.Cut:
		return "it has not ended"
	case runs && !o.whole(3):
		return "the job has not run"
	case !runs && strings.Contains(o.Said, "a world of "):
		return "the job has been started"
	case !runs && o.Exit == 0:
		return "exit 0"
	case len(asked) > 0 && !runs && o.Seconds > verdict.Seconds(): // else the machine may be busy
		return "late"
	case f.quiet:
		return ""
	case len(f.blamed()) > 0 && !named:
		return "the host is not named"
	case !slices.Contains(f.blamed(), "host1") && accused(o) != "":
		return "it blames another host: " + accused(o)
	case !slices.ContainsFunc(f.says, one):
		return "the words lack all of: " + strings.Join(f.says, ", ")
	}
	return ""
}

// mentions reports whether a text has a host's name or address.
func mentions(text, host string) bool {
	if strings.Contains(text, host) {
		return true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(host, "host"))
	return err == nil && strings.Contains(text, "10.77.0."+itoa(n+1))
}

// accused returns a line by which launch blames host1 alone, which is healthy in most cases.
func accused(o outcome) string {
	for _, line := range o.useful() {
		if strings.Contains(line, "fail") && mentions(line, "host1") && !mentions(line, "host2") {
			return line
		}
	}
	return ""
}
