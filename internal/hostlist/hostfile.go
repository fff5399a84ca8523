package hostlist

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Machine is one host of an MPI hostfile.
type Machine struct {
	Name  string
	User  string // user@
	Slots int    // slots=N or :N; 0: the line has none
}

// Machines returns the lines of an MPI hostfile, in order: a name, perhaps with "user@", then ":N" or
// slots=N (Open MPI), user=NAME (Hydra), and what else an MPI knows. # begins a comment. It fails if r does,
// or for a line over 64 KiB.
func Machines(r io.Reader) ([]Machine, error) {
	var out []Machine
	s := bufio.NewScanner(r)
	for s.Scan() {
		line, _, _ := strings.Cut(s.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := strings.LastIndexByte(words[0], '@')
		m := Machine{Name: words[0][at+1:], User: words[0][:max(at, 0)]}
		if strings.Count(m.Name, ":") == 1 { // more are an IPv6 address
			name, slots, _ := strings.Cut(m.Name, ":")
			m.Name, m.Slots = name, number(slots)
		}
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "slots", "count", "cpu", "cpus":
				m.Slots = number(value)
			case "user", "username", "user_name":
				m.User = value
			}
		}
		if m.Name != "" {
			out = append(out, m)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read the hostfile: %w", err)
	}
	return out, nil
}

// number returns a number above 0, else 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Hostfile returns the names of Machines, each once.
func Hostfile(r io.Reader) ([]string, error) {
	all, err := Machines(r)
	var out []string
	for _, m := range all {
		if !slices.Contains(out, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out, err
}
