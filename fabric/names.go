package fabric

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// glibc's defaults where resolv.conf has no value, and its maxima (resolv/resolv.h).
const (
	maxServers      = 3
	defaultNdots    = 1
	defaultTimeout  = 5
	defaultAttempts = 2
	maxNdots        = 15
	maxTimeout      = 30
	maxAttempts     = 5
)

// parseResolver reads resolv.conf, with glibc's defaults for the search list and the server.
func parseResolver(text, hostname string) Resolver {
	r := Resolver{Ndots: defaultNdots, Timeout: defaultTimeout, Attempts: defaultAttempts}
	searched := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err == nil && len(r.Servers) < maxServers {
				r.Servers = append(r.Servers, a)
			}
		case "domain":
			r.Search, searched = domains(f[1:2]), true
		case "search": // the last of the two wins
			r.Search, searched = domains(f[1:]), true
		case "options":
			r.options(f[1:])
		}
	}
	if len(r.Servers) == 0 {
		r.Servers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if _, domain, ok := strings.Cut(hostname, "."); ok && !searched {
		r.Search = domains([]string{domain})
	}
	return r
}

func domains(words []string) []string {
	var out []string
	for _, w := range words {
		if d := strings.Trim(w, "."); d != "" {
			out = append(out, d)
		}
	}
	return out
}

func (r *Resolver) options(words []string) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, ":")
		n, err := strconv.Atoi(value)
		switch {
		case name == "rotate":
			r.Rotate = true
		case err != nil || n < 0:
		case name == "ndots":
			r.Ndots = min(n, maxNdots)
		case name == "timeout":
			r.Timeout = min(n, maxTimeout)
		case name == "attempts":
			r.Attempts = min(n, maxAttempts)
		}
	}
}

// parseHosts returns the lines of a hosts file that contain one of the names, in any case.
func parseHosts(text string, names []string) []HostsLine {
	wanted := map[string]bool{}
	for _, n := range names {
		if n = strings.ToLower(strings.TrimSuffix(n, ".")); n != "" {
			wanted[n] = true
		}
	}
	var out []HostsLine
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 || !slices.ContainsFunc(f[1:], func(n string) bool { return wanted[strings.ToLower(n)] }) {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil {
			out = append(out, HostsLine{Addr: a, Names: f[1:]})
		}
	}
	return out
}

// parseServices returns the services for hosts in nsswitch.conf; the default is glibc's (nss_database.c).
func parseServices(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		if !ok {
			continue
		}
		action := false // [NOTFOUND=return], perhaps with blanks
		for _, w := range strings.Fields(rest) {
			if strings.HasPrefix(w, "[") {
				action = true
			}
			if !action {
				out = append(out, w)
			}
			if strings.HasSuffix(w, "]") {
				action = false
			}
		}
		return out
	}
	return []string{"files", "dns"}
}

// HostsLines returns the lines of /etc/hosts that contain one of the names.
func HostsLines(r Roots, names ...string) []HostsLine {
	return parseHosts(readText(r.Etc, "hosts"), names)
}

// IsNamed reports whether a name is this node's own, with or without a domain, or an alias on the line that /etc/hosts
// has for it.
func (n Node) IsNamed(host string) bool {
	mine, _, _ := strings.Cut(n.Hostname, ".")
	short, _, _ := strings.Cut(host, ".")
	return strings.EqualFold(mine, short) || slices.ContainsFunc(n.System.Hosts, func(l HostsLine) bool {
		return l.Has(n.Hostname) && l.Has(host)
	})
}

// Has reports whether the line has a name.
func (l HostsLine) Has(host string) bool {
	return slices.ContainsFunc(l.Names, func(n string) bool { return strings.EqualFold(n, host) })
}
