package start

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/setting"
	"launch/preflight/hosts"
)

// planned is what one host would set, by launch env --json.
type planned struct {
	host string
	vars []setting.Var
}

// readPlan reads the variables in what a host printed.
func readPlan(host string, lines []string) planned {
	p := planned{host: host}
	for _, line := range lines {
		var v struct {
			Type string `json:"type"`
			setting.Var
		}
		if json.Unmarshal([]byte(line), &v) == nil && v.Type == "var" {
			p.vars = append(p.vars, v.Var)
		}
	}
	return p
}

// agreed returns the variables that all hosts would set to the same value, which mpirun can carry, and the names of
// those that differ. What a user has decided on a host is left alone.
func agreed(all []planned) (same []setting.Var, differ []string) {
	if len(all) == 0 {
		return nil, nil
	}
	values := map[string][]string{}
	kept := map[string]bool{}
	var order []setting.Var
	for _, p := range all {
		for _, v := range p.vars {
			if values[v.Name] == nil {
				order = append(order, v)
			}
			values[v.Name] = append(values[v.Name], v.Value)
			kept[v.Name] = kept[v.Name] || v.Kept
		}
	}
	for _, v := range order {
		of := values[v.Name]
		switch {
		case kept[v.Name]:
		case len(of) == len(all) && !slices.ContainsFunc(of, func(s string) bool { return s != of[0] }):
			v.Reason = fmt.Sprintf("%s (the same on all %d hosts)", v.Reason, len(all))
			v.Scope = setting.Job
			same = append(same, v)
		default:
			differ = append(differ, v.Name)
		}
	}
	return same, differ
}

// addAgreed adds to this host's plan what all hosts agree on. What the user has set here goes before it.
func (s *Start) addAgreed(plan []setting.Var) []setting.Var {
	same, differ := agreed(s.hostPlans)
	decided := func(name string) bool {
		return slices.ContainsFunc(s.Job.Decided, func(d setting.Decided) bool { return d.Name == name })
	}
	for _, v := range same {
		i := slices.IndexFunc(plan, func(p setting.Var) bool { return p.Name == v.Name })
		switch {
		case decided(v.Name):
		case i < 0:
			plan = append(plan, v)
		case plan[i].Scope == setting.Node && !plan[i].Kept:
			plan[i] = v
		}
	}
	s.setPerHost(slices.DeleteFunc(differ, func(name string) bool {
		return decided(name) || !forwarded(name)
	}))
	return plan
}

// sayLater says in a dry run of mpirun what only the answers of its hosts decide.
func (s *Start) sayLater() {
	others := slices.ContainsFunc(s.Mpirun.Hosts, func(h mpirun.Host) bool { return !s.isOwnName(h.Name) })
	if !s.Opt.DryRun || !s.wouldAsk() || !others {
		return
	}
	var names []string
	for _, v := range s.Plan {
		if v.Scope == setting.Node && !v.Kept && forwarded(v.Name) {
			names = append(names, v.Name)
		}
	}
	likely := ""
	if len(names) > 0 {
		likely = "; by this host: " + strings.Join(names, " ")
	}
	s.UI.Note("a start asks the hosts first, and adds variables: those on which all agree, and on each host those that "+
		"differ%s", likely)
}

// plannedParameters returns the MCA parameters that launch itself adds to the line: they go before the files of a host.
func (s *Start) plannedParameters() (out []mpirun.Parameter) {
	for _, v := range envgen.Make(s.Input) {
		_, name, ok := strings.Cut(v.Name, "_MCA_")
		if ok && v.Scope == setting.Job && !v.Kept && mpirun.Compares(name) {
			out = append(out, mpirun.Parameter{Name: name, Value: v.Value, From: "launch"})
		}
	}
	return out
}

