// Package mpirun reads what an mpirun line asks of its hosts: which they are and how many slots they have, by which
// agent mpirun reaches them, which daemon it starts there, and how that daemon calls back. It runs nothing.
package mpirun

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/internal/launcher"
	"launch/internal/setting"
)

// Host is one host of the line, as mpirun calls it.
type Host struct {
	Name  string `json:"name"`
	User  string `json:"user,omitempty"`
	Slots int    `json:"slots,omitempty"` // 0: not said
}

// Target returns what mpirun hands to its agent.
func (h Host) Target() string {
	if h.User != "" {
		return h.User + "@" + h.Name
	}
	return h.Name
}

// Agent is the program by which mpirun starts its daemon on another host.
type Agent struct {
	Argv []string `json:"argv"` // the host follows, then the command
	From string   `json:"from"`
	Srun bool     `json:"srun,omitempty"` // Slurm's srun: the host is an option's value
}

// Interfaces are what the line allows the daemons to use: names and networks. Both empty: all.
type Interfaces struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	From    string   `json:"from,omitempty"`
}

// Run is what an mpirun line asks of its hosts.
type Run struct {
	Hosts  []Host `json:"hosts,omitempty"`
	Source string `json:"source,omitempty"` // of the hosts: "--hostfile hosts"
	NP     int    `json:"np,omitempty"`     // 0: not said
	// Sections are the programs of a line with several, where launch knows the slots that Open MPI has for each.
	Sections []Section `json:"sections,omitempty"`
	// Allocation is the variable with the scheduler's hosts from which the line chooses; "": it does not.
	Allocation string `json:"allocation,omitempty"`
	// Outside are hosts of the line that the allocation lacks, Starred those whose NAME:* counts no slot in it.
	Outside []string `json:"outside,omitempty"`
	Starred []string `json:"starred,omitempty"`
	// Doubt: whether this Open MPI takes hosts from the scheduler is not known.
	Doubt bool `json:"doubt,omitempty"`
	// Strict: mpirun refuses more processes than slots.
	Strict  bool `json:"strict,omitempty"`
	NoLocal bool `json:"no_local,omitempty"` // mpirun's own host gets no process
	// PerHost is how many processes a host without slots gets before the next one; 0: as many as it has cores.
	PerHost int `json:"per_host,omitempty"`
	// Per is how many processes each host or part of one gets, where the line says; nil: it does not.
	Per *Per `json:"per,omitempty"`
	// Bind is to which processors processes are bound; nil: launch does not know.
	Bind *Bind `json:"bind,omitempty"`
	// Placed says what places the processes otherwise than by filling one host after the other; "": nothing does.
	Placed string `json:"placed,omitempty"`
	Agent  Agent  `json:"agent,omitzero"`
	Daemon string `json:"daemon,omitempty"` // a path, or a name that the other host looks up
	Prefix string `json:"prefix,omitempty"` // of the installation that mpirun asks for on the other hosts
	// Forward: the programs get mpirun's whole environment (Hydra).
	Forward  bool     `json:"forward,omitempty"`
	Exports  []string `json:"exports,omitempty"` // -x NAME=VALUE of PATH and LD_LIBRARY_PATH
	Programs []string `json:"programs,omitempty"`
	Scripts  []string `json:"scripts,omitempty"` // that an interpreter among the programs reads
	Dir      string   `json:"dir,omitempty"`     // the working directory of the programs
	// Searched are directories, separated by spaces, in which Open MPI finds a program that PATH does not have.
	Searched string `json:"searched,omitempty"`

	Parameters []Parameter `json:"parameters,omitempty"` // which launch compares, and mpirun hands to all hosts
	Interfaces Interfaces  `json:"interfaces,omitzero"`
	CallName   string      `json:"call_name,omitempty"` // Hydra's daemons call mpiexec by this name; "": by its addresses
	// CallListed: where the list has mpiexec's own host, CallName is as it is named there (MPICH 5.0.2, seen with -v).
	CallListed bool   `json:"call_listed,omitempty"`
	Ports      [2]int `json:"ports,omitzero"` // where mpirun listens, both ends inclusive; 0: any

	// JobPorts is the first parameter or variable by which the line names the ports of the processes, with its value; "":
	// they take any.
	JobPorts string `json:"job_ports,omitempty"`
	// Returns is a hostfile with the line ends of Windows, which Open MPI cannot read; "": there is none.
	Returns string   `json:"returns,omitempty"`
	Unclear []string `json:"unclear,omitempty"` // what launch does not understand, a sentence each
}

