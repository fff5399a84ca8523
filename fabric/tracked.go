package fabric

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// tableFull returns that the kernel's table of connections is full, so that it drops new ones; any user may read that.
func tableFull(proc fs.FS) Fault {
	held, most := trackedOf(proc, "count"), trackedOf(proc, "max")
	if most == 0 || held < most-most/100 { // the kernel evicts a few entries again and again
		return Fault{}
	}
	return Fault{fmt.Sprintf("this node's table of connections is full (%d of %d entries), so its kernel drops new ones",
		held, most), fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d   # on the machine itself\n"+
		"dmesg | grep conntrack; conntrack -S   # shows drops", 2*most)}
}

// trackedOf returns a setting or counter of the kernel's table of connections; 0: it has no such table.
func trackedOf(proc fs.FS, name string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(readText(proc, "sys/net/netfilter/nf_conntrack_"+name)))
	return n
}
