package ncclras

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// document is the answer in JSON, of NCCL 2.28.7 and newer.
type document struct {
	Version string `json:"nccl_version"`
	Comms   []struct {
		Hash    string        `json:"hash"`
		Size    int           `json:"size"`
		Ranks   []jsonRank    `json:"ranks"`
		Missing []jsonMissing `json:"missing_ranks"`
	} `json:"communicators"`
}

type jsonPlace struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

type jsonRank struct {
	jsonPlace
	Status struct {
		Init     int  `json:"init_state"`
		Async    int  `json:"async_error"`
		Finalize bool `json:"finalize_called"`
		Destroy  bool `json:"destroy_flag"`
		Abort    bool `json:"abort_flag"`
	} `json:"status"`
	Counts map[string]uint64 `json:"collective_counts"`
}

type jsonMissing struct {
	jsonPlace
	Status struct {
		Unresponsive bool `json:"unresponsive"`
		Dead         bool `json:"considered_dead"`
	} `json:"status"`
}

// lostComma is where 2.28.7 to 2.28.9 leave out a comma, after the device of a missing rank.
var lostComma = regexp.MustCompile(`("nvml_dev": -?\d+)(\s+"status")`)

func parseJSON(text []byte) (Report, error) {
	var d document
	if json.Unmarshal(text, &d) != nil {
		d = document{}
		if json.Unmarshal(lostComma.ReplaceAll(text, []byte("$1,$2")), &d) != nil {
			return Report{}, ErrGarbage
		}
	}
	if d.Version == "" {
		return Report{}, ErrGarbage
	}
	r := Report{Version: clean(d.Version)}
	for _, c := range d.Comms {
		if len(r.Comms) >= maxComms {
			r.Cut = "more communicators than are read"
			break
		}
		out := Comm{ID: trimHash(clean(c.Hash)), Size: max(c.Size, 0)}
		for _, m := range c.Missing {
			r.lacks(&out, m)
		}
		out.states(c.Ranks)
		out.counts(c.Ranks)
		r.Comms = append(r.Comms, out)
	}
	return r, nil
}

func trimHash(h string) string {
	if len(h) > 2 && h[:2] == "0x" {
		return h[2:]
	}
	return h
}

func (p jsonPlace) member() Member {
	return Member{Rank: max(p.Rank, -1), Addr: address(p.Host), PID: max(p.PID, 0)}
}

// lacks notes a rank that is not among those that reported.
func (r *Report) lacks(c *Comm, m jsonMissing) {
	who := m.member()
	process := Member{Rank: -1, Addr: who.Addr, PID: who.PID}
	switch {
	case m.Status.Dead:
		if c.Missing = add(c.Missing, who); !slices.Contains(r.Dead, process) && process.PID > 0 {
			r.Dead = add(r.Dead, process)
		}
	case m.Status.Unresponsive:
		if c.Missing = add(c.Missing, who); !slices.Contains(r.Silent, process) && process.PID > 0 {
			r.Silent = add(r.Silent, process)
		}
	default:
		c.Outside = add(c.Outside, who)
	}
}

// The numbers of ncclResult_t that are no errors, and the names of those that are.
const success, inProgress = 0, 7

var results = map[int]string{1: "Unhandled CUDA error", 2: "System error", 3: "Internal error", 4: "Invalid argument",
	5: "Invalid usage", 6: "Remote process error"}

// state is what a rank does with the communicator, by the names of NCCL's text.
func (k jsonRank) state() string {
	switch {
	case k.Status.Abort:
		return stateAbort
	case k.Status.Finalize || k.Status.Destroy:
		return stateFinalize
	case k.Status.Init == success:
		return stateRunning
	}
	return stateInit
}

// failure is the error that a rank reports; "": none.
func (k jsonRank) failure() string {
	for _, code := range []int{k.Status.Init, k.Status.Async} {
		if code != success && code != inProgress {
			if name := results[code]; name != "" {
				return name
			}
			return "Unexpected error"
		}
	}
	return ""
}

func (c *Comm) states(ranks []jsonRank) {
	states, failures := tally[string]{}, tally[string]{}
	for _, k := range ranks {
		states.note(k.state(), k.member())
		if f := k.failure(); f != "" {
			failures.note(f, k.member())
		}
	}
	for _, m := range c.Outside {
		states.note(stateNone, m)
	}
	if len(states) > 1 || len(states) == 1 && states[stateRunning] == nil {
		c.States = shares(states, len(ranks)+len(c.Outside), func(s *Share, state string) { s.State = state })
	}
	c.Errors = shares(failures, len(ranks), func(s *Share, state string) { s.State = state })
}

func (c *Comm) counts(ranks []jsonRank) {
	names := map[string]bool{}
	for _, k := range ranks {
		for name, n := range k.Counts {
			names[name] = true
			c.Launched += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		counts := tally[uint64]{}
		for _, k := range ranks {
			counts.note(k.Counts[name], k.member())
		}
		if len(counts) > 1 && len(c.Ops) < maxMembers {
			c.Ops = append(c.Ops, Op{Name: clean(name),
				Shares: shares(counts, len(ranks), func(s *Share, n uint64) { s.Launched = n })})
		}
	}
}

// tally is the ranks by a value that they have.
type tally[K comparable] map[K][]Member

func (t tally[K]) note(k K, m Member) { t[k] = append(t[k], m) }

// shares returns the values, the most frequent first; ranks of a majority of all are not named.
func shares[K string | uint64](t tally[K], all int, set func(*Share, K)) (out []Share) {
	for _, k := range slices.Sorted(maps.Keys(t)) {
		s := Share{Count: len(t[k])}
		set(&s, k)
		if 2*len(t[k]) <= all {
			s.Who = t[k][:min(len(t[k]), maxMembers)]
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Share) int { return b.Count - a.Count })
	return out[:min(len(out), maxMembers)]
}
