package machine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// scrubber replaces what identifies the machine of a recording, each value always in the same way.
type scrubber struct {
	addrs anonymizer
	host  *regexp.Regexp // nil: the name is too general to search for
	uuids map[string]string
	cards map[[3]byte]uint32 // the last three bytes of MAC addresses and GUIDs
}

func newScrubber(key []byte, hostname string) *scrubber {
	s := &scrubber{addrs: anonymizer{key}, uuids: map[string]string{}, cards: map[[3]byte]uint32{}}
	if short, _, _ := strings.Cut(hostname, "."); len(short) > 2 && short != "localhost" && utf8.ValidString(short) {
		s.host = regexp.MustCompile(`\b` + regexp.QuoteMeta(short) + `\b(\.[\w.-]+)?`)
	}
	return s
}

// scrubbedHost is the host name in every recording.
const scrubbedHost = "node-1"

func (s *scrubber) scrub(r recording) (recording, error) {
	out := r
	out.Dirs, out.Links, out.Files = nil, map[string]string{}, map[string]string{}
	for _, name := range r.Dirs {
		out.Dirs = append(out.Dirs, s.text(name))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Links)) {
		out.Links[s.text(name)] = s.text(r.Links[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		out.Files[s.text(name)] = s.file(name, r.Files[name])
	}
	out.Errors, out.ACS = s.keys(r.Errors), s.keys(r.ACS)
	data, err := json.Marshal(r.Answers)
	if err != nil {
		return out, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return out, err
	}
	if data, err = json.Marshal(s.value("", tree)); err != nil {
		return out, err
	}
	out.Answers = answers{}
	return out, json.Unmarshal(data, &out.Answers)
}

func (s *scrubber) keys(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[s.text(k)] = v
	}
	return out
}

// knownTags are the asset tags that name a cloud. Any other tag may be private.
var knownTags = []string{"7783-7084-3265-9085-8269-3286-77", "OracleCloud.com", "ibmcloud"}

// file scrubs the content of a file by its name.
func (s *scrubber) file(name, text string) string {
	line := strings.TrimSpace(text)
	switch base := path.Base(name); {
	case name == "proc/sys/kernel/hostname":
		return scrubbedHost + "\n"
	case strings.HasSuffix(base, "asset_tag"):
		if !slices.Contains(knownTags, line) {
			return ""
		}
	case base == "cgroup":
		for _, word := range []string{"kubepods", "docker", "libpod", "lxc"} { // the rest consists of identifiers
			if strings.Contains(text, word) {
				return "0::/" + word + "\n"
			}
		}
		return "0::/\n"
	case strings.Contains(name, "/gids/"):
		if a, err := netip.ParseAddr(line); err == nil && line != "" {
			return gidText(s.addr(a)) + "\n"
		}
	}
	return s.text(text)
}

