package bundle

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	uuidRE = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	macRE  = regexp.MustCompile(`^(?i)[0-9a-f]{2}(:[0-9a-f]{2}){5,19}`)
	ipv4RE = regexp.MustCompile(`^\d{1,3}(\.\d{1,3}){3}`)
	homeRE = regexp.MustCompile(`^/(?:home|homes|users|Users)/([^/\s:;,"'()\[\]<>|]+)`)
	mailRE = regexp.MustCompile(`^([A-Za-z0-9._-]+)@[A-Za-z0-9\[]`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// words are names that programs use: hosts and users of such a name are replaced in fields alone.
var words = []string{
	"python",
	"python3",
	"torch",
	"torchrun",
	"launch",
	"mpirun",
	"main",
	"train",
	"test",
	"run",
	"rank",
	"ranks",
	"world",
	"store",
	"master",
	"worker",
	"workers",
	"agent",
	"gloo",
	"nccl",
	"tcp",
	"pt",
	"elastic",
	"distributed",
	"data",
	"local",
	"user",
	"users",
	"home",
	"node",
	"nodes",
	"host",
	"job",
	"lib",
	"usr",
	"opt",
	"bin",
	"tmp",
	"var",
	"dev",
	"etc",
	"proc",
	"sys",
	"error",
	"exception",
	"the",
	"and",
	"for",
	"gpu",
	"cuda",
	"cpu",
	"py",
	"ssh",
	"sh",
	"bash",
	"none",
	"static",
	"c10d",
	"default",
	"init",
	"barrier",
	"thread",
	"threads",
	"loop",
	"socket",
	"key",
	"keys",
	"pid",
	"root",
}

// telling reports whether a name is replaced in any text.
func telling(name string) bool {
	letter := strings.ContainsFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	return letter && len(name) > 1 && !slices.Contains(words, name)
}

func shapeOf(name string) string { return digits.ReplaceAllString(name, "#") }

// alnum reports whether a byte is a letter or digit of ASCII. All others end a word: a name is rather replaced within
// a longer one than left.
func alnum(c byte) bool { return digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// named reports whether a name may have the byte at its ends.
func named(c byte) bool { return alnum(c) || c >= 0x80 }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func hex(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// Text replaces names and addresses anywhere in a text, and what may be a secret.
func (m *Masker) Text(s string) string { return m.text(s) }

func (m *Masker) text(s string) string {
	if s == "" {
		return s
	}
	if out, known := m.cache[s]; known && !m.collects {
		return out
	}
	clear := m.conceal(s)
	var out strings.Builder
	for i := 0; i < len(clear); {
		n, to := m.match(clear, i)
		if n == 0 {
			out.WriteByte(clear[i])
			n = 1
		} else {
			out.WriteString(to)
		}
		i += n
	}
	if !m.collects {
		m.cache[s] = out.String()
	}
	return out.String()
}

// widest bounds what is looked at from one place on: a name has at most 253 bytes.
const widest = 320

// match returns the length of what is to be replaced at a place of a text, and its replacement; 0: nothing.
func (m *Masker) match(s string, i int) (int, string) {
	rest := s[i:min(len(s), i+widest)]
	first := i == 0 || !alnum(s[i-1])
	if rest[0] == '/' {
		if p := homeRE.FindStringSubmatchIndex(rest); p != nil {
			return p[1], rest[:p[2]] + m.user(rest[p[2]:p[3]])
		}
		return 0, ""
	}
	if first && hex(rest[0]) {
		for _, re := range []*regexp.Regexp{uuidRE, macRE} {
			if id := re.FindString(rest); id != "" && !continues(rest, len(id)) {
				return len(id), m.id(id)
			}
		}
	}
	if n, to := m.matchAddr(s, i); n > 0 {
		return n, to
	}
	if !first || !named(rest[0]) {
		return 0, ""
	}
	return m.matchName(rest)
}

// continues reports whether a word goes on after n bytes.
func continues(s string, n int) bool { return n < len(s) && alnum(s[n]) }

// matchAddr matches an address.
func (m *Masker) matchAddr(s string, i int) (int, string) {
	rest := s[i:min(len(s), i+widest)]
	if digit(rest[0]) && (i == 0 || !digit(s[i-1])) {
		if text := ipv4RE.FindString(rest); text != "" && (len(text) == len(rest) || !digit(rest[len(text)])) {
			if a, err := netip.ParseAddr(text); err == nil {
				return len(text), m.addr(a).String()
			}
		}
	}
	if !hex(rest[0]) && rest[0] != ':' || i > 0 && (hex(s[i-1]) || s[i-1] == ':') {
		return 0, ""
	}
	end := 0
	for end < len(rest) && end < 46 && (hex(rest[end]) || rest[end] == ':' || rest[end] == '.') {
		end++
	}
	for ; end > 2 && strings.Count(rest[:end], ":") > 1; end-- {
		a, err := netip.ParseAddr(rest[:end])
		if err != nil || continues(rest, end) || end < len(rest) && rest[end] == ':' {
			continue
		}
		return end, m.addr(a).String()
	}
	return 0, ""
}

// matchName matches a host, a domain or a user at the beginning of a word.
func (m *Masker) matchName(rest string) (int, string) {
	end := 0
	for end < len(rest) && end < 256 && (named(rest[end]) || strings.IndexByte("._-", rest[end]) >= 0) {
		end++
	}
	if m.collects {
		if p := mailRE.FindStringSubmatch(rest); p != nil && telling(strings.ToLower(p[1])) {
			m.user(p[1])
		}
	}
	low := strings.ToLower(rest[:end])
	if len(low) != end { // a letter whose lower case is of another length
		low = rest[:end]
	}
	if end < len(rest) && rest[end] == '[' && m.stems[low] { // gpu-[01-04]
		if n := strings.IndexByte(rest[end:], ']'); n > 0 {
			return end + n + 1, "[hosts]"
		}
	}
	for ; end > 0; end-- {
		if key := low[:end]; named(key[end-1]) && !continues(rest, end) {
			if to, ok := m.name(key); ok {
				return end, to
			}
		}
	}
	return 0, ""
}

// name replaces a word of a text, in lower case, if it is a name.
func (m *Masker) name(key string) (string, bool) {
	short, domain, dotted := strings.Cut(key, ".")
	_, host := m.hosts[short]
	_, isDomain := m.domains[domain]
	_, user := m.users[key]
	if !telling(key) || key == "localhost" {
		return "", false
	}
	switch {
	case !dotted && (host || m.shapes[shapeOf(key)]), dotted && isDomain && (host || strings.Contains(domain, ".")):
		return m.host(key), true
	case user:
		return m.user(key), true
	case dotted:
		if _, whole := m.domains[key]; whole {
			return m.domain(key), true
		}
		for d := domain; strings.Contains(d, "."); { // a host below a known domain
			_, d, _ = strings.Cut(d, ".")
			if _, known := m.domains[d]; known && strings.Contains(d, ".") {
				return m.host(key), true
			}
		}
	}
	return "", false
}

// The secrets that a program prints: after a name that says so, or by their own form.
var (
	afterName = regexp.MustCompile(`(?i)((?:token|passw(?:or)?d|passphrase|secret|credentials?|api[-_]?key|` +
		`access[-_]?key|private[-_]?key|cookie)(?:[_-][a-z0-9_]*)?["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"',;&]+)`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	userinfo = regexp.MustCompile(`(://)[^/@\s]+@`)
	ownForm  = regexp.MustCompile(`\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|` +
		`glpat-[\w-]{16,}|sk-[\w-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|[0-9a-f]{40})\b`)
)

const masked = "***"

// conceal removes what may be a secret.
func (m *Masker) conceal(s string) string {
	out := bearer.ReplaceAllString(s, "${1} "+masked)
	out = afterName.ReplaceAllString(out, "${1}"+masked)
	out = userinfo.ReplaceAllString(out, "${1}"+masked+"@")
	if out = ownForm.ReplaceAllString(out, masked); out != s && !m.collects {
		m.secrets++
	}
	return out
}
