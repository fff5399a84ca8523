package fabric

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Traffic is how many bytes a port has sent and received since it was started,
// with those of all its users.
type Traffic struct{ Sent, Received uint64 }

// ReadTraffic reads the counters of a port: of an HCA its own, which see RDMA,
// else those of its interface, which do not
// (Documentation/ABI/testing/sysfs-class-net-statistics, …/stable/sysfs-class-infiniband).
// Two readings tell whether somebody uses it. Of an HCA each is a command to the
// firmware, and one that is refused is a line in the kernel log, so the first that
// cannot be read is the last that is asked. Detect does not call it.
func ReadTraffic(sys fs.FS, netdev, hca string, port int) (t Traffic, err error) {
	at, names, unit := path.Join("class/net", netdev, "statistics"), [2]string{"tx_bytes", "rx_bytes"}, uint64(1)
	if hca != "" { // in words of 4 bytes (IBTA volume 1, 16.1.3.5)
		at, names, unit = path.Join(classInfiniBand, hca, "ports", strconv.Itoa(port), "counters"), [2]string{"port_xmit_data", "port_rcv_data"}, 4
	}
	for i, to := range []*uint64{&t.Sent, &t.Received} {
		text, err := ReadFile(sys, path.Join(at, names[i]))
		if err != nil {
			return Traffic{}, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return Traffic{}, fmt.Errorf("%s of %s%s: %w", names[i], hca, netdev, err)
		}
		*to = n * unit
	}
	return t, nil
}