var (
	macRE  = regexp.MustCompile(`\b(?:[0-9a-f]{2}:){5,19}[0-9a-f]{2}\b`) // Ethernet's six bytes, InfiniBand's twenty
	guidRE = regexp.MustCompile(`\b[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}\b`)
	uuidRE = regexp.MustCompile(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`)
	// udev's names by address
	nameRE = regexp.MustCompile(`\b(?:enx|wlx|ibx|rocex|iwx|opax)(?:[0-9a-f]{16}|[0-9a-f]{12})\b`)
)

// text scrubs identifiers anywhere in a text.
func (s *scrubber) text(text string) string {
	text = uuidRE.ReplaceAllStringFunc(text, s.uuid)
	text = macRE.ReplaceAllStringFunc(text, s.card)
	text = guidRE.ReplaceAllStringFunc(text, s.card)
	return nameRE.ReplaceAllStringFunc(text, s.card)
}

func (s *scrubber) uuid(old string) string {
	old = strings.ToLower(old)
	if s.uuids[old] == "" {
		s.uuids[old] = fmt.Sprintf("00000000-0000-4000-8000-%012x", len(s.uuids)+1)
	}
	return s.uuids[old]
}

// card replaces the last six digits of an address or GUID. The digits before them are the maker's;
// those of a card are the same in its MAC addresses, its GUIDs and its link-local GIDs.
func (s *scrubber) card(old string) string {
	out := []byte(old)
	var at []int // of the last six digits
	for i := len(out) - 1; i >= 0 && len(at) < 6; i-- {
		if out[i] != ':' {
			at = append(at, i)
		}
	}
	slices.Reverse(at)
	var digits [6]byte
	for i, j := range at {
		digits[i] = out[j]
	}
	for i, c := range []byte(fmt.Sprintf("%06x", s.number(digits))) {
		out[at[i]] = c
	}
	return string(out)
}

// firstCard is the first replacement number of a card: unlike any that a person would choose.
const firstCard = 0xca0000

// number returns the replacement for the last three bytes of an identifier. Zero stays.
func (s *scrubber) number(digits [6]byte) uint32 {
	var b [3]byte
	if _, err := fmt.Sscanf(string(digits[:]), "%02x%02x%02x", &b[0], &b[1], &b[2]); err != nil || b == [3]byte{} {
		return 0
	}
	if _, seen := s.cards[b]; !seen {
		s.cards[b] = uint32(firstCard+len(s.cards)) & 0xffffff
	}
	return s.cards[b]
}

// addr replaces an address. Half an IPv6 address that is a card's follows the card's replacement.
func (s *scrubber) addr(a netip.Addr) netip.Addr {
	b := a.As16()
	new := s.addrs.addr(a)
	eui := b[11] == 0xff && b[12] == 0xfe
	if a.Unmap().Is4() || !eui && !a.IsLinkLocalUnicast() {
		return new
	}
	n := new.As16()
	copy(n[8:], b[8:])
	id := s.number([6]byte([]byte(fmt.Sprintf("%02x%02x%02x", b[13], b[14], b[15]))))
	n[13], n[14], n[15] = byte(id>>16), byte(id>>8), byte(id)
	return netip.AddrFrom16(n)
}

// value scrubs an answer: every string in it, by its form.
func (s *scrubber) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = s.value(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = s.value(key, v[i])
		}
	case string:
		switch {
		case strings.Contains(key, "serial"):
			return ""
		case key == "search":
			return domain(v)
		case key == "names" && v != "localhost" && s.word(v) == v: // other names next to this node's own in /etc/hosts
			return "alias"
		}
		return s.word(v)
	}
	return v
}

// domain returns the replacement for a domain of a search list. A cluster's own keep their form.
func domain(name string) string {
	if at := strings.Index("."+name, ".svc."); at >= 0 {
		return strings.TrimPrefix("default."[:min(at, 1)*len("default.")]+name[at:], ".")
	}
	if name == "cluster.local" {
		return name
	}
	return "example.internal"
}

// systemDirs hold no private files.
var systemDirs = []string{"usr", "opt", "lib", "lib64", "bin", "sbin", "sys", "proc", "dev", "etc"}

func (s *scrubber) word(text string) string {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return s.addr(a).String()
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return netip.PrefixFrom(s.addr(p.Addr()), p.Bits()).String()
	}
	if top, _, _ := strings.Cut(strings.TrimPrefix(text, "/"), "/"); path.IsAbs(text) &&
		!slices.Contains(systemDirs, top) {
		dir, base := path.Split(path.Clean(text))
		return "/home/user/" + path.Join(path.Base(dir), base)
	}
	if s.host != nil {
		text = s.host.ReplaceAllString(text, scrubbedHost)
	}
	return s.text(text)
}

// anonymizer replaces addresses. Two that share exactly their first n bits still do so afterwards (Xu,
// Fan, Ammar and Moon, "Prefix-preserving IP address anonymization", ICNP 2002).
type anonymizer struct {
	key []byte
}

// addr replaces an address within its block (private, link-local, an IPv4 /8, an IPv6 /16).
func (z anonymizer) addr(a netip.Addr) netip.Addr {
	if a.Is4In6() {
		return netip.AddrFrom16(z.addr(a.Unmap()).As16())
	}
	a = a.WithZone("")
	if plain(a) {
		return a
	}
	b := a.AsSlice()
	for i := kept(a); i < len(b)*8; i++ {
		b[i/8] ^= z.bit(a.AsSlice(), i) << (7 - i%8)
	}
	out, _ := netip.AddrFromSlice(b) // in its original length
	return out
}

// plain reports whether every machine may have the address.
func plain(a netip.Addr) bool {
	return a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.Is4() && a.IsLinkLocalUnicast()
}

// bit reports whether bit i flips, which depends only on the bits before it.
func (z anonymizer) bit(original []byte, i int) byte {
	prefix := make([]byte, len(original))
	copy(prefix, original[:i/8])
	if i%8 > 0 {
		prefix[i/8] = original[i/8] &^ (0xff >> (i % 8))
	}
	sum := sha256.Sum256(append(append([]byte{byte(i), byte(len(original))}, z.key...), prefix...))
	return sum[0] & 1
}

// kept returns how many of the first bits stay, so that no address moves into a special block.
func kept(a netip.Addr) int {
	if a.Is6() {
		if a.IsLinkLocalUnicast() {
			return 64
		}
		return 16
	}
	for _, block := range []string{"172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"} {
		if p := netip.MustParsePrefix(block); p.Addr().As4()[0] == a.As4()[0] {
			return p.Bits()
		}
	}
	return 8
}
