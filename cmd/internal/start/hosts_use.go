package start

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/setting"
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
	differ = slices.DeleteFunc(differ, decided)
	if len(differ) > 0 {
		s.UI.Note("not set, since mpirun has one value for all hosts and they need different ones: %s; to set them on "+
			"each host: mpirun … launch PROGRAM", strings.Join(differ, " "))
	}
	return plan
}

// dropUnfit takes the unfit hosts from the line, where the others have enough slots.
func (s *Start) dropUnfit() error {
	run := s.Mpirun
	run.Hosts = slices.DeleteFunc(slices.Clone(run.Hosts), func(h mpirun.Host) bool {
		return slices.Contains(s.unfitHosts, h.Name)
	})
	slots := 0
	for i, h := range run.Hosts {
		if h.Slots == 0 && run.Strict { // as Open MPI counts them
			run.Hosts[i].Slots = max(1, s.hostCores[h.Name])
		}
		slots += run.Hosts[i].Slots
	}
	who := finding.Some(s.unfitHosts)
	refuse := func(why string) error {
		return exit.Errorf(exit.Unfit, "%s unfit: %s; --drop-unfit cannot leave %s out: %s",
			finding.Count(len(s.unfitHosts), "host"), who, who, why).Do("fix the failures above, then start again")
	}
	switch {
	case len(run.Hosts) == 0:
		return refuse("no host is left")
	case len(s.Job.Line.Starts) > 1:
		return refuse("the line has several programs")
	case run.Strict && run.NP > slots:
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

// hostWord returns a host as --host has it.
func hostWord(h mpirun.Host) string {
	if h.Slots > 0 {
		return fmt.Sprintf("%s:%d", h.Target(), h.Slots)
	}
	return h.Target()
}
