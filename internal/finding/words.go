package finding

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Speed returns a speed in bytes per second as text.
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

// Some returns a list of names that is cut after a few.
func Some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Skips returns a single skip.
func Skips(why string) []Finding { return []Finding{Skipf("%s", why)} }

// FailOr returns a failure where the job would certainly die, else a warning.
func FailOr(certain bool, format string, a ...any) Finding {
	if certain {
		return Failf(format, a...)
	}
	return Warnf(format, a...)
}

// Noun returns the form of a noun that fits a number.
func Noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// Count returns a number with its noun.
func Count(n int, word string) string { return fmt.Sprintf("%d %s", n, Noun(n, word)) }

// Size returns a number of bytes with a binary unit and few digits.
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

// MaxSeen limits the evidence of a finding that several devices or nodes share.
const MaxSeen = 6

// Micros returns a latency as text.
func Micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3) }

// Join returns the texts of all, separated by commas.
func Join[T any](all []T, text func(T) string) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = text(v)
	}
	return strings.Join(words, ", ")
}
