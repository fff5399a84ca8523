package mpirun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/internal/hostlist"
)

// hosts finds the hosts, their slots, and whether more processes than slots are refused.
func (r *reader) hosts() error {
	if _, ok := r.option("app", "configfile"); ok {
		r.unclear("the hosts of a file of options (--app, -configfile) are not read")
	}
	var listed []hostlist.Machine
	var from []string
	for _, o := range r.Line.Options {
		switch o.Name {
		case "hostfile":
			more, err := r.machines(o.Value)
			if err != nil {
				return err
			}
			listed, from = append(listed, r.counted(r.Line.Argv[o.At], more)...), append(from, "--hostfile "+o.Value)
		case "machine":
			listed, from = append(listed, hostlist.Machine{Name: o.Value}), append(from, "--machine")
		}
	}
	allocated, allocation, err := r.allocation()
	switch {
	case len(from) > 0:
	case err != nil:
		return err
	case allocation != "":
		listed, from = allocated, []string{allocation}
	default:
		if listed, from, err = r.standing(); err != nil {
			return err
		}
	}
	if typed := r.typed(0, len(r.Line.Argv)); len(typed) > 0 {
		r.run.Sections = r.sections(len(listed) > 0)
		listed, from = chosen(typed, listed), []string{"--host"}
	}
	r.run.PerHost = r.perHost()
	r.run.Strict = !r.hydra() && !r.oversubscribes()
	r.run.Source = strings.Join(from, ", ")
	for _, m := range listed {
		r.run.Hosts = r.add(r.run.Hosts, m)
	}
	if allocation != "" && !r.hydra() && r.run.Source != allocation {
		r.within(allocated, allocation)
	}
	if n, err := strconv.Atoi(r.Line.NP.Value); err == nil {
		r.run.NP = n
	}
	r.run.Placed, r.run.Bind = r.placed(), r.bind()
	r.run.Per = r.per()
	r.run.NoLocal = r.maps("nolocal", "nolocal")
	if r.hydra() && !r.All && !r.run.NoLocal {
		r.only()
	}
	return nil
}

// counted returns the hosts of a hostfile with the slots that this MPI takes from it: Intel's takes numbers from a
// -machinefile alone (2021.19, seen in lab/mpi).
func (r *reader) counted(option string, all []hostlist.Machine) []hostlist.Machine {
	if r.Line.MPI != "intel" {
		return all
	}
	for i, m := range all {
		if all[i].Slots = max(1, m.Slots); strings.TrimLeft(option, "-") != "machinefile" {
			all[i].Slots = 0
		}
	}
	return all
}

// perHost returns Run.PerHost. Intel's mpiexec counts the cores of its own host for all.
func (r *reader) perHost() int {
	if !r.hydra() {
		return 0
	}
	if v, ok := r.option("ppn", "perhost", "grr"); ok {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			return n
		}
	}
	if r.Line.MPI != "intel" {
		return 1
	}
	if v, _ := r.variable("I_MPI_PERHOST"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			return n
		}
	}
	return max(1, r.Cores)
}

// add adds a host, or its slots to a host that is there already.
func (r *reader) add(hosts []Host, m hostlist.Machine) []Host {
	if strings.HasPrefix(m.Name, "+") || strings.HasPrefix(m.Name, "^") || strings.HasPrefix(m.Name, "-") {
		r.unclear(fmt.Sprintf("launch does not read %q in a list of hosts", m.Name))
		return hosts
	}
	i := indexOf(hosts, m.Name)
	if i < 0 {
		return append(hosts, Host{Name: m.Name, User: m.User, Slots: m.Slots})
	}
	hosts[i].Slots += m.Slots
	return hosts
}

func indexOf(hosts []Host, name string) int {
	return slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
}

// typed returns the hosts of --host in Argv[start:end]. For Open MPI a name stands for one slot, ":N" for N, ":*" for
// as many as the host has cores.
func (r *reader) typed(start, end int) (out []hostlist.Machine) {
	for _, o := range r.Line.Options {
		if o.Name != "host" || o.At < start || o.At >= end {
			continue
		}
		for h := range strings.SplitSeq(o.Value, ",") {
			at := strings.LastIndexByte(h, '@')
			m := hostlist.Machine{Name: h[at+1:], User: h[:max(at, 0)]}
			name, slots, counted := strings.Cut(m.Name, ":")
			switch n, err := strconv.Atoi(slots); {
			case counted && err == nil:
				if m.Name = name; r.Line.MPI != "intel" { // it takes no number from there
					m.Slots = n
				}
			case counted && !strings.Contains(slots, ":"):
				m.Name, r.starred[name] = name, true
			case !counted && !r.hydra():
				m.Slots = 1
			}
			if m.Name != "" {
				out = append(out, m)
			}
		}
	}
	return out
}

