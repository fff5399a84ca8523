package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/envgen"
	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// env prints the plan, by --format, or why it is as it is.
func (a *app) env(c *cli.Context) error {
	if a.o.format == "" && !a.o.given["format"] { // a variable that is empty is not set
		a.o.format = envgen.Formats()[0]
	}
	if !slices.Contains(envgen.Formats(), a.o.format) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is one of %s, not %q", a.o.from("format"), strings.Join(envgen.Formats(), ", "), a.o.format), Fix: "eval \"$(launch env)\""}
	}
	s, err := a.look(c)
	if err != nil {
		return err
	}
	in := s.Input
	if c.NArg() == 0 {
		in.Torch = true
	}
	if s.Job.Several() && a.from != nil {
		in.World.Addr = s.Node.Route.Src
	} else if s.Job.Several() {
		p, err := a.place(c.Context, &s, firstLook)
		if err != nil {
			return err
		}
		in.World.Addr = p.Addr
	}
	a.ui.Findings(s.Job.Notes, false)
	a.ui.Findings(envgen.Lint(in), false)
	if a.o.explain {
		a.ui.Explain(envgen.Explain(in))
		return nil
	}
	return a.printPlan(in, s.Job)
}

func (a *app) printPlan(in envgen.Input, j job.Job) error {
	plan := envgen.Make(in)
	why := ""
	if len(plan) == 0 {
		why = "the libraries do the right thing by themselves here"
		if !j.Several() && j.Line.Kind != launcher.Mpirun {
			why = "one node needs none; with --nnodes N --store HOST the peers' network is taken into account"
		}
	}
	if a.ui.JSON() {
		for _, v := range plan {
			a.ui.Emit(true, "var", v)
		}
		a.ui.Emit(true, "plan", struct {
			Vars int    `json:"vars"`
			Why  string `json:"why,omitempty"`
		}{len(plan), why})
		return nil
	}
	format := a.o.format
	if format == "mpirun" && j.Line.Hydra() { // the line tells better
		format = "hydra"
	}
	text, err := envgen.Render(format, plan)
	if err != nil {
		return err
	}
	a.ui.Print(text)
	if format == "mpirun" || format == "hydra" {
		if names := perNode(in, plan); len(names) > 0 {
			a.ui.Note("%s: not set: per node (mpirun … launch PROGRAM sets it on each)", strings.Join(names, ", "))
			return nil
		}
	}
	if why != "" {
		a.ui.Note("nothing to set: %s", why)
	}
	return nil
}

// perNode are the variables that mpirun must not carry to other nodes.
func perNode(in envgen.Input, plan envgen.Plan) []string {
	var names []string
	for _, v := range plan {
		if v.Scope == setting.Node && !v.Kept {
			names = append(names, v.Name)
		}
	}
	for _, e := range envgen.Explain(in) {
		if e.PerNode {
			names = append(names, e.Name)
		}
	}
	return names
}

// planInput is all that a plan is computed from but what the rendezvous tells.
func (a *app) planInput(ctx context.Context, j job.Job, n fabric.Node) envgen.Input {
	in := envgen.Input{Node: n, Decided: j.Decided, World: envgen.World{Nodes: j.Nodes.V, Job: j.ID.V, Store: a.openStore(j)},
		Mpirun: j.Line.Kind == launcher.Mpirun, MPI: j.MPI, Uses: j.Uses}
	in.Torch = j.Line.Kind == launcher.Torchrun || python(j.Line)
	in.Script = j.Line.Inside || shell(j.Line)
	if j.Vouch == job.Scheduled && j.Tasks.LocalSize < 2 {
		in.World.Hosts = j.Hosts
	}
	if in.Mpirun {
		in.World = a.mpirunWorld(ctx, j, n)
	}
	in.Files = readFiles(a.root(), envgen.Paths(in))
	return in
}

// openStore is the store of the nodes where any program may use it.
func (a *app) openStore(j job.Job) []string {
	var urls []string
	for _, e := range j.Store.V.Endpoints {
		if j.Store.V.Embedded {
			e = "http://" + e
		}
		if !strings.HasPrefix(e, "http://") || a.keys != nil && j.Store.V.Embedded || a.o.access.User != "" {
			return nil
		}
		urls = append(urls, e)
	}
	return urls
}

// maxFile is more than any file that a rule asks for.
const maxFile = 1 << 20

// readFiles is what stands in those of the files that exist; nil: there is no
// place to look.
func readFiles(root fs.FS, names []string) map[string]string {
	if root == nil {
		return nil
	}
	files := map[string]string{}
	for _, name := range names {
		f, err := root.Open(strings.TrimPrefix(name, "/"))
		if err != nil {
			continue
		}
		text := ""
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			b, _ := io.ReadAll(io.LimitReader(f, maxFile))
			text = string(b)
		}
		_ = f.Close()
		files[name] = text
	}
	return files
}

// shell tells whether the program is a shell, or a script for one.
func shell(l launcher.Line) bool {
	if l.Kind != launcher.Program || l.Program >= len(l.Argv) {
		return false
	}
	base := filepath.Base(l.Argv[l.Program])
	return strings.HasSuffix(base, ".sh") || slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, base)
}

// python tells whether a plain program is a Python one: then it may use Gloo.
func python(l launcher.Line) bool {
	for _, w := range l.Argv[:min(len(l.Argv), l.Rest+1)] {
		base := w[strings.LastIndexByte(w, '/')+1:]
		if strings.HasPrefix(base, "python") || strings.HasSuffix(base, ".py") {
			return true
		}
	}
	return false
}

// mpirunWorld is the hosts of mpirun's own list, as this head sees them; those
// whose address is not known are not among the peers. A name that means this
// machine stands for the address by which the others reach it, whatever stands
// behind the name here. Of a recording, and for a dry run, no name is asked for.
func (a *app) mpirunWorld(ctx context.Context, j job.Job, n fabric.Node) envgen.World {
	w := envgen.World{Nodes: max(len(j.Hosts), 1)}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	own := func(addr netip.Addr) bool { return addr.IsLoopback() || n.IsLocal(addr) }
	for _, h := range j.Hosts {
		addr, err := netip.ParseAddr(h)
		if err != nil && a.from == nil && !a.o.dryRun {
			var all []netip.Addr
			if all, err = net.DefaultResolver.LookupNetIP(ctx, "ip", h); len(all) > 0 {
				addr = all[0].Unmap()
			}
		}
		if err != nil || !addr.IsValid() {
			continue
		}
		if w.Peers = append(w.Peers, addr); own(addr) && w.Addr.IsValid() {
			continue
		}
		if a.from != nil {
			w.Addr = n.Route.Src
		} else if r, err := fabric.RouteTo(addr); err == nil {
			w.Addr = r.Src
		}
	}
	for i, addr := range w.Peers {
		if own(addr) && w.Addr.IsValid() {
			w.Peers[i] = w.Addr
		}
	}
	return w
}