// Input is what Read looks at.
type Input struct {
	Line     launcher.Line
	Env      []string          // of mpirun
	Decided  []setting.Decided // parameters of the line, the environment and MCA files; the first of a name counts
	Root     fs.FS             // nil reads no file
	Dir      string            // the working directory
	Binary   string            // the file of mpirun, links resolved
	Hostname string
	Cores    int  // of this host
	All      bool // also the hosts that Hydra does not need: others may be left out
}

type reader struct {
	Input
	run     Run
	starred map[string]bool // the hosts of NAME:*
}

// Read returns what an mpirun line asks; of one whose MPI is unknown the hosts, as Open MPI reads them. The error is
// about a list of hosts.
func Read(in Input) (Run, error) {
	r := &reader{Input: in, starred: map[string]bool{}}
	if err := r.hosts(); err != nil || in.Line.MPI == "" {
		return r.run, err
	}
	r.agent()
	r.daemon()
	r.programs()
	r.way()
	r.run.Parameters, r.run.JobPorts = r.handed(), r.jobPorts()
	return r.run, nil
}

func (r *reader) hydra() bool { return r.Line.Hydra() }

func (r *reader) unclear(why string) {
	if !slices.Contains(r.run.Unclear, why) {
		r.run.Unclear = append(r.run.Unclear, why)
	}
}

// option returns the last value of an option of the line.
func (r *reader) option(names ...string) (value string, ok bool) {
	for _, o := range slices.Backward(r.Line.Options) {
		if slices.Contains(names, o.Name) {
			return o.Value, true
		}
	}
	return "", false
}

// variable returns the first of the variables that is set, and its name.
func (r *reader) variable(names ...string) (value, name string) {
	for _, name := range names {
		for _, kv := range slices.Backward(r.Env) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
				return v, name
			}
		}
	}
	return "", ""
}

// parameter returns the first MCA parameter that is set, and where. Open MPI 5 hands those of PRRTE on.
func (r *reader) parameter(names ...string) (value, from string) {
	for _, name := range names {
		for _, d := range r.Decided {
			if d.Name == "OMPI_MCA_"+name || d.Name == "PRTE_MCA_"+name {
				from = d.Name
				if d.From != "environment" {
					from = d.From + " (" + name + ")"
				}
				return d.Value, from
			}
		}
	}
	return "", ""
}

// programs finds the program of each section, and the directory where it starts.
func (r *reader) programs() {
	r.run.Dir = r.Dir
	if dir, ok := r.option("wdir", "wd"); ok {
		r.run.Dir = dir
		if !path.IsAbs(dir) {
			r.run.Dir = path.Join(r.Dir, dir)
		}
	}
	l := r.Line
	for i, start := range l.Starts {
		end := len(l.Argv)
		if i+1 < len(l.Starts) {
			end = l.Starts[i+1] - 1
		}
		at := start
		for _, o := range l.Options {
			if o.At >= start && o.At < end {
				at = max(at, o.At+o.Words)
			}
		}
		if at < end && l.Argv[at] == "--" {
			at++
		}
		program, script := unwrap(l.Argv[min(at, end):end])
		if program != "" && !slices.Contains(r.run.Programs, program) {
			r.run.Programs = append(r.run.Programs, program)
		}
		if script != "" && !slices.Contains(r.run.Scripts, script) {
			r.run.Scripts = append(r.run.Scripts, script)
		}
	}
	if r.hydra() {
		r.run.Forward = true
		return
	}
	r.run.Searched = "."
	if dirs, ok := r.option("path"); ok {
		r.run.Searched = strings.ReplaceAll(dirs, ":", " ") + " ."
	}
	for _, o := range l.Options {
		name, _, set := strings.Cut(o.Value, "=")
		if o.Name != "x" || name != "PATH" && name != "LD_LIBRARY_PATH" {
			continue
		}
		if set {
			r.run.Exports = append(r.run.Exports, o.Value)
		} else if v, _ := r.variable(name); v != "" {
			r.run.Exports = append(r.run.Exports, name+"="+v)
		}
	}
}

