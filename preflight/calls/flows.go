package calls

import (
	"fmt"

	"launch/internal/sidechannel"
)

// OnePath is what connections show of which the ports decide whether they open.
const OnePath = "A second try from the same ports had the same result: one of several network paths drops packets"

// Opened describes new connections, of which some did not open at once; to names their other end, or is "".
func Opened(f sidechannel.Flows, to string) string {
	s := fmt.Sprintf("%d of %d new connections%s opened", f.Tried-f.Never, f.Tried, to)
	if f.Late > f.Never {
		s += fmt.Sprintf(", %d of them only when the first packet was sent again", f.Late-f.Never)
	}
	return s
}

// FindLimit returns the commands that show a limit on new connections; on names the nodes.
func FindLimit(on string) string {
	return fmt.Sprintf("nft list ruleset; iptables -S   # on %s: is there a limit on new connections (limit, hashlimit, "+
		"connlimit, ct count)\n"+
		"sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max net.core.somaxconn; "+
		"dmesg | grep conntrack   # is the table of connections full, or the queue of a listener short", on)
}

// FindPath returns what shows which of several network paths drops packets; on names the nodes.
func FindPath(on string) string {
	return "cat /proc/net/bonding/*; teamdctl TEAM state   # on " + on + ": a member of a bond whose other end " +
		"is not in the group\n" +
		"on the switches: the members of each port channel (LACP), and the next hops of each route (ECMP)"
}
