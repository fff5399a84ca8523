package hostlist

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Hostfile returns the hosts of an MPI hostfile, in order and each once: the first field of a line,
// without "user@" and ":slots"; # begins a comment. It fails if r does, or for a line over 64 KiB.
func Hostfile(r io.Reader) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		line, _, _ := strings.Cut(s.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		host := words[0][strings.LastIndexByte(words[0], '@')+1:]
		if strings.Count(host, ":") == 1 { // more are an IPv6 address
			host, _, _ = strings.Cut(host, ":")
		}
		if host != "" && !seen[host] {
			seen[host] = true
			out = append(out, host)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read the hostfile: %w", err)
	}
	return out, nil
}