// forwarded reports whether mpirun passes on a variable to the processes: what it reads itself is no matter of theirs.
func forwarded(name string) bool {
	return !slices.ContainsFunc([]string{"OMPI_", "PRTE_", "PMIX_", "HYDRA_", "I_MPI_HYDRA_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// setPerHost gives the line a section for each host, where the hosts need different values.
func (s *Start) setPerHost(names []string) {
	if len(names) == 0 {
		return
	}
	list := strings.Join(names, " ")
	sections, why := s.sections(names)
	var line launcher.Line
	if why == "" {
		var err error
		if line, err = launcher.Parse(s.Job.Line.InSections(sections), ""); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		s.UI.Note("not set, since the hosts need different values: %s (%s); to set them on each host: "+
			"mpirun … launch PROGRAM", list, why)
		return
	}
	s.Job.Line = line.Of(s.Job.MPI)
	s.UI.Note("set on each host, by a section of the line for each: %s", list)
}

// sections returns the section of each host that gets processes, with its own values of the variables, or why there
// are none.
func (s *Start) sections(names []string) (out []launcher.Section, why string) {
	run := s.Mpirun
	procs, ok := run.Procs(func(host string) int { return s.hostFacts[host].Cores })
	if !ok {
		if why = "launch does not know how many processes each host gets"; run.Placed != "" {
			why += ": " + run.Placed
		}
		return nil, why
	}
	for i, h := range run.Hosts {
		if procs[i] == 0 {
			continue
		}
		at := slices.IndexFunc(s.hostPlans, func(p planned) bool { return p.host == h.Name })
		if at < 0 {
			return nil, h.Name + " has not said what it needs"
		}
		one := launcher.Section{Host: h.Target(), Procs: procs[i]}
		for _, v := range s.hostPlans[at].vars {
			if slices.Contains(names, v.Name) && !v.Kept {
				one.Vars = append(one.Vars, v)
			}
		}
		out = append(out, one)
	}
	return out, ""
}

// dropUnfit takes the unfit hosts from the line, where the others have enough slots.
func (s *Start) dropUnfit() error {
	run := s.Mpirun
	run.Hosts = slices.DeleteFunc(slices.Clone(run.Hosts), func(h mpirun.Host) bool {
		return slices.Contains(s.unfitHosts, h.Name)
	})
	slots := 0
	for i, h := range run.Hosts {
		n := s.room(h)
		if run.Strict { // as Open MPI counts them
			run.Hosts[i].Slots = n
		}
		slots += n
	}
	who := finding.Some(s.unfitHosts)
	refuse := func(why string) error {
		return exit.Errorf(exit.Unfit, "%s unfit: %s; --drop-unfit cannot leave %s out: %s",
			finding.Count(len(s.unfitHosts), "host"), who, who, why).Do("fix the failures above, then start again")
	}
	facts := func(h mpirun.Host) mpirun.Facts { return s.hostFacts[h.Name] }
	counted := func(h mpirun.Host) int { return h.Slots }
	crowded := cmp.Or(hosts.Crowded(run, s.Job.MPI, facts, counted), hosts.Bound(run, s.Job.MPI, facts, counted).Why())
	switch {
	case len(run.Hosts) == 0:
		return refuse("no host is left")
	case len(s.Job.Line.Starts) > 1:
		return refuse("the line has several programs")
	case s.Job.MPI == "intel" && slices.ContainsFunc(run.Hosts, func(h mpirun.Host) bool {
		return h.Slots != run.Hosts[0].Slots
	}):
		return refuse("it takes numbers of processes from -machinefile alone")
	case crowded != "":
		return refuse(crowded)
	case (run.Strict || run.Forward) && run.NP > slots:
		return refuse(fmt.Sprintf("%d processes, and the others have %s", run.NP, finding.Count(slots, "slot")))
	}
	line, err := launcher.Parse(s.Job.Line.OnHosts(finding.Map(run.Hosts, hostWord)), "")
	if err != nil {
		return err
	}
	s.Job.Line = line.Of(s.Job.MPI)
	s.Mpirun = run
	s.Job.Hosts = finding.Map(run.Hosts, func(h mpirun.Host) string { return h.Name })
	s.UI.Note("without %s: the job runs on the other %s (--drop-unfit)", who, finding.Count(len(run.Hosts), "host"))
	return nil
}

// room returns how many processes a host has room for. Hydra itself counts none: it begins anew at the first host.
func (s *Start) room(h mpirun.Host) int {
	if run := s.Mpirun; h.Slots == 0 && run.Forward && (run.PerHost > 1 || run.Placed != "") {
		return run.PerHost
	}
	return cmp.Or(h.Slots, max(1, s.hostFacts[h.Name].Cores))
}

// hostWord returns a host as --host has it.
func hostWord(h mpirun.Host) string {
	if h.Slots > 0 {
		return fmt.Sprintf("%s:%d", h.Target(), h.Slots)
	}
	return h.Target()
}
