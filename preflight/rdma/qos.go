package rdma

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// qosTrait is one property of a port's flow or congestion control.
type qosTrait struct {
	of   func(fabric.QoS) string         // with what it is set to; "" where that is not known
	file string                          // where it is read
	does func(own, want fabric.QoS) bool // own does all that want does, and maybe more
	set  func(own, want fabric.QoS) string
}

func qosTraits() []qosTrait {
	return []qosTrait{
		{func(q fabric.QoS) string { return named("trust ", q.Trust) }, "qos/trust",
			func(own, want fabric.QoS) bool { return own.Trust == want.Trust }, func(own, want fabric.QoS) string {
				return fmt.Sprintf("mlnx_qos -i %s --trust %s", own.Interface, want.Trust)
			}},
		{func(q fabric.QoS) string { return named("PFC for ", priorities(q.PFC)) }, "qos/pfc",
			func(own, want fabric.QoS) bool { return covers(own.PFC, want.PFC) },
			func(own, want fabric.QoS) string {
				return fmt.Sprintf("mlnx_qos -i %s --pfc %s", own.Interface, strings.Join(switches(want.PFC), ","))
			}},
		{dcqcn, "ecn", func(own, want fabric.QoS) bool {
			return covers(own.Notify, want.Notify) && covers(own.React, want.React)
		}, func(own, want fabric.QoS) string {
			return strings.Join(append(switched("roce_np", own.Interface, own.Notify, want.Notify),
				switched("roce_rp", own.Interface, own.React, want.React)...), "; ")
		}},
	}
}

// dcqcn describes for which priorities a port reports congestion and reacts to such reports.
func dcqcn(q fabric.QoS) string {
	if q.Notify == q.React {
		return named("DCQCN for ", priorities(q.Notify))
	}
	if q.Notify == "" || q.React == "" {
		return ""
	}
	return fmt.Sprintf("DCQCN reports (roce_np) for %s and reaction (roce_rp) for %s",
		priorities(q.Notify), priorities(q.React))
}

func named(what, value string) string {
	if value == "" {
		return ""
	}
	return what + value
}

// priorities describes the priorities of a fact.
func priorities(list string) string {
	switch {
	case list == "none":
		return "no priority"
	case strings.Contains(list, ","):
		return "priorities " + list
	}
	return named("priority ", list)
}

// covers reports whether a list has all priorities of another one.
func covers(list, want string) bool {
	return !slices.ContainsFunc(strings.Split(want, ","), func(p string) bool {
		return p != "none" && !strings.Contains(list, p)
	})
}

// switches returns the switches of the eight priorities, "0" or "1".
func switches(list string) []string {
	out := strings.Split("0,0,0,0,0,0,0,0", ",")
	for i := range out {
		if strings.Contains(list, fmt.Sprint(i)) {
			out[i] = "1"
		}
	}
	return out
}

// switched returns the lines that change the switches of one side of DCQCN.
func switched(side, iface, own, want string) (lines []string) {
	has := switches(own)
	for i, s := range switches(want) {
		if s != has[i] {
			lines = append(lines, fmt.Sprintf("echo %s > /sys/class/net/%s/ecn/%s/enable/%d", s, iface, side, i))
		}
	}
	return lines
}

// rdmaQoS finds the ports whose flow or congestion control lacks what most rails of their kind have.
func rdmaQoS(_ context.Context, in preflight.Input) []finding.Finding {
	ports := ports(in)
	var out []finding.Finding
	known := false
	for _, t := range qosTraits() {
		for _, p := range ports {
			own := t.of(p.Facts.QoS)
			known = known || own != ""
			want, n, all := mostOf(p, ports, t.of)
			if own == "" || t.does(p.Facts.QoS, want.Facts.QoS) || 2*n <= all {
				continue
			}
			out = append(out, finding.Warnf("%s has %s; %d of the %d rails of its kind have %s", p.Name, own, n, all,
				t.of(want.Facts.QoS)).
				See("/sys/class/net/"+p.Facts.QoS.Interface+"/"+t.file, "%s", own).
				See("/sys/class/net/"+want.Facts.QoS.Interface+"/"+t.file, "%s", t.of(want.Facts.QoS)).
				Breaking("under load the network drops what this port sends, or the port does not slow down: transfers over it "+
					"are repeated or time out, and every collective waits for them").
				Do("%s   # and where it is set at boot", t.set(p.Facts.QoS, want.Facts.QoS)))
		}
	}
	if !known {
		return finding.Skips("no rail shows how it takes part in flow and congestion control (NVIDIA's own driver does)")
	}
	return preflight.OrPass(out, "%s treat congestion alike", finding.Count(len(ports), "rail"))
}

// mostOf returns the first of the ports like p with the value that most of them have, how many these are, and the
// number of ports like p whose value is known.
func mostOf(p rail.Port, ports []rail.Port, of func(fabric.QoS) string) (most rail.Port, n, all int) {
	count := map[string]int{}
	for _, o := range ports {
		if alike(p.Card, o.Card) && of(o.Facts.QoS) != "" {
			count[of(o.Facts.QoS)]++
			all++
		}
	}
	for _, o := range ports {
		if v := count[of(o.Facts.QoS)]; alike(p.Card, o.Card) && v > n {
			most, n = o, v
		}
	}
	return most, n, all
}
