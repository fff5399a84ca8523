package mpirun

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Parameter is an MCA parameter, and where it is set. mpirun hands those of its line and its environment to all hosts;
// each host reads files of its own for the others (seen with Open MPI 4.1.4).
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // "mpirun --mca", "environment", a file
	Line  int    `json:"line,omitempty"`
	// Last: of a file that goes before the line and the environment, also on the host that has it.
	Last bool `json:"last,omitempty"`
}

// Compares reports whether launch compares a parameter between hosts.
func Compares(name string) bool { return slices.Contains(compared(), name) }

// compared returns those that may differ between hosts so that no start is possible.
func compared() []string {
	return []string{"oob", "btl", "pml", "oob_tcp_if_include", "prte_if_include", "btl_tcp_if_include"}
}

// handed returns the parameters that mpirun hands to all hosts.
func (r *reader) handed() (out []Parameter) {
	if r.hydra() {
		return nil
	}
	for _, d := range r.Decided {
		_, name, ok := strings.Cut(d.Name, "_MCA_")
		if ok && slices.Contains(compared(), name) && !strings.HasPrefix(d.From, "/") {
			out = append(out, Parameter{Name: name, Value: d.Value, From: d.From})
		}
	}
	return out
}

// jobPorts returns Run.JobPorts.
func (r *reader) jobPorts() string {
	names := []string{"UCX_TCP_PORT_RANGE"}
	if r.hydra() {
		names = append(names, "MPIR_CVAR_CH3_PORT_RANGE", "MPICH_CH3_PORT_RANGE", "MPICH_PORT_RANGE", "MPIR_CVAR_PORT_RANGE",
			"MPIR_PARAM_CH3_PORT_RANGE", "MPIR_PARAM_PORT_RANGE", "I_MPI_PORT_RANGE", "FI_TCP_PORT_LOW_RANGE")
	} else {
		names = append(names, "OMPI_MCA_btl_tcp_port_min_v4", "OMPI_MCA_btl_tcp_port_min_v6")
	}
	for _, d := range r.Decided {
		if slices.Contains(names, d.Name) && d.Value != "" && d.Value != "0" {
			return strings.TrimPrefix(d.Name, "OMPI_MCA_") + "=" + d.Value
		}
	}
	for _, name := range names {
		if v, _ := r.variable(name); v != "" && v != "0" {
			return strings.TrimPrefix(name, "OMPI_MCA_") + "=" + v
		}
	}
	return ""
}

// parameterFiles are the files of a host that the script reads, those that win first. launch_etc is its installation's;
// Debian's is another folder. Comments are those of opal/util/keyval: # and // at the start of a line, and /* before a
// name, over several lines.
const parameterFiles = `launch_comment() {
	while :; do
		case $l in
		[[:space:]]*) l=${l#?};;
		/\**)
			l=${l#/\*}
			until case $l in *\*/*) :;; *) false;; esac; do
				IFS= read -r l || return 1
				n=$((n + 1))
			done
			l=${l#*\*/};;
		*) return 0;;
		esac
	done
}
launch_debian=/etc/openmpi
case $launch_etc in /usr/etc|'') ;; *) launch_debian=$launch_etc;; esac
for f in "$launch_etc/openmpi-mca-params-override.conf" "$launch_debian/openmpi-mca-params-override.conf" ` +
	`"$HOME/.openmpi/mca-params.conf" "$launch_etc/openmpi-mca-params.conf" ` +
	`"$launch_debian/openmpi-mca-params.conf" "$HOME/.prte/mca-params.conf" "$launch_etc/prte-mca-params.conf"; do
	case $launch_read in *":$f:"*) continue;; esac
	[ -r "$f" ] || continue
	launch_read="$launch_read:$f:" n=0
	while IFS= read -r l || [ -n "$l" ]; do
		n=$((n + 1))
		launch_comment || break
		case $l in \#*|//*) ;; *oob*=*|*btl*=*|*pml*=*|*if_include*=*) say parameter "$f	$n	$l";; esac
	done < "$f"
done`

// addParameter adds a line of a file. The first file that has a name is in force, and in a file its last line.
func (f *Facts) addParameter(file, number, line string) {
	name, value, _ := strings.Cut(line, "=")
	p := Parameter{Name: strings.TrimSpace(name), Value: strings.Trim(strings.TrimSpace(value), `"'`), From: file}
	p.Line, _ = strconv.Atoi(number)
	p.Last = path.Base(file) == "openmpi-mca-params-override.conf"
	i := slices.IndexFunc(f.Parameters, func(o Parameter) bool { return o.Name == p.Name })
	switch {
	case !slices.Contains(compared(), p.Name):
	case i < 0:
		f.Parameters = append(f.Parameters, p)
	case f.Parameters[i].From == file:
		f.Parameters[i] = p
	}
}

// InForce returns a parameter as it counts on a host.
func (run Run) InForce(f Facts, name string) (Parameter, bool) {
	named := func(p Parameter) bool { return p.Name == name }
	i := slices.IndexFunc(f.Parameters, named)
	if k := slices.IndexFunc(run.Parameters, named); k >= 0 && (i < 0 || !f.Parameters[i].Last) {
		return run.Parameters[k], true
	}
	if i < 0 {
		return Parameter{}, false
	}
	return f.Parameters[i], true
}

// Selects reports whether a list of names and networks selects an interface of the host that has an address; known:
// the host says which it has. byName: the list has a name.
func (f Facts) Selects(list string) (ok, byName, known bool) {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		network, err := netip.ParsePrefix(word)
		name, _, _ := strings.Cut(word, ":") // an alias: eth0:1
		byName = byName || isName(word)
		switch {
		case err != nil && !isName(word), name == "lo", err == nil && network.Addr().IsLoopback():
			return true, byName, true // a form that launch does not read, or the loopback
		case slices.ContainsFunc(f.Addrs, func(a Address) bool {
			return a.Interface == name || err == nil && network.Contains(a.Prefix.Addr())
		}):
			return true, byName, true
		}
	}
	return false, byName, len(f.Addrs) > 0
}

// isName reports whether Open MPI takes an element of a list for the name of an interface: others begin with a digit.
func isName(word string) bool {
	return word != "" && (word[0]|0x20 >= 'a' && word[0]|0x20 <= 'z') && !strings.Contains(word, "/")
}
