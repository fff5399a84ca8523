package hangs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// text returns what all hosts have printed.
func (b *bed) text(host int) string {
	text, _ := os.ReadFile(b.logOf(host))
	return string(text)
}

func (b *bed) logs() string {
	var all strings.Builder
	for i := range b.lab.Hosts {
		fmt.Fprintf(&all, "%s:\n%s\n", hostName(i), b.text(i))
	}
	return all.String()
}

// lines returns what a rank has printed of itself, without "rank 3 ".
func (b *bed) lines(rank int) []string {
	var out []string
	for i := range b.lab.Hosts {
		for line := range strings.Lines(b.text(i)) {
			if rest, ok := strings.CutPrefix(line, fmt.Sprintf("rank %d ", rank)); ok && strings.HasSuffix(rest, "\n") {
				out = append(out, strings.TrimSpace(rest))
			}
		}
	}
	return out
}

// phases parses "0,1:init 3:odd".
func phases(text string) map[int]string {
	out := map[int]string{}
	for part := range strings.FieldsSeq(text) {
		ranks, phase, _ := strings.Cut(part, ":")
		for _, r := range strings.Split(ranks, ",") {
			if n, err := strconv.Atoi(r); err == nil {
				out[n] = strings.ReplaceAll(phase, "_", " ")
			}
		}
	}
	return out
}

// missing returns the first rank that is not in its phase, and its last line.
func (b *bed) missing(at string) string {
	for rank, phase := range phases(at) {
		last := "-"
		if lines := b.lines(rank); len(lines) > 0 {
			last = lines[len(lines)-1]
		}
		// init_process_group of NCCL connects to no other rank: the first collective does.
		met := backend() == "nccl" && phase == "init" && last == "joined"
		if !strings.HasPrefix(last, phase) && !met {
			return fmt.Sprintf("rank %d is at %q, not at %q", rank, last, phase)
		}
	}
	return ""
}

// reaches waits until all ranks are in their phases.
func (b *bed) reaches(at string) {
	b.t.Helper()
	wrong := ""
	limit := max(upLimit, time.Duration(b.kind.world())*upEach)
	for end := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		if wrong = b.missing(at); wrong == "" {
			break
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s, %s after the start", wrong, time.Since(b.began).Round(time.Second))
		}
	}
	if at == nothing || at == "" {
		b.calms()
	}
}

// remains checks over a while that every rank stays in its phase, that commands live or have ended as they
// should, and that a hung job's ranks print nothing.
func (b *bed) remains(at string, moves bool) {
	b.t.Helper()
	for end := time.Now().Add(upLimit); ; {
		before := b.said()
		time.Sleep(settle)
		if wrong := b.missing(at); wrong != "" {
			b.t.Fatalf("this is not what the case is to be: %s", wrong)
		}
		after := b.said()
		if moves || after == before {
			break
		}
		if time.Now().After(end) {
			b.t.Fatalf("the job goes on: %q, then %q", before, after)
		}
	}
	living := 0
	for _, r := range b.runs {
		ended := false
		select {
		case <-r.done:
			ended = true
		default:
			living++
		}
		want := slices.Contains(b.kind.over, r.host)
		if ended != want && !slices.Equal(b.kind.over, some) {
			b.t.Fatalf("%s: the command has ended is %t; want %t", hostName(r.host), ended, want)
		}
	}
	if living == 0 {
		b.t.Fatal("all commands of the job have ended")
	}
}

// said returns what all ranks have printed of their phases.
func (b *bed) said() string {
	var all []string
	for r := range b.kind.world() {
		all = append(all, strings.Join(b.lines(r), " "))
	}
	return strings.Join(all, "; ")
}

// goesOn ends all that is slow, and checks that the job then ends as a healthy one does.
func (b *bed) goesOn() {
	b.t.Helper()
	b.open("stop")
	for _, r := range b.runs {
		if slices.Contains(b.kind.over, r.host) {
			continue
		}
		select {
		case <-r.done:
		case <-time.After(endLimit):
			b.t.Fatalf("%s: the job has not ended %s after it could", hostName(r.host), endLimit)
		}
		if code := r.cmd.ProcessState.ExitCode(); code != 0 {
			b.t.Errorf("%s: exit %d; want 0, as of a healthy job", hostName(r.host), code)
		}
	}
	if wrong := b.missing(strings.Join(b.everyone("trained"), " ")); wrong != "" {
		b.t.Error(wrong)
	}
}

func (b *bed) everyone(phase string) []string {
	var out []string
	for r := range b.kind.world() {
		out = append(out, fmt.Sprintf("%d:%s", r, phase))
	}
	return out
}
