package hosts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// parameters judges what counts on a host of Open MPI's parameters: networks that it does not have, and lists in its
// own files that leave out what the head uses.
func (j *judge) parameters(a Answer) {
	if j.Run.Forward || a.Local { // env.ompi-include judges this host
		return
	}
	daemon := map[string]string{"openmpi4": "oob_tcp_if_include", "openmpi5": "prte_if_include"}[j.MPI]
	for _, name := range []string{daemon, "btl_tcp_if_include"} {
		list, _ := j.Run.InForce(a.Facts, strings.Split(name, "_")[0])
		if p, ok := j.Run.InForce(a.Facts, name); ok && p.Value != "" && uses(list.Value, "tcp") {
			j.included(a, p)
		}
	}
	lists := []string{"btl"}
	if j.MPI == "openmpi4" {
		lists = append(lists, "oob")
	}
	for _, name := range lists {
		p, _ := j.Run.InForce(a.Facts, name)
		head, _ := j.Run.InForce(j.Head, name)
		if p.Line > 0 && !uses(p.Value, "tcp") && uses(head.Value, "tcp") && !(name == "btl" && j.otherWay(a)) {
			j.add("mpi.parameters", a.Name, j.differs(p, head).Breaking("it has no TCP there, and the others have: Open MPI "+
				"ends the job"))
		}
	}
	p, _ := j.Run.InForce(a.Facts, "pml")
	head, _ := j.Run.InForce(j.Head, "pml")
	if p.Line > 0 && one(p.Value) && one(head.Value) && p.Value != head.Value {
		j.add("mpi.parameters", a.Name, j.differs(p, head).Breaking("processes of two kinds do not understand each other, "+
			"and Open MPI ends the job"))
	}
}

// differs says that a file of a host has another value than the head.
func (j *judge) differs(p, head mpirun.Parameter) finding.Finding {
	here := "it is not set"
	if head.Name != "" {
		here = head.Name + "=" + head.Value + at(head)
	}
	return finding.Warnf("%s:%d there has %s = %s, which this host has not", p.From, p.Line, p.Name, p.Value).
		See("here", "%s", here).
		Do("remove that line, or set one value for all hosts: mpirun --mca %s VALUE", p.Name)
}

// at says where a parameter is set.
func at(p mpirun.Parameter) string {
	if p.Line > 0 {
		return fmt.Sprintf(" (%s:%d)", p.From, p.Line)
	}
	return " (" + p.From + ")"
}

// uses reports whether a list of components allows one. A list that begins with ^ excludes.
func uses(list, component string) bool {
	names, not := strings.CutPrefix(strings.TrimSpace(list), "^")
	if names == "" {
		return true
	}
	return slices.Contains(strings.FieldsFunc(names, func(c rune) bool { return c == ',' || c == ' ' }), component) != not
}

// one reports whether a list names one component.
func one(list string) bool { return list != "" && !strings.ContainsAny(list, "^, ") }

// otherWay reports whether a host's processes may reach others without Open MPI's own TCP: by UCX or libfabric.
func (j *judge) otherWay(a Answer) bool {
	p, _ := j.Run.InForce(a.Facts, "pml")
	return len(a.Facts.RDMA) > 0 && p.Value != "ob1" || p.Value == "ucx" || p.Value == "cm"
}

// included judges a list of interfaces and networks.
func (j *judge) included(a Answer, p mpirun.Parameter) {
	ok, byName, known := a.Facts.Selects(p.Value)
	if ok || !known {
		return
	}
	btl := p.Name == "btl_tcp_if_include"
	f := finding.Failf("%s=%s%s selects no interface there", p.Name, p.Value, at(p)).
		Breaking("its daemon has no network and ends, and mpirun with it")
	if btl {
		f = f.Breaking("its processes have no network to the others, and Open MPI ends the job")
	}
	if !byName {
		f = f.Breaking("Open MPI ignores the list there: it uses all networks, also those that the others do not reach")
	}
	if !byName || btl && j.otherWay(a) {
		f.Status = finding.Warn
	}
	for _, addr := range a.Facts.Addrs[:min(len(a.Facts.Addrs), 4)] {
		f = f.See(a.Name, "it has %s with %s", addr.Interface, addr.Prefix)
	}
	j.add("mpi.parameters", a.Name, f.Do("mpirun --%s %s %s   # a network instead of an interface",
		map[bool]string{false: "mca", true: "prtemca"}[strings.HasPrefix(p.Name, "prte_")], p.Name, j.shared(a)))
}

// shared returns a network of this host in which the other one has an address.
func (j *judge) shared(a Answer) string {
	for _, here := range j.Head.Addrs {
		same := func(there mpirun.Address) bool { return here.Prefix.Contains(there.Prefix.Addr()) }
		if here.Prefix.Bits() < here.Prefix.Addr().BitLen() && slices.ContainsFunc(a.Facts.Addrs, same) {
			return netip.PrefixFrom(here.Prefix.Addr(), here.Prefix.Bits()).Masked().String()
		}
	}
	return "CIDR"
}
