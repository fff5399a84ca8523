package handoff

import (
	"os"
	"strings"
)

// Environ returns the environment exactly as launch inherited it: in its order,
// with duplicates and with entries that have no "=". If /proc/self/environ cannot
// be read, it returns os.Environ, which drops duplicates.
func Environ() []string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return splitEnviron(string(b))
}

func splitEnviron(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\x00"), "\x00")
}

// Merge returns env with the plan applied. Entries that the plan does not name remain byte for byte
// and in their places. set holds NAME=value entries; the last of a name counts. It replaces the
// first entry of that name, or is appended; further entries of the name are removed, since
// libraries disagree on which one they read. unset holds names; set wins over unset.
func Merge(env, set, unset []string) []string {
	value := make(map[string]string, len(set))
	for _, kv := range set {
		value[nameOf(kv)] = kv
	}
	drop := make(map[string]bool, len(unset))
	for _, name := range unset {
		drop[name] = true
	}
	placed := make(map[string]bool, len(set))
	out := make([]string, 0, len(env)+len(set))
	place := func(name string) {
		if !placed[name] {
			placed[name] = true
			out = append(out, value[name])
		}
	}
	for _, kv := range env {
		name := nameOf(kv)
		if _, ok := value[name]; ok && strings.Contains(kv, "=") {
			place(name)
		} else if !drop[name] || !strings.Contains(kv, "=") {
			out = append(out, kv)
		}
	}
	for _, kv := range set {
		place(nameOf(kv))
	}
	return out
}

// nameOf returns the name of an entry. A leading "=" belongs to the name, as in the C library.
func nameOf(kv string) string {
	if kv == "" {
		return ""
	}
	if i := strings.IndexByte(kv[1:], '='); i >= 0 {
		return kv[:i+1]
	}
	return kv
}
