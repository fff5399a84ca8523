package hangs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"launch/diagnose/verdict"
)

// report is what launch doctor --json prints.
type report struct {
	Type    string           `json:"type"`
	Schema  int              `json:"schema"`
	Answers []verdict.Answer `json:"answers"`
	Scenes  []struct {
		Gaps []struct{ What, Why, Fix string }
	} `json:"scenes"`
}

// reply is one answer of the command: of one host, or of all.
type reply struct {
	report
	status int
	text   string // standard output and standard error
	err    error
	took   time.Duration
}

// replies are the answers to one case.
type replies struct {
	all reply
	of  map[int]reply // by host
}

// ask runs launch doctor on each host at the same time, and joins what they say. How the command is
// called is known here alone.
func (b *bed) ask() replies {
	b.t.Helper()
	dir := b.t.TempDir()
	if keep := os.Getenv(record); keep != "" {
		dir = filepath.Join(keep, b.kind.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		for i := range b.lab.Hosts { // what was printed until now
			if err := os.WriteFile(filepath.Join(dir, hostName(i)+".log"), []byte(b.text(i)), 0o644); err != nil {
				b.t.Error(err)
			}
		}
	}
	from := b.kind.want.from
	if from == nil {
		for i := range b.kind.hosts {
			from = append(from, i)
		}
	}
	began := time.Now()
	out := replies{of: map[int]reply{}}
	files := make([]string, len(from))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n, host := range from {
		files[n] = filepath.Join(dir, hostName(host)+".json")
		wg.Go(func() {
			r := b.doctor(host, files[n], "--json")
			mu.Lock()
			defer mu.Unlock()
			out.of[host] = r
		})
	}
	wg.Wait()
	if out.all = out.of[from[0]]; len(from) > 1 {
		merge := append([]string{"--json", "--merge"}, files...)
		out.all = b.doctor(from[0], filepath.Join(dir, "all.json"), merge...)
	}
	out.all.took = time.Since(began)
	return out
}

// doctor runs the command once, with its standard output in a file.
func (b *bed) doctor(host int, file string, args ...string) reply {
	ctx, cancel := context.WithTimeout(b.t.Context(), askLimit)
	defer cancel()
	h := b.lab.Hosts[host]
	argv := append([]string{tools.launch, "doctor"}, args...)
	if b.kind.doctorIn != nil {
		argv = append(b.kind.doctorIn(b, host), argv...)
	}
	cmd := h.Command(ctx, h.Named(argv...)...)
	var talk strings.Builder
	cmd.Stderr = &talk
	began := time.Now()
	printed, err := cmd.Output()
	r := parse(printed)
	r.took = time.Since(began)
	r.text += talk.String()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		r.status = exit.ExitCode()
	} else if err != nil {
		r.err = errors.Join(r.err, err)
	}
	if err := os.WriteFile(file, printed, 0o644); err != nil {
		r.err = errors.Join(r.err, err)
	}
	return r
}

// parse reads the line that holds the answers.
func parse(printed []byte) reply {
	r := reply{text: string(printed)}
	for line := range strings.Lines(r.text) {
		var got report
		if json.Unmarshal([]byte(line), &got) == nil && got.Type == "doctor" {
			r.report = got
			return r
		}
	}
	r.err = fmt.Errorf("no line of type doctor in %d bytes", len(printed))
	return r
}
