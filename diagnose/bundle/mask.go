// Package bundle makes of what launch doctor saw one file to send to somebody: without secrets, and with other
// names and addresses for the hosts and users, which are alike where they were alike. A judge finds the same in it.
//
// What is replaced: host names and their domains, names of users, IP addresses within their class (loopback stays),
// MAC addresses, UUIDs. A host or user is known by a field that holds one, such as MASTER_ADDR, a store's blob or
// /home/NAME; then it is replaced in all texts, and so is a name that differs from a host's in digits alone. Names of
// one letter, numbers, and words that programs use are replaced only where the field says that they are names.
package bundle

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"launch/diagnose/scene"
)

// Masker replaces names and addresses, each always in the same way.
type Masker struct {
	collects bool
	hosts    map[string]string // by lower-case short name
	domains  map[string]string
	users    map[string]string
	addrs    map[netip.Addr]netip.Addr
	ids      map[string]string // UUIDs and MAC addresses
	shapes   map[string]bool   // of hosts, with # for digits
	stems    map[string]bool   // of hosts, up to the first digit
	used     map[string]int    // the last number of each kind
	secrets  int
	cache    map[string]string
}

// NewMasker learns the names and addresses in what nodes saw. users are further names of users.
func NewMasker(scenes []scene.Scene, users ...string) *Masker {
	m := &Masker{collects: true, hosts: map[string]string{}, domains: map[string]string{}, users: map[string]string{},
		addrs: map[netip.Addr]netip.Addr{}, ids: map[string]string{}, shapes: map[string]bool{}, stems: map[string]bool{},
		used: map[string]int{}, cache: map[string]string{}}
	for _, u := range users {
		m.user(u)
	}
	for range 2 { // once a host is known, others in texts are known by their likeness
		for i := range scenes {
			m.walk(&scenes[i])
		}
	}
	m.assign()
	return m
}

// Scenes returns copies of what nodes saw, with other names and addresses.
func (m *Masker) Scenes(all []scene.Scene) ([]scene.Scene, error) {
	out := make([]scene.Scene, len(all))
	for i, s := range all {
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &out[i])
		}
		if err != nil {
			return nil, fmt.Errorf("copy what %s saw: %w", s.Host, err)
		}
		m.walk(&out[i])
	}
	return out, nil
}

// Changed says how many names of each kind are replaced.
func (m *Masker) Changed() string {
	secrets := ""
	if m.secrets > 0 {
		secrets = fmt.Sprintf(", texts that may have held secrets: %d", m.secrets)
	}
	return fmt.Sprintf("hosts: %d, users: %d, IP addresses: %d, other identifiers: %d%s", len(m.hosts), len(m.users),
		len(m.addrs), len(m.ids), secrets)
}

// assign chooses the replacements, none of which is one of the originals. The order of hosts stays.
func (m *Masker) assign() {
	m.collects = false
	for _, name := range slices.Sorted(maps.Keys(m.hosts)) {
		m.hosts[name] = m.fresh("host", "node", len(m.hosts))
	}
	for _, name := range slices.Sorted(maps.Keys(m.domains)) {
		m.domains[name] = m.fresh("domain", "domain", len(m.domains))
	}
	for _, name := range slices.Sorted(maps.Keys(m.users)) {
		m.users[name] = m.fresh("user", "user", 0)
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.addrs), netip.Addr.Compare) {
		m.addrs[a] = m.freshAddr(a)
	}
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		m.ids[id] = m.freshID(id)
	}
}

// fresh returns the next replacement of a kind: node-01 of many hosts, user for the first user.
func (m *Masker) fresh(kind, word string, of int) string {
	for m.original(word) {
		word += "x"
	}
	for {
		m.used[kind]++
		n := m.used[kind]
		out := fmt.Sprintf("%s-%0*d", word, len(fmt.Sprint(of)), n)
		if kind == "user" && n == 1 {
			out = word
		}
		if !m.original(out) {
			return out
		}
	}
}

// original reports whether a word is the name of a host, a domain or a user.
func (m *Masker) original(word string) bool {
	_, host := m.hosts[word]
	_, domain := m.domains[word]
	_, user := m.users[word]
	return host || domain || user
}

// host replaces a name that is a host's, or an address.
func (m *Masker) host(name string) string {
	if a, err := netip.ParseAddr(name); err == nil {
		return m.addr(a).String()
	}
	lower := strings.ToLower(name)
	if lower == "" || lower == "localhost" || strings.HasPrefix(lower, "localhost.") {
		return name
	}
	short, domain, dotted := strings.Cut(lower, ".")
	out := m.short(short)
	if dotted && domain != "" {
		out += "." + m.domain(domain)
	}
	if m.collects {
		return name
	}
	return out
}

func (m *Masker) short(name string) string {
	to, known := m.hosts[name]
	switch {
	case known:
	case m.collects:
		m.hosts[name] = ""
		if shape := shapeOf(name); shape != name && telling(name) {
			m.shapes[shape] = true
			if stem, _, _ := strings.Cut(shape, "#"); stem != "" {
				m.stems[stem] = true
			}
		}
	default:
		to = m.fresh("host", "node", len(m.hosts))
		m.hosts[name] = to
	}
	return to
}

// domain replaces a domain. Those above it, up to two labels, are remembered too.
func (m *Masker) domain(name string) string {
	if m.collects {
		for d := name; strings.Count(d, ".") > 0 || d == name; {
			m.domains[d] = ""
			_, above, ok := strings.Cut(d, ".")
			if !ok {
				break
			}
			d = above
		}
		return name
	}
	if _, known := m.domains[name]; !known {
		m.domains[name] = m.fresh("domain", "domain", len(m.domains))
	}
	return m.domains[name]
}

// user replaces the name of a user.
func (m *Masker) user(name string) string {
	key := strings.ToLower(name)
	if key == "" || key == "root" {
		return name
	}
	if _, known := m.users[key]; m.collects {
		m.users[key] = ""
		return name
	} else if !known {
		m.users[key] = m.fresh("user", "user", 0)
	}
	return m.users[key]
}

// hostPort replaces a host with or without a port.
func (m *Masker) hostPort(text string) string {
	if host, port, err := net.SplitHostPort(text); err == nil {
		return net.JoinHostPort(m.host(host), port)
	}
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		return "[" + m.host(strings.TrimSuffix(inner, "]")) + "]"
	}
	return m.host(text)
}
