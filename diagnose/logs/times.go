package logs

import (
	"regexp"
	"time"
)

var stampForm = regexp.MustCompile(`(?:^|[^\d])(?:` +
	`(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\d*(Z|[+-]\d\d:?\d\d)?|` +
	`[IWEFD]0000 00:00:(1\d{9})\.|` + // of absl, before it knows the zone
	`[IWEFD](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?)`)

// clock says whether a line has something like 10:00:00.
func clock(line []byte) bool {
	for i := 2; i+5 < len(line); i++ {
		if line[i] == ':' && line[i+3] == ':' && digit(line[i-1]) && digit(line[i+1]) && digit(line[i+5]) {
			return true
		}
	}
	return false
}

// stamp returns the time at the beginning of a line; year is for forms without one.
func stamp(line []byte, year int) (time.Time, bool) {
	const head = 140
	line = line[:min(len(line), head)]
	if !clock(line) {
		return time.Time{}, false
	}
	m := stampForm.FindSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	n := func(i int) int { return number(string(m[i])) }
	nanos := func(i int) int {
		return number((string(m[i]) + "000000000")[:9])
	}
	if m[9] != nil {
		return time.Unix(int64(n(9)), 0).UTC(), true
	}
	if m[1] == nil {
		return time.Date(year, time.Month(n(10)), n(11), n(12), n(13), n(14), nanos(15), time.UTC), true
	}
	zone := time.UTC
	if z := string(m[8]); len(z) > 3 {
		hours, minutes := number(z[1:3]), number(z[len(z)-2:])
		offset := hours*3600 + minutes*60
		if z[0] == '-' {
			offset = -offset
		}
		zone = time.FixedZone("", offset)
	}
	return time.Date(n(1), time.Month(n(2)), n(3), n(4), n(5), n(6), nanos(7), zone).UTC(), true
}

var (
	yearForm = regexp.MustCompile(`(?:^|[^\w.-])((?:19|20)\d\d)[-/:][01]\d[-/:][0-3]\d[T _-][0-2]\d:\d\d:\d\d|` +
		`[A-Z][a-z]{2} [ \d]\d [0-2]\d:\d\d:\d\d (?:[A-Z]{3,4} )?((?:19|20)\d\d)\b`)
	// unixForm is a time in seconds: of glog's report of a crash, and at the beginning of lines of UCX, PSM and absl.
	unixForm = regexp.MustCompile(`(?m)^\*\*\* Aborted at (1\d{9}) \(unix time\)|^\[(1\d{9})\.\d{3,9}\] |` +
		`^[IWEFD]0000 00:00:(1\d{9})\.`)
)

// date takes the year for times without one from another time near the beginning of the log.
func (f *follower) date(text []byte) {
	const head = 1 << 16
	if f.dated || f.line > 0 {
		return
	}
	text = text[:min(len(text), head)]
	if m := yearForm.FindSubmatch(text); m != nil {
		f.year, f.dated = number(string(m[1])+string(m[2])), true
	} else if m := unixForm.FindSubmatch(text); m != nil {
		f.year, f.dated = time.Unix(int64(number(string(m[1])+string(m[2])+string(m[3]))), 0).UTC().Year(), true
	}
}
