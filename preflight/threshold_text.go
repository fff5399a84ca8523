package preflight

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/spelling"
)

// ThresholdError is a NAME=VALUE that cannot be.
type ThresholdError struct {
	What string // what is wrong with it
	Fix  string // a NAME=VALUE that can be
}

func (e *ThresholdError) Error() string { return e.What }

// ParseThreshold reads NAME=VALUE, the value in the unit that the table has for
// the name. The error is a *ThresholdError.
func ParseThreshold(text string) (name string, value float64, err error) {
	name, written, ok := strings.Cut(text, "=")
	name, written = strings.TrimSpace(name), strings.TrimSpace(written)
	table := Thresholds()
	i := slices.IndexFunc(table, func(t Threshold) bool { return t.Name == name })
	switch {
	case i < 0:
		return "", 0, noThreshold(name, table)
	case !ok:
		return "", 0, &ThresholdError{fmt.Sprintf("%q has no value", text), table[i].example()}
	}
	value, ok = table[i].Unit.parse(written)
	if !ok {
		return "", 0, &ThresholdError{fmt.Sprintf("%s: %q is no %s", name, written, table[i].Unit.words()), table[i].example()}
	}
	return name, value, nil
}

func noThreshold(name string, table []Threshold) error {
	var known []string
	for _, t := range table {
		known = append(known, t.Name)
	}
	e := &ThresholdError{What: fmt.Sprintf("no threshold %q; there are %s", name, strings.Join(known, ", ")), Fix: table[0].example()}
	if meant := spelling.Closest(name, known); meant != "" {
		e.What = fmt.Sprintf("no threshold %q, did you mean %q?", name, meant)
		e.Fix = table[slices.Index(known, meant)].example()
	}
	return e
}

// example is the threshold with its default.
func (t Threshold) example() string { return t.Name + "=" + t.Unit.Format(t.Default) }

func (u Unit) words() string {
	return map[Unit]string{Bytes: "number of bytes", Seconds: "time", Number: "number"}[u] + " from 0 on"
}

// byteUnits are the suffixes of bytes, as Kubernetes and dd have them: with an i
// powers of 1024, without it of 1000.
func byteUnits() map[string]float64 {
	out := map[string]float64{"": 1, "b": 1}
	for i, c := range []string{"k", "m", "g", "t"} {
		binary, decimal := math.Pow(1024, float64(i+1)), math.Pow(1000, float64(i+1))
		out[c+"i"], out[c+"ib"], out[c], out[c+"b"] = binary, binary, decimal, decimal
	}
	return out
}

// parse reads a value of the unit; ok: it is finite and not negative.
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

// format writes a default as parse reads it.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return time.Duration(v * float64(time.Second)).String()
	case Bytes:
		return strings.ReplaceAll(Size(uint64(v)), " ", "")
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
