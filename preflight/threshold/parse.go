package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/internal/spelling"
)

// Error reports an invalid NAME=VALUE.
type Error struct {
	What string // what is wrong
	Fix  string // a valid NAME=VALUE
}

func (e *Error) Error() string { return e.What }

// Parse reads NAME=VALUE, with the value in the unit of the threshold. The error is a *Error.
func Parse(text string) (name string, value float64, err error) {
	name, written, ok := strings.Cut(text, "=")
	name, written = strings.TrimSpace(name), strings.TrimSpace(written)
	table := All()
	i := slices.IndexFunc(table, func(t Threshold) bool { return t.Name == name })
	switch {
	case i < 0:
		return "", 0, noThreshold(name, table)
	case !ok:
		return "", 0, &Error{fmt.Sprintf("%q has no value", text), table[i].example()}
	}
	value, ok = table[i].Unit.parse(written)
	if !ok {
		return "", 0, &Error{fmt.Sprintf("%s: %q is not a %s", name, written, table[i].Unit.words()),
			table[i].example()}
	}
	return name, value, nil
}

func noThreshold(name string, table []Threshold) error {
	var known []string
	for _, t := range table {
		known = append(known, t.Name)
	}
	e := &Error{What: fmt.Sprintf("no threshold %q; the names are %s", name, strings.Join(known, ", ")),
		Fix: table[0].example()}
	if meant := spelling.Closest(name, known); meant != "" {
		e.What = fmt.Sprintf("no threshold %q, did you mean %q?", name, meant)
		e.Fix = table[slices.Index(known, meant)].example()
	}
	return e
}

// example returns NAME=VALUE with the default.
func (t Threshold) example() string { return t.Name + "=" + t.Unit.Format(t.Default) }

func (u Unit) words() string {
	return map[Unit]string{Bytes: "number of bytes", Seconds: "duration", Number: "number"}[u] + " of 0 or more"
}

// byteUnits returns the suffixes of byte counts, as Kubernetes and dd have them:
// powers of 1024 with an i, powers of 1000 without.
func byteUnits() map[string]float64 {
	out := map[string]float64{"": 1, "b": 1}
	for i, c := range []string{"k", "m", "g", "t"} {
		binary, decimal := math.Pow(1024, float64(i+1)), math.Pow(1000, float64(i+1))
		out[c+"i"], out[c+"ib"], out[c], out[c+"b"] = binary, binary, decimal, decimal
	}
	return out
}

// parse reads a value of the unit; ok reports whether it is finite and not negative.
func (u Unit) parse(s string) (v float64, ok bool) {
	var err error
	switch u {
	case Seconds:
		var d time.Duration
		d, err = time.ParseDuration(s)
		v = d.Seconds()
	case Bytes:
		digits := strings.TrimRight(s, "bBiIkKmMgGtT")
		factor, known := byteUnits()[strings.ToLower(s[len(digits):])]
		if v, err = strconv.ParseFloat(strings.TrimSpace(digits), 64); !known {
			return 0, false
		}
		v *= factor
	default:
		v, err = strconv.ParseFloat(s, 64)
	}
	return v, err == nil && v >= 0 && !math.IsInf(v, 1)
}

// Format writes a value as parse reads it.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return time.Duration(v * float64(time.Second)).String()
	case Bytes:
		return strings.ReplaceAll(finding.Size(uint64(v)), " ", "")
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