// switches are options of Python without a value.
var switches = []string{"-u", "-B", "-E", "-I", "-O", "-OO", "-s", "-S"}

// unwrap returns the program of a command and the script that it reads, if it is an interpreter. After env it is the
// program that env starts.
func unwrap(words []string) (program, script string) {
	i := 0
	if len(words) > 0 && path.Base(words[0]) == "env" {
		for i = 1; i < len(words) && strings.Contains(words[i], "="); i++ {
		}
		if i == len(words) || strings.HasPrefix(words[i], "-") {
			i = 0
		}
	}
	if i >= len(words) {
		return "", ""
	}
	program, words = words[i], words[i+1:]
	name := path.Base(program)
	if python := strings.HasPrefix(name, "python"); !python && name != "sh" && name != "bash" {
		return program, ""
	}
	for len(words) > 0 && slices.Contains(switches, words[0]) {
		words = words[1:]
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		script = words[0]
	}
	return program, script
}

// way finds how the daemons call mpirun back.
func (r *reader) way() {
	list := func(s string) []string {
		return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
	}
	if r.hydra() {
		r.hydraWay()
		return
	}
	names := []string{"oob_tcp"}
	if r.Line.MPI != "openmpi4" {
		names = []string{"prte", "oob_tcp"}
	}
	for _, n := range names {
		if v, from := r.parameter(n + "_if_include"); v != "" {
			r.run.Interfaces = Interfaces{Include: list(v), From: from}
			break
		}
		if v, from := r.parameter(n + "_if_exclude"); v != "" {
			r.run.Interfaces = Interfaces{Exclude: list(v), From: from}
			break
		}
	}
	for _, n := range []string{"oob_tcp_static_ipv4_ports", "oob_tcp_dynamic_ipv4_ports", "prte_static_ipv4_ports",
		"prte_dynamic_ipv4_ports"} {
		if v, _ := r.parameter(n); v != "" {
			r.run.Ports = ports(v, "-,")
			return
		}
	}
}

// hydraWay: mpiexec tells its daemons the name of its own host, or the address of -iface.
func (r *reader) hydraWay() {
	r.run.CallName = r.Hostname
	at, named := r.option("localhost")
	if named {
		r.run.CallName = at
	}
	r.run.CallListed = !named && r.Line.MPI == "mpich"
	v, ok := r.option("iface")
	from := "-iface"
	if !ok {
		v, from = r.variable("I_MPI_HYDRA_IFACE", "HYDRA_IFACE")
	}
	if v != "" {
		r.run.Interfaces = Interfaces{Include: []string{v}, From: from}
		r.run.CallName, r.run.CallListed = "", false
	}
	v, _ = r.variable("I_MPI_PORT_RANGE", "MPIEXEC_PORT_RANGE", "MPICH_PORT_RANGE")
	r.run.Ports = ports(v, ":,-")
}

// ports returns the first range of a list, or zeros.
func ports(text, separators string) [2]int {
	f := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(separators, c) })
	var out [2]int
	for i := range min(len(f), 2) {
		n, err := strconv.Atoi(strings.TrimSpace(f[i]))
		if err != nil || n < 1 || n > 65535 {
			return [2]int{}
		}
		out[i] = n
	}
	if out[1] < out[0] {
		out[1] = out[0]
	}
	return out
}