// chosen returns the typed hosts with the users and the slots that a list has for them.
func chosen(typed, listed []hostlist.Machine) []hostlist.Machine {
	for i, t := range typed {
		for _, l := range listed {
			if l.Name == t.Name && l.User != "" {
				typed[i].User = l.User
			}
		}
	}
	return typed
}

// machines reads a hostfile.
func (r *reader) machines(name string) ([]hostlist.Machine, error) {
	if r.Root == nil {
		return nil, nil
	}
	if !path.IsAbs(name) {
		name = path.Join(r.Dir, name)
	}
	file := strings.TrimPrefix(path.Clean(name), "/")
	if hostlist.Once(r.Root, file) {
		r.unclear(fmt.Sprintf("the hosts of %s are not read: it can be read once, and mpirun reads it", name))
		return nil, nil
	}
	f, err := r.Root.Open(file)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // its path lacks the first slash
	}
	if err != nil {
		return nil, fmt.Errorf("the hostfile %s cannot be read: %w", name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHostfile))
	if err != nil {
		return nil, fmt.Errorf("the hostfile %s cannot be read: %w", name, err)
	}
	if bytes.ContainsRune(text, '\r') && !r.hydra() {
		r.run.Returns = name
	}
	return hostlist.Machines(bytes.NewReader(text))
}

// maxHostfile bounds a hostfile, in bytes: a million hosts.
const maxHostfile = 64 << 20

// standing returns the hosts of a default hostfile.
func (r *reader) standing() ([]hostlist.Machine, []string, error) {
	file, from := "", ""
	switch v, ok := r.option("default-hostfile"); {
	case r.hydra():
		file, from = r.variable("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE")
	case ok:
		file, from = v, "--default-hostfile "+v
	default:
		file, from = r.parameter("orte_default_hostfile", "prte_default_hostfile")
	}
	if file == "none" {
		return nil, nil, nil
	}
	if file != "" {
		all, err := r.machines(file)
		if err != nil {
			return nil, nil, err
		}
		return r.counted(from, all), []string{from}, nil
	}
	for _, name := range r.defaults() {
		if all, err := r.machines(name); err == nil && len(all) > 0 {
			return all, []string{name}, nil
		}
	}
	return nil, nil, nil
}

// defaults are the files that an installation may have.
func (r *reader) defaults() []string {
	if r.hydra() || r.Binary == "" {
		return nil
	}
	etc := path.Join(path.Dir(path.Dir(r.Binary)), "etc")
	if r.Line.MPI == "openmpi5" {
		return []string{path.Join(etc, "prte-default-hostfile"), path.Join(etc, "openmpi-default-hostfile")}
	}
	return []string{path.Join(etc, "openmpi-default-hostfile"), "/etc/openmpi/openmpi-default-hostfile"}
}

// maps reports whether the line has an option, or a modifier of --map-by.
func (r *reader) maps(option, modifier string) bool {
	if _, ok := r.option(option); ok {
		return true
	}
	v, _ := r.option("map-by")
	_, modifiers, _ := strings.Cut(strings.ToLower(v), ":")
	return slices.Contains(strings.FieldsFunc(modifiers, func(c rune) bool { return c == ':' || c == ',' }), modifier)
}

// oversubscribes reports whether Open MPI may start more processes than slots.
func (r *reader) oversubscribes() bool {
	if _, ok := r.option("oversubscribe"); ok {
		return true
	}
	for _, name := range []string{"map-by", "rank-by"} {
		if v, _ := r.option(name); strings.Contains(strings.ToLower(v), "oversubscribe") &&
			!strings.Contains(strings.ToLower(v), "nooversubscribe") {
			return true
		}
	}
	v, _ := r.parameter("rmaps_base_oversubscribe")
	policy, _ := r.parameter("rmaps_base_mapping_policy", "rmaps_default_mapping_policy", "prte_map_by", "map_by")
	_, rank := r.option("rankfile", "rf")
	return v != "" && !isFalse(v) || rank || strings.Contains(strings.ToLower(policy), "oversubscribe")
}

// only leaves the hosts that Hydra needs for -np processes: it fills one after the other.
func (r *reader) only() {
	if r.run.NP == 0 || len(r.Line.Starts) > 1 {
		return
	}
	room := 0
	for i, h := range r.run.Hosts {
		n := h.Slots
		if n == 0 || r.Line.MPI != "intel" {
			n = max(n, r.run.PerHost)
		}
		if room += n; room >= r.run.NP {
			r.run.Hosts = r.run.Hosts[:i+1]
			return
		}
	}
}

// Slots returns how many slots the hosts have; ok: each says how many.
func (run Run) Slots() (n int, ok bool) {
	for _, h := range run.Hosts {
		if h.Slots == 0 {
			return 0, false
		}
		n += h.Slots
	}
	return n, len(run.Hosts) > 0
}
