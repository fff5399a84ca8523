package hosts

import (
	"net/netip"
	"strings"

	"launch/internal/finding"
)

// sameMachines names the hosts of the line that are one machine, by its boot and the namespaces of network, host name
// and processes: two containers of a machine differ, also two pods with the network of their node. Names that a
// scheduler gives are meant so.
func (j *judge) sameMachines(all []Answer) {
	if j.Run.Agent.Srun {
		return
	}
	machines := map[string][]Answer{}
	for _, a := range all {
		m, at := a.Facts.Machine, a.Name
		addr, err := netip.ParseAddr(at)
		if own := at == "localhost" || err == nil && addr.IsLoopback(); !own && // this host, maybe also by its name
			strings.Contains(m, "net:[") && strings.Contains(m, "uts:[") {
			machines[m] = append(machines[m], a)
		}
	}
	for _, a := range all {
		same := machines[a.Facts.Machine]
		if len(same) < 2 || same[0].Name != a.Name {
			continue
		}
		is := strings.Join(finding.Map(same, func(a Answer) string { return a.Name }), " ")
		f := finding.Warnf("%s are one machine, %s", strings.ReplaceAll(is, " ", " and "), a.Facts.Host).
			Breaking("it gets the processes of %s, which share its cores and GPUs", finding.Count(len(same), "host")).
			Do("getent hosts %s   # which name is wrong, in /etc/hosts or DNS?\nelse name it once, with all its slots", is)
		for _, one := range same {
			f = f.See(one.Name, "its host name is %s", one.Facts.Host)
		}
		j.add("mpi.address", "", f)
	}
}
