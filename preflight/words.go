package preflight

import (
	"fmt"
	"math"
	"strings"
	"time"

	"launch/internal/finding"
)

// gbps is a speed for people.
func Speed(v float64) string {
	switch {
	case v >= 99.5e9:
		return fmt.Sprintf("%.0f GB/s", v/1e9)
	case v >= 1e9:
		return fmt.Sprintf("%.1f GB/s", v/1e9)
	case v >= 0.1e9:
		return fmt.Sprintf("%.2f GB/s", v/1e9)
	}
	return fmt.Sprintf("%.4f GB/s", v/1e9)
}

// some names a few of many.
func Some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func Skip(why string) []finding.Finding { return []finding.Finding{finding.Skipf("%s", why)} }

// failOr is a failure where the job is certain to die of it, else a warning.
func FailOr(certain bool, format string, a ...any) finding.Finding {
	if certain {
		return finding.Failf(format, a...)
	}
	return finding.Warnf(format, a...)
}

// plural is the form of a word that a number wants.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// howMany is a number with its word.
func Count(n int, word string) string { return fmt.Sprintf("%d %s", n, Plural(n, word)) }

// size writes bytes with a binary unit and no more digits than it needs.
func Size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if f == math.Trunc(f) || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// worthSeeing bounds the evidence of a finding that several nodes share.
const MaxSeen = 6

// micros is a latency.
func Micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3) }

func Join[T any](all []T, text func(T) string) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = text(v)
	}
	return strings.Join(words, ", ")
}
