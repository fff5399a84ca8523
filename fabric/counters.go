package fabric

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// LinkErrors are the counters of one port by which a bad link shows, as they are
// now. Only two readings tell something: the numbers are since the port was
// started, and they stop at their largest value.
type LinkErrors struct {
	Downed  uint64 // link_downed: the link was lost
	Symbols uint64 // symbol_error
	Packets uint64 // port_rcv_errors: packets that arrived damaged
}

// ReadLinkErrors reads three files of a port's counters
// (Documentation/ABI/stable/sysfs-class-infiniband). Each is a command to the
// firmware, and one that is refused is a line in the kernel log, so the first that
// cannot be read is the last that is asked. Detect does not call it.
func ReadLinkErrors(sys fs.FS, hca string, port int) (e LinkErrors, err error) {
	at := path.Join(classInfiniBand, hca, "ports", strconv.Itoa(port), "counters")
	for _, c := range []struct {
		name string
		to   *uint64
	}{{"link_downed", &e.Downed}, {"symbol_error", &e.Symbols}, {"port_rcv_errors", &e.Packets}} {
		text, err := ReadFile(sys, path.Join(at, c.name))
		if err != nil {
			return LinkErrors{}, err
		}
		if *c.to, err = strconv.ParseUint(strings.TrimSpace(text), 10, 64); err != nil {
			return LinkErrors{}, fmt.Errorf("%s of %s: %w", c.name, hca, err)
		}
	}
	return e, nil
}
