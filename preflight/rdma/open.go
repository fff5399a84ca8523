package rdma

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

const overTCP = "the job takes TCP; NCCL reports it only with NCCL_DEBUG=INFO"

// rdmaOpen warns if no device opens, or if one does not that is a rail where others are.
func rdmaOpen(_ context.Context, in preflight.Input) []finding.Finding {
	active := slices.DeleteFunc(slices.Clone(in.Node.HCAs), func(h fabric.HCA) bool {
		return !slices.ContainsFunc(h.Ports, fabric.Port.Active) || h.PCI == ""
	})
	v := in.Node.Verbs
	if f, bad := cardsAlone(in); bad {
		return []finding.Finding{f}
	}
	if f, bad := driverless(in); bad {
		return []finding.Finding{f}
	}
	switch why := noRDMA(in); {
	case why != "":
		return finding.Skips(why)
	case len(active) == 0:
		return finding.Skips("no active RDMA port here")
	case strings.Contains(v.Err, "libibverbs.so"):
		return []finding.Finding{finding.Warnf("%s here, but libibverbs is not installed", are(len(active), "RDMA device")).
			See("libibverbs", "%s", v.Err).Breaking(overTCP).Do("%s", fixFor(in, verbs.NoLibrary, active[0]))}
	case v.Err == verbs.ErrNoStack.Error():
		return []finding.Finding{finding.Warnf("%s here, but %s", are(len(active), "RDMA device"), v.Err).
			See("libibverbs", "%s", v.Err).Breaking(overTCP).Do("%s", fixFor(in, verbs.NoStack, active[0]))}
	}
	if out := unopened(in); len(out) > 0 {
		return out
	}
	if !v.Present {
		return finding.Skips("could not tell: " + cmp.Or(v.Err, "libibverbs was not asked"))
	}
	f := finding.Warnf("%s here, but this process can open none", are(len(active), "RDMA device")).Breaking(overTCP)
	var causes []verbs.Cause
	var fixes []string
	for _, h := range active {
		cause, why := opening(v, h)
		if cause == "" {
			return []finding.Finding{finding.Passf("%s opens", h.Name)}
		}
		f = f.See(cmp.Or(h.Uverbs, "libibverbs"), "%s", why)
		if !slices.Contains(causes, cause) {
			causes, fixes = append(causes, cause), append(fixes, fixFor(in, cause, h))
		}
	}
	return []finding.Finding{f.Do("%s", strings.Join(fixes, "\n"))}
}

// opening returns why libibverbs does not open a device: a cause, and what it says; "" where it does.
func opening(v verbs.Facts, h fabric.HCA) (cause verbs.Cause, why string) {
	i := slices.IndexFunc(v.Devices, func(d verbs.Device) bool { return d.Name == h.Name })
	switch {
	case i < 0 && !v.Present && h.Closed != "":
		return verbs.NoNode, h.Name + ": " + h.Closed
	case i < 0:
		return verbs.NotListed, fmt.Sprintf("%s is not listed: its file in /dev/infiniband or the library for %s is "+
			"missing", h.Name, cmp.Or(h.Driver, "it"))
	case v.Devices[i].Opens:
		return "", ""
	}
	return cmp.Or(v.Devices[i].Cause, verbs.Other), h.Name + ": " + cmp.Or(v.Devices[i].Err, "no reason given")
}

// unopened finds cards like the rails that this process cannot open, one finding for each cause.
func unopened(in preflight.Input) (out []finding.Finding) {
	fab := rail.Of(in.Node, in.Addr)
	by := map[verbs.Cause][]fabric.HCA{}
	var causes []verbs.Cause
	for _, h := range in.Node.HCAs {
		if !slices.ContainsFunc(fab.NICs, func(n rail.NIC) bool { return n.HCA && n.Name == h.Name && n.Shut }) {
			continue
		}
		cause, _ := opening(in.Node.Verbs, h)
		if by[cause] == nil {
			causes = append(causes, cause)
		}
		by[cause] = append(by[cause], h)
	}
	for _, cause := range causes {
		list := by[cause]
		f := finding.Warnf("")
		for _, h := range list[:min(len(list), finding.MaxSeen)] {
			_, why := opening(in.Node.Verbs, h)
			f = f.See(cmp.Or(h.Uverbs, "libibverbs"), "%s", why)
		}
		_, why := opening(in.Node.Verbs, list[0])
		one := len(list) == 1
		f.What = fmt.Sprintf("%s %s like the rails of this node, and this process cannot open %s: %s",
			finding.Some(finding.Map(list, func(h fabric.HCA) string { return h.Name })),
			map[bool]string{true: "is a card", false: "are cards"}[one], map[bool]string{true: "it", false: "them"}[one],
			strings.TrimPrefix(why, list[0].Name+": "))
		out = append(out, f.Breaking("NCCL and others pass over it, and report it only in a log: with fewer rails than "+
			"other nodes the job is slower, or hangs").
			Do("%s\nif it is not for this job: --skip rdma.open", oneMore(in, cause, list[0])))
	}
	return out
}

// oneMore returns the fix for a device that does not open while others do: then the library and the module are here.
func oneMore(in preflight.Input, c verbs.Cause, h fabric.HCA) string {
	if c != verbs.NoNode && c != verbs.Permission && c != verbs.NotListed {
		return fixFor(in, c, h)
	}
	return in.Remedy(map[preflight.Place]string{
		preflight.InKubernetes: "give the container a resource of the RDMA device plugin for each of its rails\n" +
			"ls -l /dev/infiniband   # shows the devices that it has",
		preflight.InContainer: "docker run --device /dev/infiniband …   # all of its files\n" +
			"ls -l /dev/infiniband   # shows the devices that it has",
		preflight.InShell: "ls -l /dev/infiniband; grep . /sys/class/infiniband_verbs/*/ibdev   # is the file of " + h.Name +
			" here, with mode 0666?\nin a container: give it all files (--device /dev/infiniband, or the RDMA device " +
			"plugin)\non the machine itself: udevadm trigger   # makes the files again",
	})
}

// are returns a number with its noun and verb.
func are(n int, word string) string {
	return finding.Count(n, word) + map[bool]string{true: " is", false: " are"}[n == 1]
}
